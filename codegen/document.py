"""Reads the OpenAPI document and prepares the copy that the generator sees."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
Node = dict[str, Any]


def load(path: Path) -> Node:
    """Read a YAML document."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast(Node, yaml.load(path.read_text(encoding="utf-8"), loader))


def ref_name(node: Node) -> str:
    """Return the last part of a reference."""
    return str(node["$ref"]).rpartition("/")[2]


def follow(document: Node, node: Node) -> Node:
    """Return what a local reference points to, or the node itself."""
    seen = 0
    while "$ref" in node:
        target: Any = document
        for part in str(node["$ref"]).lstrip("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
        seen += 1
        if seen > 100:
            raise ValueError(f"circular reference {node['$ref']}")
    return node


def property_schema(document: Node, schema: Node, name: str) -> Node:
    """Return what a schema says of one property, parts of `allOf` and the target merged."""
    merged: Node = {}
    for part in schema.get("allOf", []):
        merged.update(property_schema(document, follow(document, part), name))
    own = schema.get("properties", {}).get(name)
    if own is not None:
        for layer in [
            *(follow(document, part) for part in own.get("allOf", [])),
            follow(document, own),
            own,
        ]:
            merged.update(layer)
    return merged


def operations(document: Node) -> Iterator[tuple[str, str, Node]]:
    """Yield (method, path, operation) in document order."""
    for path, item in document.get("paths", {}).items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def prepare(document: Node) -> Node:
    """Return the document the generator reads.

    Titles go, because the generator would take class names from them instead of from the names
    under `components`. Examples go, because they only cost time.
    """
    return cast(Node, _without_titles(copy.deepcopy(document), ()))


def _without_titles(node: Any, path: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_without_titles(item, path) for item in node]
    if not isinstance(node, dict):
        return node
    named = bool(path) and path[-1] in ("properties", "schemas", "patternProperties", "mapping")
    literal = bool(path) and path[-1] in ("default", "const", "enum", "example", "examples")
    out = {}
    for key, value in node.items():
        if (
            not named
            and not literal
            and key in ("title", "example", "examples")
            and path != ("info",)
        ):
            continue
        out[key] = _without_titles(value, (*path, key) if not named else (*path, "*"))
    return out
