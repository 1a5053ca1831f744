"""The API document as the server uses it: which operations there are and what fits their bodies.

`contract.json` is the document of `openapi/tinker.yaml` without prose, so that the server starts
fast and needs no YAML parser; `nox -s regenerate` writes it, and `nox -s drift` compares the two.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import orjson

from tinker_ext.mock.messages import HttpError

logger = logging.getLogger(__name__)
FILE = Path(__file__).with_name("contract.json")
# What only people and clients read.
PROSE = (
    "description",
    "summary",
    "example",
    "examples",
    "tags",
    "headers",
    "x-always-send",
    "x-decision-order",
    "x-empty-results",
    "x-tinker-call",
)


@attrs.frozen
class Operation:
    """One operation of the document.

    Attributes:
        eras: Server generations that know it.
        body: Pointer to the JSON request schema, None when there is no body.
        media: Media types of the request body.
        responses: Status (or `5XX`) → pointer to the JSON schema, None for no JSON body.
        query: Query parameters, name → (required, schema).
    """

    operation_id: str
    method: str
    template: str
    eras: tuple[str, ...]
    body: Any
    media: tuple[str, ...]
    responses: Mapping[str, Any]
    query: Mapping[str, tuple[bool, Any]]
    path_parameters: Mapping[str, Any]


class Contract:
    """Operations of the document and validators compiled on first use.

    Args:
        document: The document, with or without prose.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._schemas = {"components": {"schemas": document["components"]["schemas"]}}
        self._validators: dict[bytes, Any] = {}
        self.operations: dict[tuple[str, str], Operation] = {}
        for template, item in document["paths"].items():
            for method, operation in item.items():
                if method in ("get", "post", "put", "delete", "patch"):
                    found = self._operation(method.upper(), template, operation)
                    self.operations[found.method, template] = found

    def validator(self, schema: Any) -> Any:
        """Return the compiled validator of a schema or `$ref`."""
        key = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
        found = self._validators.get(key)
        if found is None:
            found = _compiled({**schema, **self._schemas})
            self._validators[key] = found
        return found

    def check_body(self, operation: Operation, value: Any) -> None:
        """Check a request body.

        Raises:
            HttpError: 422 with the JSON path of each fault.
        """
        if operation.body is None:
            return
        validator = self.validator(operation.body)
        if not validator.is_valid(value):
            raise HttpError(422, faults(validator, value, "body"))

    def read_query(
        self, operation: Operation, values: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Convert and check query parameters; absent ones get the document's default.

        Raises:
            HttpError: 422 with the name of each fault.
        """
        result: dict[str, Any] = {}
        wrong: list[dict[str, Any]] = []
        for name, (required, schema) in operation.query.items():
            if name not in values:
                if required:
                    wrong.append(_fault(["query", name], "Field required", "missing"))
                elif "default" in schema:
                    result[name] = schema["default"]
                continue
            value = _convert(values[name][-1], schema)
            validator = self.validator(schema)
            if validator.is_valid(value):
                result[name] = value
            else:
                wrong += faults(validator, value, "query", name)
        if wrong:
            raise HttpError(422, wrong)
        return result

    def check_path(self, operation: Operation, values: Mapping[str, str]) -> None:
        """Check path parameters.

        Raises:
            HttpError: 422 with the name of each fault.
        """
        for name, schema in operation.path_parameters.items():
            validator = self.validator(schema)
            if not validator.is_valid(values[name]):
                raise HttpError(422, faults(validator, values[name], "path", name))

    def violation(
        self, operation: Operation, status: int, body: bytes | None, schema: Any = None
    ) -> str:
        """Return how a reply breaks the document, "" when it fits.

        Args:
            operation: What was asked for.
            status: Status of the reply.
            body: Its JSON text; None for a reply without a JSON body.
            schema: A closer schema than the document's union.
        """
        responses = operation.responses
        key = next((k for k in (str(status), f"{status // 100}XX") if k in responses), None)
        if key is None:
            return f"{operation.operation_id}: status {status} is not documented"
        schema = schema or responses[key]
        if schema is None or body is None:
            return ""
        validator = self.validator(schema)
        plain = orjson.loads(body)
        if validator.is_valid(plain):
            return ""
        first = faults(validator, plain, "response")[0]
        where = ".".join(str(step) for step in first["loc"])
        return f"{operation.operation_id} {status}: {where}: {first['msg']}"

    def _operation(self, method: str, template: str, value: Mapping[str, Any]) -> Operation:
        content = self._resolve(value.get("requestBody", {})).get("content", {})
        responses = {}
        for status, response in value["responses"].items():
            media = self._resolve(response).get("content", {}).get("application/json", {})
            responses[str(status)] = media.get("schema")
        parameters = [self._resolve(p) for p in value.get("parameters", ())]
        return Operation(
            value["operationId"],
            method,
            template,
            tuple(value.get("x-tinker-eras", ())),
            content.get("application/json", {}).get("schema"),
            tuple(content),
            responses,
            {
                p["name"]: (bool(p.get("required")), self._flat(p["schema"]))
                for p in parameters
                if p["in"] == "query"
            },
            {p["name"]: p["schema"] for p in parameters if p["in"] == "path"},
        )

    def _resolve(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        pointer = value.get("$ref")
        if pointer is None:
            return value
        found: Any = self.document
        for step in pointer.removeprefix("#/").split("/"):
            found = found[step]
        return self._resolve(found)

    def _flat(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in schema and "type" not in schema:
            return {**self._resolve(schema), **{k: v for k, v in schema.items() if k != "$ref"}}
        return schema


class _Unchecked:
    """Stands in where jsonschema-rs is not installed: the server runs, unchecked."""

    def is_valid(self, value: Any) -> bool:
        return True


def _compiled(schema: Mapping[str, Any]) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        logger.info("bodies are not checked: install tinker-ext[server] for jsonschema-rs")
        return _Unchecked()
    return jsonschema_rs.Draft202012Validator(dict(schema))


def _convert(text: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "integer":
        try:
            return int(text)
        except ValueError:
            return text
    if schema.get("type") == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


def _fault(loc: Sequence[Any], message: str, kind: str) -> dict[str, Any]:
    return {"loc": list(loc), "msg": message, "type": kind}


def faults(validator: Any, value: Any, *root: str) -> list[dict[str, Any]]:
    """List what is wrong with a value as FastAPI does, at most ten faults."""
    found: list[dict[str, Any]] = []
    for error in validator.iter_errors(value):
        for inner in _closest(error):
            missing = getattr(inner.kind, "property", None)
            where = [*root, *inner.instance_path, *([missing] if missing else ())]
            found.append(_fault(where, _message(inner), "missing" if missing else _rule(inner)))
        if len(found) >= 10:
            break
    return found


def _rule(error: Any) -> str:
    return str(getattr(error.kind, "name", type(error.kind).__name__.lower()))


def _message(error: Any) -> str:
    message = str(error.message)
    return message if len(message) <= 300 else f"{message[:120]} … {message[-120:]}"


def _closest(error: Any) -> list[Any]:
    """Of a failed union, return the faults of the member that was most likely meant."""
    branches = getattr(error.kind, "context", None)
    if not branches:
        return [error]
    tagged = [b for b in branches if not any(e.instance_path[-1:] == ["type"] for e in b)]
    best = min(tagged or branches, key=lambda b: (len(b), -max(len(e.instance_path) for e in b)))
    return [inner for e in best for inner in _closest(e)]


@cache
def load() -> Contract:
    """Return the shipped contract, parsed once per process."""
    return Contract(orjson.loads(FILE.read_bytes()))


def without_prose(value: Any, *, names: bool = False) -> Any:
    """Drop what the server does not need; below `properties` and the like every key is a name."""
    if isinstance(value, Mapping):
        return {
            key: without_prose(
                item,
                names=not names
                and key in ("properties", "schemas", "paths", "parameters", "responses", "$defs"),
            )
            for key, item in value.items()
            if names or key not in PROSE
        }
    if isinstance(value, list):
        return [without_prose(item) for item in value]
    return value


def build(yaml_file: Path) -> bytes:
    """Return the bytes of `contract.json` for a document."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(yaml_file.read_text("utf-8"), Loader=loader)
    kept = {
        "openapi": document["openapi"],
        "paths": without_prose(document["paths"], names=True),
        "components": without_prose(document["components"]),
    }
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n"
