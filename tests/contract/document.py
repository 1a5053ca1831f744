"""The OpenAPI document as tests read it: its operations, their bodies, and validators for both."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import jsonschema_rs
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT_PATH = REPOSITORY / "openapi" / "tinker.yaml"
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
_SCHEMA_REF = "#/components/schemas/"


@functools.cache
def load_document() -> dict[str, Any]:
    """Return the parsed document."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = DOCUMENT_PATH.read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=loader)
    return loaded


def schema_name(schema: dict[str, Any]) -> str | None:
    """Return the component a schema refers to, or None for an inline schema."""
    reference = schema.get("$ref", "")
    return reference.removeprefix(_SCHEMA_REF) if reference.startswith(_SCHEMA_REF) else None


@attrs.frozen(eq=False)
class Operation:
    """One method on one path template, with every reference but schema references resolved."""

    method: str
    template: str
    raw: dict[str, Any]
    document: dict[str, Any]

    @property
    def id(self) -> str:
        """The operationId."""
        return str(self.raw["operationId"])

    @property
    def tag(self) -> str:
        """The first tag, which names the generated module's package."""
        return str(self.raw["tags"][0])

    @property
    def eras(self) -> tuple[str, ...]:
        """The server eras that know the operation."""
        return tuple(self.raw.get("x-tinker-eras", ()))

    @functools.cached_property
    def parameters(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Parameters by place (query, path, header) and name; header names in lower case."""
        item = self.document["paths"][self.template]
        found = {}
        for entry in [*item.get("parameters", ()), *self.raw.get("parameters", ())]:
            parameter = resolve(self.document, entry)
            name = parameter["name"].lower() if parameter["in"] == "header" else parameter["name"]
            found[parameter["in"], name] = parameter
        return found

    @property
    def request_content(self) -> dict[str, dict[str, Any]]:
        """Schemas of the request body by media type."""
        body = resolve(self.document, self.raw.get("requestBody", {}))
        return {media: entry["schema"] for media, entry in body.get("content", {}).items()}

    @property
    def responses(self) -> dict[str, dict[str, Any]]:
        """Responses by status or status range."""
        return {
            str(status): resolve(self.document, response)
            for status, response in self.raw["responses"].items()
        }

    def response_for(self, status: int) -> dict[str, Any] | None:
        """Return the response documented for a status, exact codes before ranges."""
        responses = self.responses
        return responses.get(str(status)) or responses.get(f"{status // 100}XX")


def resolve(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Follow a local reference once, if the node is one."""
    reference = node.get("$ref")
    if reference is None:
        return node
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return dict(found)


def operations() -> Iterator[Operation]:
    """Yield every operation of the document."""
    document = load_document()
    for template, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield Operation(method.upper(), template, item[method], document)


@functools.cache
def _routes() -> tuple[tuple[re.Pattern[str], Operation], ...]:
    found = []
    for operation in operations():
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(operation.template))
        found.append((re.compile(pattern), operation))
    # A literal segment wins over a parameter: sessions/search is not a session called search.
    return tuple(sorted(found, key=lambda route: route[1].template.count("{")))


def find_operation(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Match a request line to its operation and path parameters; a base path is passed over."""
    start = path.find("/api/")
    for pattern, operation in _routes():
        match = pattern.fullmatch(path, max(start, 0))
        if match and operation.method == method.upper():
            return operation, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


@functools.cache
def component_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    """Return the validator of one component schema."""
    return _validator({"$ref": _SCHEMA_REF + name})


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """Return a validator for a schema found in the document."""
    name = schema_name(schema)
    return component_validator(name) if name else _inline_validator(json.dumps(schema))


@functools.cache
def _inline_validator(text: str) -> jsonschema_rs.Draft202012Validator:
    return _validator(json.loads(text))


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    bundle = {**schema, "components": {"schemas": load_document()["components"]["schemas"]}}
    return jsonschema_rs.Draft202012Validator(bundle, validate_formats=True)
