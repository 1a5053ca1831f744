"""Arguments of an operation as JSON: checked by the document before anything is sent.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NoReturn

from .base import Field, Model
from .codec import ANYTHING, INTEGER, NUMBER, Array, Choice, Codec, Nullable, Object, Table, Tag
from .errors import ArgumentError, ParseError

__all__ = ["body", "nearest", "refuse_names", "value"]


class _Wrong(Exception):
    """A value that does not fit; the steps that lead to it are gathered on the way out."""

    def __init__(self, problem: str, allowed: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.allowed = allowed
        self.steps: list[str | int] = []


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint such as `; did you mean 'seq_id'?`, or nothing when no name is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, [str(item) for item in known], 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def refuse_names(operation: str, unknown: Iterable[str], known: tuple[str, ...]) -> None:
    """Raise ArgumentError for the first name that is not one of the known ones."""
    for name in unknown:
        takes = f"it takes {', '.join(known)}" if known else "it takes no arguments"
        problem = f"there is no argument {name!r}{nearest(name, known)} ({takes})"
        raise ArgumentError(problem, operation, name, known)


def value(
    operation: str, name: str, codec: Codec, given: Any, values: tuple[str | int, ...]
) -> Any:
    """Return the JSON form of one argument.

    Raises:
        ArgumentError: Its type is wrong, or it is not one of a closed list of values.
    """
    try:
        written = _write(codec, given)
        _refuse_unlisted(written, values)
    except _Wrong as error:
        _refuse(operation, name, error)
    return written


def body(operation: str, model: type[Model], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a request.

    What was not given stays out, and so does None, except where null has a meaning of its own.
    A value that is the default is left out too, as a server then does the same, unless the
    document says that it is always sent. Tags are always there.

    Args:
        operation: The operationId, for errors.
        model: Class of the request.
        given: Values by name; generated records, other objects with `to_dict`, or plain JSON.

    Raises:
        ArgumentError: A required value is missing, a type is wrong, or a value is not one of a
            closed list.
    """
    out: dict[str, Any] = {}
    for item in model._layout().fields:
        here = given.get(item.name, given.get(item.key))
        if here is None:
            if type(item.codec) is Tag:
                out[item.key] = item.codec.value
            elif item.null_matters and (item.name in given or item.key in given):
                out[item.key] = None
            elif item.required:
                raise ArgumentError(f"{item.name} is required", operation, item.name)
            continue
        try:
            written = _field(item, here)
        except _Wrong as error:
            _refuse(operation, item.name, error)
        keep = item.required or item.always or type(item.codec) is Tag
        if keep or not item.is_default(written):
            out[item.key] = written
    return out


def _refuse(operation: str, name: str, error: _Wrong) -> NoReturn:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(error.steps))
    where = name + "".join(steps)
    raise ArgumentError(f"{where} {error.problem}", operation, where, error.allowed) from None


def _refuse_unlisted(written: Any, values: tuple[str | int, ...]) -> None:
    if values:
        for item in written if isinstance(written, list) else (written,):
            if item not in values:
                listed = ", ".join(repr(choice) for choice in values)
                raise _Wrong(f"is {item!r}; use one of {listed}", values)


def _field(item: Field, given: Any) -> Any:
    written = _write(item.codec, given)
    _refuse_unlisted(written, item.values)
    return written


def _write(codec: Codec, given: Any) -> Any:
    match codec:
        case Nullable():
            return None if given is None else _write(codec.item, given)
        case Object():
            return _record(codec.model, *_plain(given))
        case Choice():
            return _choice(codec, given)
        case Array():
            return _array(codec, given)
        case Table():
            return _table(codec, given)
    if codec is ANYTHING:
        return _anything(given)
    if isinstance(given, Enum):
        given = given.value
    if getattr(given, "ndim", None) == 0:
        given = given.item()  # a numpy scalar
    if isinstance(given, str) and type(given) is not str:
        given = str.__str__(given)
    if type(given) is float and not math.isfinite(given):
        raise _Wrong("is NaN or infinite, which JSON cannot carry")
    written = codec.write(given)
    try:
        codec.read(written)
    except ParseError as error:
        raise _Wrong(f"is wrong: {error.problem}") from None
    return written


