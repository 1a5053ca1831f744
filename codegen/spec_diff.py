"""Says what changed between two documents: breaking, or compatible with released clients.

    python codegen/spec_diff.py                   last released document against the current one
    python codegen/spec_diff.py OLD NEW           two files
    python codegen/spec_diff.py --release         keep the current document as released

Exit code 0: nothing, only compatible changes, or breaking ones with a version that allows them.
Exit code 1: a breaking change without such a version. Exit code 2: wrong usage.

"Breaking" is seen from a program that uses the generated client: what it sends is refused, what it
reads has gone or changed its type, a name it imports has gone, or the regenerated client refuses
what existing servers send. Types and values that only requests carry may grow, enumerations and
extra keys that only responses carry may shrink, and what both carry may do neither.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import frozen

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codegen.document import Node, follow, load, operations, property_schema, ref_name

OPENAPI = Path(__file__).resolve().parent.parent / "openapi"
CURRENT = OPENAPI / "tinker.yaml"
RELEASED = OPENAPI / "released"
# (keyword, whether a smaller value lets more through)
BOUNDS = (
    ("minimum", True),
    ("exclusiveMinimum", True),
    ("minLength", True),
    ("minItems", True),
    ("maximum", False),
    ("exclusiveMaximum", False),
    ("maxLength", False),
    ("maxItems", False),
)
EXACT = (
    "const",
    "default",
    "format",
    "pattern",
    "x-default",
    "x-null-meaningful",
    "x-decision-order",
)


class Kind(StrEnum):
    """How a change meets released clients."""

    BREAKING = "breaking"
    COMPATIBLE = "compatible"


class Way(StrEnum):
    """Who writes a value: the client, the server, or both."""

    SENT = "sent"
    RECEIVED = "received"
    BOTH = "both"


@frozen
class Change:
    """One difference and where it is."""

    kind: Kind
    where: str
    what: str


def wider(way: Way) -> Kind:
    """Return the kind of a change that allows more values."""
    return Kind.COMPATIBLE if way is Way.SENT else Kind.BREAKING


def narrower(way: Way) -> Kind:
    """Return the kind of a change that allows fewer values."""
    return Kind.COMPATIBLE if way is Way.RECEIVED else Kind.BREAKING


def compare(old: Node, new: Node) -> list[Change]:
    """Return every change between two documents, breaking ones first."""
    found = [*_operations(old, new), *_components(old, new)]
    return sorted(set(found), key=lambda c: (c.kind is not Kind.BREAKING, c.where, c.what))


def _names(
    old: Any, new: Any, where: str, what: str, removed: Kind = Kind.BREAKING
) -> Iterator[Change]:
    for name in old:
        if name not in new:
            yield Change(removed, where, f"{what} {name} removed")
    for name in new:
        if name not in old:
            yield Change(Kind.COMPATIBLE, where, f"{what} {name} added")


def _operations(old: Node, new: Node) -> Iterator[Change]:
    before = {f"{method.upper()} {path}": node for method, path, node in operations(old)}
    after = {f"{method.upper()} {path}": node for method, path, node in operations(new)}
    yield from _names(before, after, "paths", "operation")
    for where in before.keys() & after.keys():
        left, right = before[where], after[where]
        for key in ("operationId", "tags"):
            if left.get(key) != right.get(key):
                what = f"{key} {left.get(key)} became {right.get(key)}: generated names change"
                yield Change(Kind.BREAKING, where, what)
        # The oldest released documents do not say how an operation is called.
        one, two = left.get("x-tinker-call"), right.get("x-tinker-call")
        if one is not None and two is not None and one.get("yields") != two.get("yields"):
            what = f"its future yields {two.get('yields')}, not {one.get('yields')}"
            yield Change(Kind.BREAKING, where, what)
        path = where.partition(" ")[2]
        yield from _parameters((old, path, left), (new, path, right), where)
        yield from _bodies(old, new, left, right, where)
        yield from _names(left.get("responses", {}), right.get("responses", {}), where, "response")
        for status in left.get("responses", {}).keys() & right.get("responses", {}).keys():
            inner = f"{where} {status}"
            one = follow(old, left["responses"][status]).get("content", {})
            two = follow(new, right["responses"][status]).get("content", {})
            yield from _names(one, two, inner, "media type")
            for media in one.keys() & two.keys():
                pair = one[media].get("schema", {}), two[media].get("schema", {})
                yield from _schema(old, new, *pair, f"{inner} {media}", Way.RECEIVED)


def _listed(document: Node, path: str, operation: Node) -> dict[str, Node]:
    shared = document["paths"][path].get("parameters", [])
    every = [follow(document, node) for node in [*shared, *operation.get("parameters", [])]]
    return {f"{node['in']} {node['name']}": node for node in every}


def _parameters(
    old: tuple[Node, str, Node], new: tuple[Node, str, Node], where: str
) -> Iterator[Change]:
    before, after = _listed(*old), _listed(*new)
    for name in before:
        if name not in after:
            yield Change(Kind.BREAKING, where, f"parameter {name} removed")
    for name, node in after.items():
        required = bool(node.get("required"))
        if name not in before:
            kind = Kind.BREAKING if required else Kind.COMPATIBLE
            word = "required" if required else "optional"
            yield Change(kind, where, f"{word} parameter {name} added")
            continue
        if required != bool(before[name].get("required")):
            kind = Kind.BREAKING if required else Kind.COMPATIBLE
            word = "required" if required else "optional"
            yield Change(kind, where, f"parameter {name} became {word}")
        pair = before[name].get("schema", {}), node.get("schema", {})
        yield from _schema(old[0], new[0], *pair, f"{where} {name}", Way.SENT)


def _bodies(old: Node, new: Node, left: Node, right: Node, where: str) -> Iterator[Change]:
    one = follow(old, left.get("requestBody") or {})
    two = follow(new, right.get("requestBody") or {})
    if bool(one.get("required")) != bool(two.get("required")):
        kind = Kind.BREAKING if two.get("required") else Kind.COMPATIBLE
        yield Change(
            kind, where, f"body became {'required' if two.get('required') else 'optional'}"
        )
    before, after = one.get("content", {}), two.get("content", {})
    yield from _names(before, after, f"{where} body", "media type")
    for media in before.keys() & after.keys():
        pair = before[media].get("schema", {}), after[media].get("schema", {})
        yield from _schema(old, new, *pair, f"{where} body {media}", Way.SENT)


def _components(old: Node, new: Node) -> Iterator[Change]:
    before = old.get("components", {}).get("schemas", {})
    after = new.get("components", {}).get("schemas", {})
    yield from _names(before, after, "schemas", "schema")
    ways = directions(old)
    for name in before.keys() & after.keys():
        way = ways.get(name, Way.BOTH)
        yield from _schema(old, new, before[name], after[name], name, way)


def directions(document: Node) -> dict[str, Way]:
    """Return for each schema name whether requests, responses or both can hold it."""
    sent: set[str] = set()
    received: set[str] = set()
    for _, path, operation in operations(document):
        body = follow(document, operation.get("requestBody") or {})
        _reach(document, [body, *_listed(document, path, operation).values()], sent)
        _reach(document, list(operation.get("responses", {}).values()), received)
    return {
        name: Way.BOTH
        if name in sent and name in received
        else Way.SENT
        if name in sent
        else Way.RECEIVED
        for name in sent | received
    }


def _reach(document: Node, node: Any, into: set[str]) -> None:
    if isinstance(node, list):
        for item in node:
            _reach(document, item, into)
    elif isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            name = ref_name(node)
            if target.startswith("#/components/schemas/"):
                if name in into:
                    return
                into.add(name)
            _reach(document, follow(document, node), into)
            return
        for value in node.values():
            _reach(document, value, into)


def _types(schema: Node) -> set[str]:
    kind = schema.get("type", [])
    return set(kind) if isinstance(kind, list) else {kind}


def _members(schema: Node) -> set[str]:
    nodes = schema.get("oneOf") or schema.get("anyOf") or []
    return {
        ref_name(node) if "$ref" in node else str(sorted(node.items(), key=str)) for node in nodes
    }


def _schema(
    old: Node, new: Node, left: Node, right: Node, where: str, way: Way
) -> Iterator[Change]:
    if left == right:
        return
    targets = left.get("$ref"), right.get("$ref")
    if any(targets):
        if targets[0] != targets[1]:
            names = [str(target or "an inline schema").rpartition("/")[2] for target in targets]
            yield Change(Kind.BREAKING, where, f"{names[0]} became {names[1]}")
        return
    before, after = _types(left), _types(right)
    for kind in sorted(after - before):
        yield Change(wider(way) if before else Kind.BREAKING, where, f"type {kind} added")
    for kind in sorted(before - after):
        if kind == "integer" and "number" in after - before:
            continue
        # Readers check types, so that what servers of today send would be refused.
        yield Change(Kind.BREAKING, where, f"type {kind} removed")
    yield from _values(left, right, where, way)
    for keyword in EXACT:
        if keyword == "default" and left.get("const", left) == right.get("const", right):
            continue
        if left.get(keyword) != right.get(keyword):
            what = f"{keyword} {left.get(keyword)!r} became {right.get(keyword)!r}"
            yield Change(Kind.BREAKING, where, what)
    for keyword, smaller_allows in BOUNDS:
        one, two = left.get(keyword), right.get(keyword)
        if one != two:
            allows = two is None or (one is not None and (two < one) is smaller_allows)
            what = f"{keyword} {one} became {two}"
            # A reply out of bounds is still read: only what is sent can break on a bound.
            kind = Kind.COMPATIBLE if allows or way is Way.RECEIVED else Kind.BREAKING
            yield Change(kind, where, what)
    for member in sorted(_members(left) - _members(right)):
        yield Change(Kind.BREAKING, where, f"member {member} removed")
    for member in sorted(_members(right) - _members(left)):
        yield Change(Kind.COMPATIBLE, where, f"member {member} added")
    if bool(left.get("x-secret")) and not right.get("x-secret"):
        yield Change(Kind.BREAKING, where, "x-secret removed: the value would be shown")
    yield from _properties(old, new, left, right, where, way)
    for keyword in ("items", "additionalProperties"):
        one, two = left.get(keyword, True), right.get(keyword, True)
        if isinstance(one, dict) and isinstance(two, dict):
            yield from _schema(old, new, one, two, f"{where}[]", way)
        elif one != two:
            kind = narrower(way) if two is False else wider(way) if one is False else Kind.BREAKING
            yield Change(kind, where, f"{keyword} changed")


def _values(left: Node, right: Node, where: str, way: Way) -> Iterator[Change]:
    one, two = left.get("enum"), right.get("enum")
    if one is None and two is not None:
        yield Change(narrower(way), where, "became an enumeration")
    elif one is not None and two is None:
        # Response enumerations are open: any text was readable before.
        yield Change(Kind.COMPATIBLE, where, "is no longer an enumeration")
    elif one is not None and two is not None:
        for value in one:
            if value not in two:
                yield Change(narrower(way), where, f"value {value!r} removed")
        for value in two:
            if value not in one:
                yield Change(Kind.COMPATIBLE, where, f"value {value!r} added")


def _properties(
    old: Node, new: Node, left: Node, right: Node, where: str, way: Way
) -> Iterator[Change]:
    before, after = _property_names(old, left), _property_names(new, right)
    needed, needs = _required(old, left), _required(new, right)
    for name in before:
        if name not in after:
            yield Change(Kind.BREAKING, where, f"property {name} removed")
    for name in after:
        if name not in before:
            # In a response too: a reader demands what no existing server sends.
            kind = Kind.BREAKING if name in needs else Kind.COMPATIBLE
            word = "required" if name in needs else "optional"
            yield Change(kind, where, f"{word} property {name} added")
            continue
        if (name in needed) != (name in needs):
            kind = Kind.BREAKING if name in needs else wider(way)
            word = "required" if name in needs else "optional"
            yield Change(kind, where, f"property {name} became {word}")
        pair = _own(old, left, name), _own(new, right, name)
        yield from _schema(old, new, *pair, f"{where}.{name}", way)


def _own(document: Node, schema: Node, name: str) -> Node:
    node = schema.get("properties", {}).get(name)
    if node is None:
        return property_schema(document, schema, name)
    parts = node.get("allOf", [])
    if len(parts) == 1 and "$ref" in parts[0]:
        # allOf with one reference is how the document puts a default beside a reference.
        rest = {key: value for key, value in node.items() if key != "allOf"}
        return {**rest, "oneOf": parts}
    return dict(node)


def _property_names(document: Node, schema: Node) -> dict[str, None]:
    names: dict[str, None] = {}
    for part in schema.get("allOf", []):
        names.update(_property_names(document, follow(document, part)))
    names.update(dict.fromkeys(schema.get("properties", {})))
    return names


def _required(document: Node, schema: Node) -> set[str]:
    names = set(schema.get("required", []))
    for part in schema.get("allOf", []):
        names |= _required(document, follow(document, part))
    return names


def version(document: Node) -> tuple[int, ...]:
    """Return the numbers of the document's version."""
    return tuple(int(part) for part in str(document["info"]["version"]).split("-")[0].split("."))


