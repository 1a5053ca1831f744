"""Fails on what the generator, or our templates, would drop from the document without a word.

    python codegen/check_doc.py [document]      exit 0 clean, 1 with one line for each finding

Each rule is one generator function below; its docstring says what would get lost.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codegen.document import METHODS, Node, follow, load, operations, ref_name

DOCUMENT = Path(__file__).resolve().parent.parent / "openapi" / "tinker.yaml"
EXTENSIONS = frozenset(
    {
        "x-always-send",
        "x-client-only",
        "x-closed-enum",
        "x-decision-order",
        "x-default",
        "x-empty-results",
        "x-known-values",
        "x-null-meaningful",
        "x-protobuf",
        "x-secret",
        "x-tinker-call",
        "x-tinker-eras",
    }
)
CALL_KEYS = frozenset({"lane", "retry", "seconds", "feature", "yields", "request-type", "accept"})
LANES = ("session", "train", "sample", "poll", "telemetry", "rest")
RETRIES = ("read", "dedupe", "unsafe", "final409", "poll", "once")
LITERALS = frozenset({"default", "const", "enum", "example", "examples", "required", "tags"})
NAMED = frozenset(
    {
        "properties",
        "schemas",
        "responses",
        "parameters",
        "headers",
        "requestBodies",
        "securitySchemes",
        "content",
        "paths",
        "mapping",
        "variables",
        "patternProperties",
        "dependentSchemas",
        "$defs",
    }
)
STRUCTURE = (
    "$anchor",
    "$defs",
    "$dynamicRef",
    "$id",
    "dependentSchemas",
    "else",
    "if",
    "patternProperties",
    "prefixItems",
    "then",
    "unevaluatedProperties",
)
Finding = tuple[str, str]
Rule = Callable[[Node], Iterator[Finding]]


def nodes(node: Any, path: str = "#", *, named: bool = False) -> Iterator[tuple[str, Node]]:
    """Yield every (path, object) of the document, skipping literal values and bare name tables."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from nodes(item, f"{path}/{index}")
    elif isinstance(node, dict):
        if not named:
            yield path, node
        for key, value in node.items():
            if not named and (key in LITERALS or str(key).startswith("x-")):
                continue
            yield from nodes(value, f"{path}/{key}", named=not named and key in NAMED)


def schemas(document: Node) -> Iterator[tuple[str, Node]]:
    """Yield every (path, schema) of the document."""
    marks = {"type", "properties", "allOf", "oneOf", "anyOf", "enum", "const", "items", "$ref"}
    for path, node in nodes(document):
        inside = re.search(r"/schemas/|/schema(/|$)", path)
        if inside and (marks & node.keys() or any(key in node for key in STRUCTURE)):
            yield path, node


def version(document: Node) -> Iterator[Finding]:
    """Only 3.0 and 3.1 are read."""
    if not re.fullmatch(r"3\.[01]\.\d+", str(document.get("openapi", ""))):
        yield "#/openapi", "the generator reads OpenAPI 3.0 and 3.1 only"


def references(document: Node) -> Iterator[Finding]:
    """Siblings of a reference, remote references and references to paths are ignored."""
    for path, node in nodes(document):
        if "$ref" not in node:
            continue
        target = str(node["$ref"])
        siblings = sorted(str(key) for key in node if key != "$ref")
        if siblings:
            yield path, f"{', '.join(siblings)} beside $ref is ignored; write allOf: [$ref] instead"
        if not target.startswith("#/components/"):
            yield path, f"reference {target!r} is not below #/components and gets lost"
            continue
        try:
            follow(document, node)
        except (KeyError, ValueError, TypeError):
            yield path, f"reference {target!r} points nowhere"


def compositions(document: Node) -> Iterator[Finding]:
    """Alternatives inside allOf vanish; so does a schema with a const over an inherited text."""
    for path, node in schemas(document):
        parts = [
            follow(document, part) if "$ref" in part else part for part in node.get("allOf", [])
        ]
        for index, part in enumerate(parts):
            only = len(parts) == 1 and "$ref" in node["allOf"][0]
            if not only and (part.get("oneOf") or part.get("anyOf")):
                yield f"{path}/allOf/{index}", "oneOf or anyOf inside allOf is dropped"
        if node.get("allOf") and (node.get("oneOf") or node.get("anyOf")):
            yield path, "oneOf or anyOf beside allOf is dropped"
        own = [node, *parts]
        for name in {name for part in own for name in part.get("properties", {})}:
            found = [part["properties"][name] for part in own if name in part.get("properties", {})]
            if len(found) > 1 and any("const" in item for item in found):
                yield path, f"const {name!r} over an inherited property removes the whole schema"


