"""Read the recorded surface of an official release and compare our objects with it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import attrs

DATA = Path(__file__).parent / "data" / "compat"
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "both",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
REQUIRED = "required"
FACTORY = "made per call"
_EMPTY = {FACTORY, "[]", "{}", "None"}


class Param(NamedTuple):
    """One parameter: name, how it may be passed, and its default as text."""

    name: str
    kind: str
    default: str


def objects(version: str) -> dict[str, dict[str, Any]]:
    """Every recorded object of a release as `module:name` → record."""
    text = json.loads((DATA / f"surface-{version}.json").read_text())
    found = {f"tinker:{name}": record for name, record in text["tinker"]["objects"].items()}
    for name, record in text["tinker.types"]["objects"].items():
        found[f"tinker.types:{name}"] = record
    return found | text["tinker.types (not re-exported)"] | text["other classes"]


def names(version: str, module: str) -> list[str]:
    """The public names of `tinker` or `tinker.types` in a release."""
    text = json.loads((DATA / f"surface-{version}.json").read_text())[module]
    return list(text["__all__"] if module == "tinker" else text["names"])


def recorded(signature: str) -> list[Param]:
    """Parse a recorded signature; annotations do not matter."""
    text = re.sub(r"= <factory>", f"= {FACTORY!r}", _without_noise(signature))
    node = ast.parse(f"def f{text}: pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    found = [Param(a.arg, "both", _text(d)) for a, d in zip(plain, defaults, strict=True)]
    if args.vararg:
        found.append(Param(args.vararg.arg, "*", REQUIRED))
    found += [
        Param(a.arg, "keyword", _text(d))
        for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        found.append(Param(args.kwarg.arg, "**", REQUIRED))
    return [p for p in found if p.name not in ("self", "cls")]


def _without_noise(text: str) -> str:
    """The text with classes, whole floats and our bookkeeping field written in one way."""
    text = re.sub(r"<class '[^']*'>", "'a class'", text)
    text = re.sub(r"<httpx\._config\.UnsetType object at 0x[0-9a-f]+>", "None", text)
    return re.sub(r"(?<=\d)\.0(?=\W|$)", "", text.replace(", additional_properties={}", ""))


def _text(node: ast.expr | None) -> str:
    if node is None:
        return REQUIRED
    try:
        return _without_noise(_plain(ast.literal_eval(node)))
    except ValueError:
        return ast.unparse(node)


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return repr(float(value))


def ours(callable_: Any) -> list[Param]:
    """The parameters of one of our callables, in the same form."""
    found = []
    for p in inspect.signature(callable_).parameters.values():
        if p.name in ("self", "cls"):
            continue
        default = REQUIRED if p.default is p.empty else _plain(p.default)
        if p.default is attrs.NOTHING:
            default = _plain(_made(callable_, p.name))
        found.append(Param(p.name, _KINDS[p.kind], _without_noise(default)))
    return found


def _made(cls: Any, name: str) -> object:
    """What the factory of an attrs field makes when the argument is left out."""
    field = next(f for f in attrs.fields(cls) if f.alias == name)
    factory = field.default
    return factory.factory(cls.__new__(cls)) if factory.takes_self else factory.factory()


def unlike(official: list[Param], mine: list[Param]) -> Iterator[str]:
    """Why a call that the official signature accepts might fail or mean something else here."""
    by_name = {p.name: p for p in mine}
    catch_all = any(p.kind == "**" for p in mine)
    for param in official:
        if param.kind == "**":
            if not catch_all:
                yield f"takes no other keywords (**{param.name})"
            continue
        own = by_name.get(param.name)
        if own is None:
            yield f"no parameter {param.name}"
            continue
        if param.kind == "both" and own.kind == "keyword":
            yield f"{param.name} cannot be passed by position"
        empty = {own.default, param.default}
        looser = param.default == REQUIRED or empty <= _EMPTY or empty == {"0", "False"}
        if own.default != param.default and not looser:
            yield f"default of {param.name} is {own.default}, not {param.default}"
    known = {p.name for p in official}
    for own in mine:
        if own.name not in known and own.kind not in ("*", "**") and own.default == REQUIRED:
            yield f"{own.name} is required here"
    order = [p.name for p in official if p.kind == "both"]
    mine_order = [p.name for p in mine if p.kind == "both"]
    if order and mine_order[: len(order)] != order:
        yield f"positions are {mine_order}, not {order}"


def member_unlike(cls: type, name: str, record: dict[str, Any]) -> Iterator[str]:
    """Differences of one member of a class."""
    try:
        own = inspect.getattr_static(cls, name)
    except AttributeError:
        yield "absent"
        return
    if record["kind"] == "property":
        if callable(own) and not isinstance(own, property):
            yield "is a method, not a property"
        return
    if record["kind"] == "classmethod" and not isinstance(own, classmethod | staticmethod):
        yield "is not a class method"
    # The fields of a class tell what the factories behind its arguments make.
    bound = cls if name == "__init__" else getattr(cls, name)
    if record["kind"] == "async method" and not inspect.iscoroutinefunction(bound):
        yield "is not a coroutine function"
    if record["kind"] == "method" and inspect.iscoroutinefunction(bound):
        yield "is a coroutine function"
    yield from unlike(recorded(record["sig"]), ours(bound))


def class_unlike(cls: type, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(member, difference) of everything recorded about a class."""
    if record.get("init") and record["kind"] != "enum":
        yield from (("__init__", why) for why in unlike(recorded(record["init"]), ours(cls)))
    for name, member in record.get("members", {}).items():
        if name != "__init__":
            yield from ((name, why) for why in member_unlike(cls, name, member))
    readable = {f.name for f in attrs.fields(cls)} if attrs.has(cls) else set()
    for name in record.get("fields", {}):
        if name not in readable and not name.startswith("_") and not hasattr(cls, name):
            yield name, "no such field"
    for name, value in record.get("values", {}).items():
        if getattr(cls, name, None) is None or getattr(cls, name).value != value:
            yield name, f"is not the member {value!r}"
    if "Exception" in record["mro"]:
        have = {base.__name__ for base in cls.__mro__}
        yield from (("bases", f"not a {base}") for base in record["mro"] if base not in have)


def alias_unlike(value: Any, text: str) -> Iterator[str]:
    """Differences of a type alias: literal values, or the names of its members."""
    if text.startswith("typing.Literal"):
        allowed = list(ast.literal_eval(text.removeprefix("typing.Literal")))
        if list(get_args(value)) != allowed:
            yield f"is {get_args(value)}, not {allowed}"
        return
    wanted = set(re.findall(r"\.([A-Z]\w+)(?=[,\]])", text)) - {"None", "Tensor", "NoneType"}
    wanted -= {name for name in wanted if name.endswith("Info")} - _names_of(value)
    missing = wanted - _names_of(value)
    if missing:
        yield f"lacks {sorted(missing)}"


def _names_of(value: Any) -> set[str]:
    if get_origin(value) is None and not get_args(value):
        return {getattr(value, "__name__", str(value))}
    return {name for inner in get_args(value) for name in _names_of(inner)}