def allows_breaking(old: Node, new: Node) -> bool:
    """Tell whether the version moved as SemVer asks: the major, or the minor below 1.0."""
    before, after = version(old), version(new)
    digits = 1 if before[0] else 2
    return after[:digits] > before[:digits]


def _grouped(changes: list[Change]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for change in changes:
        places.setdefault(change.what, []).append(change.where)
    return places


def report(changes: list[Change], old: Node, new: Node) -> str:
    """Return the changes as readable lines, with a verdict."""
    lines = []
    for kind in Kind:
        chosen = [change for change in changes if change.kind is kind]
        if chosen:
            lines.append(f"{len(chosen)} {kind} change{'s' * (len(chosen) > 1)}:")
            for what, places in _grouped(chosen).items():
                more = f" (and {len(places) - 3} more places)" if len(places) > 3 else ""
                lines += [f"  {where}: {what}" for where in places[:3]]
                lines[-1] += more
    if not changes:
        lines.append("no change of the contract")
    versions = f"{old['info']['version']} -> {new['info']['version']}"
    if any(change.kind is Kind.BREAKING for change in changes):
        if allows_breaking(old, new):
            lines.append(f"the version allows breaking changes: {versions}")
        else:
            part = "major" if version(old)[0] else "minor"
            lines.append(f"breaking changes need a new {part} version in info.version ({versions})")
    return "\n".join(lines)


def last_released() -> Path | None:
    """Return the released document with the highest version."""
    files = sorted(RELEASED.glob("tinker-*.yaml"), key=lambda path: version(load(path)))
    return files[-1] if files else None


def release() -> Path:
    """Keep a copy of the current document as the released one of its version."""
    target = RELEASED / f"tinker-{load(CURRENT)['info']['version']}.yaml"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(CURRENT.read_bytes())
    return target


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", nargs="?", type=Path, help="default: the last released document")
    parser.add_argument("new", nargs="?", type=Path, default=CURRENT)
    parser.add_argument("--release", action="store_true", help="keep the document as released")
    options = parser.parse_args(arguments)
    if options.release:
        print(f"wrote {release()}")
        return 0
    before = options.old or last_released()
    if before is None:
        print("no released document yet: nothing to compare with")
        return 0
    try:
        old, new = load(before), load(options.new)
        changes = compare(old, new)
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        parser.error(f"cannot compare {before} and {options.new}: {error!r}")
    print(report(changes, old, new))
    breaking = any(change.kind is Kind.BREAKING for change in changes)
    return int(breaking and not allows_breaking(old, new))


if __name__ == "__main__":
    raise SystemExit(main())