def defaults(document: Node) -> Iterator[Finding]:
    """Defaults that are arrays or objects are dropped."""
    for path, node in schemas(document):
        if isinstance(node.get("default"), (list, dict)):
            yield path, "a default that is an array or object is dropped; write x-default"
        if "const" in node and node["const"] is None:
            yield path, "const null becomes any value; write type: 'null'"
        if "const" in node and node.get("default", node["const"]) != node["const"]:
            yield path, "the default of a const must be the const"
        choices = node.get("enum")
        if choices and node.get("default") is not None and node["default"] not in choices:
            yield path, f"default {node['default']!r} is not in the enum"


def enums(document: Node) -> Iterator[Finding]:
    """Enumerations of mixed, boolean or fractional values are dropped."""
    for path, node in schemas(document):
        kinds = {type(value) for value in node.get("enum", []) if value is not None}
        if kinds and kinds not in ({str}, {int}):
            yield path, "an enum must have only strings or only integers"
        if node.get("nullable") is not None:
            yield path, "nullable is OpenAPI 3.0; write type: [..., 'null']"


def structure(document: Node) -> Iterator[Finding]:
    """Keywords that shape values but reach no generated class."""
    for path, node in schemas(document):
        for word in STRUCTURE:
            if word in node and not only_demands(node[word]):
                yield path, f"{word} has no effect on generated code"
        if node.get("type") == "array" and not isinstance(node.get("items"), dict):
            yield path, "an array needs items with a schema"
        known = set(node.get("properties", {}))
        for part in node.get("allOf", []):
            known |= set(follow(document, part).get("properties", {}) if "$ref" in part else part)
            known |= set(part.get("properties", {}))
        for name in node.get("required", []) if "properties" in node else []:
            if name not in known:
                yield path, f"required names {name!r}, which is not a property"


def only_demands(node: Any) -> bool:
    """Tell whether a condition only asks for keys, which validators see and classes need not."""
    logic = {"required", "not", "allOf", "anyOf", "oneOf"}
    return isinstance(node, dict) and all(inner.keys() <= logic for _, inner in nodes(node))


def constants(schema: Node) -> set[Any]:
    """Return the constants of a property, also as one alternative beside null."""
    parts = [schema, *schema.get("oneOf", []), *schema.get("anyOf", [])]
    return {part["const"] for part in parts if "const" in part}


def unions(document: Node) -> Iterator[Finding]:
    """A discriminator is ignored by the generator: our codecs read the const of each member."""
    for path, node in schemas(document):
        discriminator = node.get("discriminator")
        members = node.get("oneOf") or node.get("anyOf") or []
        names = {ref_name(member) for member in members if "$ref" in member}
        if discriminator:
            tag = discriminator.get("propertyName")
            for value, target in discriminator.get("mapping", {}).items():
                name = str(target).rpartition("/")[2]
                schema = document["components"]["schemas"].get(name, {})
                if name not in names:
                    yield path, f"discriminator maps {value!r} to {name}, which is not a member"
                elif constants(schema.get("properties", {}).get(tag, {})) != {value}:
                    yield path, f"{name}.{tag} must be const {value!r}, as the discriminator says"
        for name in node.get("x-empty-results", []):
            if name not in names:
                yield path, f"x-empty-results names {name}, which is not a member"
            elif document["components"]["schemas"][name].get("required"):
                yield path, f"x-empty-results names {name}, which requires keys"
        for line in node.get("x-decision-order", []):
            found = re.fullmatch(r"(?:\w+ is \w+|key \w+ is present): (\w+)", line)
            if not found and not line.startswith("otherwise:"):
                yield path, f"x-decision-order cannot be read: {line!r}"
            elif found and found[1] not in names:
                yield path, f"x-decision-order names {found[1]}, which is not a member"


