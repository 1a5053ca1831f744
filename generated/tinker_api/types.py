"""Values every call shares: JSON in and out, `Response`, and `Unknown` for what is not documented.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from .errors import ParseError

__all__ = ["Headers", "Response", "Unknown", "dumps", "loads"]

T = TypeVar("T")


@frozen
class Unknown:
    """A value of a union that none of the documented members describes.

    Attributes:
        raw: The JSON value exactly as it came; `to_dict` gives it back.
    """

    raw: Any

    def to_dict(self) -> Any:
        """Return the raw value."""
        return self.raw


class Headers(dict[str, str]):
    """Header values by lower-case name; its repr shows the names only."""

    def __repr__(self) -> str:
        return f"Headers({', '.join(sorted(self))})"


@frozen
class Response(Generic[T]):
    """One HTTP answer: raw access beside the parsed result.

    Attributes:
        status_code: HTTP status as a plain integer.
        headers: Response headers by lower-case name.
        content: The body, as received.
        parsed: The body read with the schema documented for this status.
    """

    status_code: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    parsed: T = field(repr=lambda value: type(value).__name__)


_PLAIN = frozenset({str, int, bool, type(None)})


def _finite(value: Any) -> bool:
    """Tell whether a tree is free of NaN and infinity, which orjson would write as null."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(_finite(item) for item in value.values() if type(item) not in _PLAIN)
    if kind is list or kind is tuple:
        if value and type(value[0]) in (int, float):
            try:
                # One pass in C: NaN and infinity survive addition.
                if math.isfinite(sum(value)):
                    return True
            except (TypeError, OverflowError):
                pass
        return all(_finite(item) for item in value if type(item) not in _PLAIN)
    if hasattr(value, "dtype") and value.dtype.kind == "f":
        import numpy

        return bool(numpy.isfinite(value).all())
    return True


def _first_bad(value: Any, path: str) -> str:
    """Return where the first number is that JSON cannot carry."""
    if type(value) in (dict, list, tuple):
        for key, item in value.items() if type(value) is dict else enumerate(value):
            if not _finite(item):
                return _first_bad(
                    item, f"{path}.{key}" if type(value) is dict else f"{path}[{key}]"
                )
    return path


def _fallback(value: Any) -> Any:
    """Encode what orjson leaves to us: models, strided or foreign-endian arrays, numpy scalars."""
    to_dict = getattr(value, "to_dict", None)
    if to_dict is not None:
        return to_dict()
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        # Strided or foreign-endian; a fresh native copy is what orjson takes.
        return (
            value.tolist() if value.ndim == 0 else value.astype(value.dtype.newbyteorder("="), "C")
        )
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def dumps(value: Any) -> bytes:
    """Serialise plain values, models and numpy arrays to JSON.

    Args:
        value: A JSON tree; arrays may stand for lists of numbers and models for objects.

    Returns:
        UTF-8 JSON without whitespace.

    Raises:
        ValueError: A number is NaN or infinite, the tree is too deep, or a value has no JSON form.

    Example:
        >>> dumps({"tokens": [1, 2]})
        b'{"tokens":[1,2]}'
    """
    import orjson

    try:
        if not _finite(value):
            where = _first_bad(value, "").lstrip(".") or "the value"
            raise ValueError(f"{where} is NaN or infinite: JSON cannot carry it")
        return orjson.dumps(value, default=_fallback, option=orjson.OPT_SERIALIZE_NUMPY)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from error


def loads(content: bytes | str) -> Any:
    """Read JSON; the literals NaN and Infinity, which Python servers may write, are accepted.

    Args:
        content: JSON text.

    Returns:
        The plain value.

    Raises:
        ParseError: The text is not JSON, or nested too deeply.

    Example:
        >>> loads(b'{"ok": true}')
        {'ok': True}
    """
    import orjson

    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        text = content.encode() if isinstance(content, str) else content
        if b"NaN" not in text and b"Infinity" not in text:
            raise ParseError(f"not JSON: {error.msg} at character {error.pos}") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {type(error).__name__}") from None
