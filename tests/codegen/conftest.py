"""A small document with every awkward feature, as a fixture each test may edit.

Tests that run the generator need openapi-python-client, ruff and grpcio-tools. `nox -s drift` has
them and runs all of this folder; without them only the tests of the document tools are collected.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

NEEDED = ("openapi_python_client", "ruff", "grpc_tools")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_generator_*.py"]


@pytest.fixture
def document() -> dict[str, Any]:
    """A clean document: one operation each way, unions, enums, defaults, maps, nullables."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Small", "version": "0.1.0", "description": "Words."},
        "paths": {
            "/things/{thing_id}": {
                "post": {
                    "operationId": "make_thing",
                    "tags": ["things"],
                    "summary": "Make it",
                    "description": "Makes a thing.",
                    "x-tinker-eras": ["0.36.0"],
                    "x-tinker-call": {
                        "lane": "rest",
                        "retry": "dedupe",
                        "seconds": 60,
                        "feature": "making of things",
                    },
                    "parameters": [
                        {
                            "name": "thing_id",
                            "in": "path",
                            "required": True,
                            "description": "Which.",
                            "schema": {"type": "string"},
                        },
                        {
                            "name": "X-Mode",
                            "in": "header",
                            "description": "How.",
                            "schema": {"type": "string", "enum": ["fast", "slow"]},
                        },
                        {"name": "page", "in": "query", "schema": {"type": "integer"}},
                    ],
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": ref("Request")}},
                    },
                    "responses": {
                        "200": {
                            "description": "Done.",
                            "content": {"application/json": {"schema": ref("Reply")}},
                        }
                    },
                }
            }
        },
        "components": {
            "schemas": {
                "Color": {"type": "string", "enum": ["red", "green"], "description": "A color."},
                "Cat": {
                    "type": "object",
                    "title": "Cat",
                    "description": "Purrs.",
                    "properties": {
                        "kind": {"type": "string", "const": "cat", "default": "cat"},
                        "lives": {"type": "integer", "default": 9},
                    },
                },
                "Dog": {
                    "type": "object",
                    "description": "Barks.",
                    "properties": {
                        "kind": {"type": "string", "const": "dog", "default": "dog"},
                        "name": {"type": "string", "default": "Rex", "description": "Call it so."},
                    },
                },
                "Pet": {
                    "description": "One of them.",
                    "oneOf": [ref("Cat"), ref("Dog")],
                    "discriminator": {
                        "propertyName": "kind",
                        "mapping": {
                            "cat": "#/components/schemas/Cat",
                            "dog": "#/components/schemas/Dog",
                        },
                    },
                },
                "Request": {
                    "type": "object",
                    "description": "Asks.",
                    "required": ["numbers"],
                    "properties": {
                        "numbers": {"type": "array", "items": {"type": "number"}},
                        "color": {"allOf": [ref("Color")], "default": "red"},
                        "limit": {"type": ["integer", "null"], "minimum": 1},
                    },
                },
                "Reply": {
                    "type": "object",
                    "description": "Answers.",
                    "required": ["pet"],
                    "properties": {
                        "pet": ref("Pet"),
                        "pets": {"type": "array", "items": ref("Pet")},
                        "marks": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                            "x-default": {},
                        },
                    },
                },
            }
        },
    }


def ref(name: str) -> dict[str, str]:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}