def extensions(document: Node) -> Iterator[Finding]:
    """A misspelt extension does nothing."""
    for path, node in nodes(document):
        for key in node:
            if str(key).startswith("x-") and key not in EXTENSIONS:
                yield path, f"{key} is not an extension the generator or the document knows"


def paths(document: Node) -> Iterator[Finding]:
    """Parts of paths and operations that no generated function shows."""
    seen: dict[tuple[str, str], str] = {}
    for path, item in document.get("paths", {}).items():
        where = f"#/paths/{path}"
        for key in item:
            if key not in (*METHODS, "parameters", "summary", "description"):
                yield where, f"{key} of a path is ignored"
    for method, path, operation in operations(document):
        where = f"#/paths/{path}/{method}"
        for key in ("callbacks", "servers"):
            if key in operation:
                yield where, f"{key} of an operation is ignored"
        tags = operation.get("tags", [])
        if len(tags) != 1:
            yield where, "an operation needs exactly one tag; only the first becomes a module"
        name = operation.get("operationId")
        if not name:
            yield where, "an operation needs an operationId"
        elif (tags[:1] or [""])[0] and (tags[0], name) in seen:
            yield where, f"operationId {name!r} overwrites {seen[tags[0], name]}"
        else:
            seen[(tags[:1] or [""])[0], name] = where
        body = follow(document, operation.get("requestBody") or {})
        yield from media(f"{where}/requestBody", body, request=True)
        for status, response in operation.get("responses", {}).items():
            answer = follow(document, response)
            if "links" in answer:
                yield f"{where}/responses/{status}", "links are ignored"
            if not re.fullmatch(r"[1-5](\d\d|XX)|default", str(status)):
                yield f"{where}/responses/{status}", "not a status; the response is dropped"
            yield from media(f"{where}/responses/{status}", answer, request=False)
    for key in ("webhooks",):
        if key in document:
            yield f"#/{key}", f"{key} are ignored"


def media(where: str, node: Node, *, request: bool) -> Iterator[Finding]:
    """Media types beyond one JSON schema and opaque bytes or text."""
    kinds = [str(kind).partition(";")[0].strip().lower() for kind in node.get("content", {})]
    json = [kind for kind in kinds if kind == "application/json" or kind.endswith("+json")]
    if len(json) > 1:
        yield where, f"only one JSON media type is read, not {', '.join(json)}"
    if request and len(kinds) - len(json) > 1:
        yield where, "only one binary media type can be sent"
    for kind in kinds:
        if kind.startswith("multipart/") or kind == "application/x-www-form-urlencoded":
            yield where, f"{kind} bodies have no template"
        if kind == "text/event-stream" or kind.endswith("xml"):
            yield where, f"{kind} would be read as one block of text"


def parameters(document: Node) -> Iterator[Finding]:
    """Parameters the generator skips, or would send in another form."""
    for path, node in nodes(document):
        if "in" not in node or "name" not in node or "/securitySchemes/" in path:
            continue
        if "schema" not in node:
            yield path, "a parameter without schema is skipped"
            continue
        schema = follow(document, node["schema"])
        if node["in"] in ("header", "cookie", "path") and schema.get("type") in ("array", "object"):
            yield path, f"a {node['in']} parameter must be one value"
        if node.get("style", "form" if node["in"] in ("query", "cookie") else "simple") not in (
            "form",
            "simple",
        ):
            yield path, "only the usual parameter style is sent"
        if node.get("explode") is False and schema.get("type") == "array":
            yield path, "explode: false is ignored; a list repeats its key"
        if node.get("allowReserved"):
            yield path, "allowReserved is ignored; values are quoted"


def security(document: Node) -> Iterator[Finding]:
    """Security is not generated: the client sends one header, X-API-Key unless told otherwise."""
    for name, scheme in document.get("components", {}).get("securitySchemes", {}).items():
        if scheme.get("type") != "apiKey" or scheme.get("in") != "header":
            where = f"#/components/securitySchemes/{name}"
            yield where, "only credentials in a header are sent"