def _plain(given: Any) -> tuple[Any, bool]:
    """Return the JSON object and whether a record made it, which may know more than we do."""
    to_dict = getattr(given, "to_dict", None)
    return (given, False) if to_dict is None else (to_dict(), True)


def _record(model: type[Model], raw: Any, typed: bool) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise _Wrong(f"is wrong: expected an object ({model.__name__}), found {type(raw).__name__}")
    layout = model._layout()
    extra = [key for key in raw if key not in layout.keys]
    if extra and not typed and not model._open:
        known = tuple(item.key for item in layout.fields)
        hint = nearest(str(extra[0]), known)
        raise _Wrong(
            f"has no key {extra[0]!r}{hint} ({model.__name__} has {', '.join(known)})", known
        )
    out: dict[str, Any] = {}
    for item in layout.fields:
        given = raw.get(item.key)
        if given is None:
            if type(item.codec) is Tag:
                out[item.key] = item.codec.value
            elif item.key in raw and (
                item.null_matters or (item.nullable and (typed or item.required))
            ):
                out[item.key] = None
            elif item.required:
                raise _Wrong(f"needs the key {item.key!r} ({model.__name__})")
            continue
        try:
            out[item.key] = _field(item, given)
        except _Wrong as error:
            error.steps.append(item.key)
            raise
    for key in extra:
        out[key] = _anything(raw[key])
    return out


def _choice(codec: Choice, given: Any) -> Any:
    raw, typed = _plain(given)
    if isinstance(raw, Mapping) and codec.models:
        member = codec.member(dict(raw))
        if member is not None:
            return _record(member, raw, typed)
        if typed:
            return raw
        names = tuple(model.__name__ for model in codec.models)
        raise _Wrong(f"is not one of {', '.join(names)}", names)
    problems = []
    for other in codec.others:
        try:
            return _write(other, raw)
        except _Wrong as error:
            problems.append(error.problem.removeprefix("is wrong: "))
    names = tuple(model.__name__ for model in codec.models)
    if names:
        problems.append(f"expected an object ({', '.join(names)}), found {type(raw).__name__}")
    raise _Wrong(f"is wrong: {'; '.join(dict.fromkeys(problems))}", names)


def _array(codec: Array, given: Any) -> Any:
    kind = getattr(getattr(given, "dtype", None), "kind", None)
    if kind is not None:
        if (codec.item is INTEGER and kind in "iu") or (codec.item is NUMBER and kind in "iuf"):
            return codec.write(given)
        given = given.tolist()
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise _Wrong(f"is wrong: expected an array, found {type(given).__name__}")
    items = given if type(given) is list else list(given)
    if codec.plain:
        try:
            return codec.read(items)
        except ParseError:
            pass  # numpy scalars and enumerations, or really wrong: found out one by one
    out = []
    for index, item in enumerate(items):
        try:
            out.append(_write(codec.item, item))
        except _Wrong as error:
            error.steps.append(index)
            raise
    return out


def _table(codec: Table, given: Any) -> Any:
    raw, _ = _plain(given)
    if not isinstance(raw, Mapping):
        raise _Wrong(f"is wrong: expected an object, found {type(raw).__name__}")
    out = {}
    for key, item in raw.items():
        if not isinstance(key, str):
            raise _Wrong(f"is wrong: expected text as keys, found {type(key).__name__}")
        try:
            out[key] = _write(codec.item, item)
        except _Wrong as error:
            error.steps.append(key)
            raise
    return out


def _anything(given: Any) -> Any:
    raw, _ = _plain(given)
    if isinstance(raw, Mapping):
        return {key: _anything(item) for key, item in raw.items()}
    if isinstance(raw, (list, tuple)):
        return [_anything(item) for item in raw]
    return raw