def calls(document: Node) -> Iterator[Finding]:
    """The table of operations is made of x-tinker-call; without it a call cannot be sent."""
    seen: dict[str, str] = {}
    for method, path, operation in operations(document):
        where = f"#/paths/{path}/{method}"
        constant = str(operation.get("operationId", "")).upper()
        if constant in ("OPERATION", "OPERATIONS"):
            yield where, f"operationId {operation['operationId']!r} is a name of the table itself"
        if constant and constant in seen:
            yield where, f"operationId {operation['operationId']!r} is that of {seen[constant]} too"
        seen[constant] = where
        if not operation.get("x-tinker-eras"):
            yield where, "x-tinker-eras must name the eras that know the operation, oldest first"
        yield from arguments(document, where, path, operation)
        call = operation.get("x-tinker-call")
        if not isinstance(call, dict):
            yield where, "an operation needs x-tinker-call: lane, retry, seconds, feature"
            continue
        for key in sorted(call.keys() - CALL_KEYS):
            yield where, f"x-tinker-call has no key {key!r}; it has {', '.join(sorted(CALL_KEYS))}"
        for key, known in (("lane", LANES), ("retry", RETRIES)):
            if call.get(key) not in known:
                yield where, f"{key} is {call.get(key)!r}; use one of {', '.join(known)}"
        seconds = call.get("seconds")
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not 0 < float(str(seconds)) <= 3600:
            yield where, f"seconds is {seconds!r}; use a number above 0 and up to 3600"
        if not isinstance(call.get("feature"), str) or not call["feature"].strip():
            yield where, "feature must say in words what a server without the operation lacks"
        yield from yields(document, where, operation, call)


def yields(document: Node, where: str, operation: Node, call: Node) -> Iterator[Finding]:
    """An operation that gives a ticket must say what the ticket stands for, and no other may."""
    replies = {
        ref_name(schema)
        for status, response in operation.get("responses", {}).items()
        if str(status).startswith("2")
        for content in follow(document, response).get("content", {}).values()
        if "$ref" in (schema := content.get("schema", {}))
    }
    ticket = "UntypedAPIFuture" in replies
    if ticket != ("yields" in call) or ticket != ("request-type" in call):
        need = "needs yields and request-type" if ticket else "has yields or request-type"
        yield where, f"x-tinker-call {need}, the reply is {'' if ticket else 'not '}a ticket"
        return
    if not ticket:
        return
    union = document["components"]["schemas"].get("FutureRetrieveResponse", {})
    members = [ref_name(member) for member in union.get("oneOf") or union.get("anyOf") or []]
    if call["yields"] not in members:
        yield where, f"yields is {call['yields']!r}; use one of {', '.join(members)}"
    types: list[str] = next(
        (
            follow(document, node["schema"]).get("enum", [])
            for _, node in nodes(document)
            if node.get("name") == "X-Tinker-Request-Type" and "schema" in node
        ),
        [],
    )
    if call["request-type"] not in types:
        yield where, f"request-type is {call['request-type']!r}; use one of {', '.join(types)}"


def arguments(document: Node, where: str, path: str, operation: Node) -> Iterator[Finding]:
    """Arguments are given by name, so path, query and body may not share one."""
    shared = document["paths"][path].get("parameters", [])
    given = [follow(document, node) for node in [*shared, *operation.get("parameters", [])]]
    names = [str(node.get("name")) for node in given if node.get("in") in ("path", "query")]
    body = follow(document, operation.get("requestBody") or {}).get("content", {})
    for kind, content in body.items():
        if kind == "application/json":
            schema = content.get("schema", {})
            target = follow(document, schema) if "$ref" in schema else {}
            if target.get("type") != "object" or "properties" not in target:
                yield where, "a JSON body must be a reference to an object with properties"
            names += target.get("properties", {})
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield where, f"{name!r} is an argument twice: in path, query and body names must differ"


RULES: tuple[Rule, ...] = (
    version,
    references,
    compositions,
    defaults,
    enums,
    structure,
    unions,
    extensions,
    paths,
    calls,
    parameters,
    security,
)


def findings(document: Node) -> list[Finding]:
    """Return every (path, problem) of a document, sorted."""
    found: list[Finding] = []
    for rule in RULES:
        try:
            found.extend(rule(document))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            found.append(("#", f"{rule.__name__} cannot be checked: {error!r}"))
    return sorted(set(found))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("document", nargs="?", type=Path, default=DOCUMENT)
    options = parser.parse_args(arguments)
    found = findings(load(options.document))
    for path, problem in found:
        print(f"{path}: {problem}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
