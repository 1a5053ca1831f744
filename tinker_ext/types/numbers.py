"""Converters that turn a number given by the user into the exact type, or say what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from tinker_ext.errors import InvalidInputError

# What 64 bits hold, with or without a sign; JSON writers carry no more.
_LEAST, _MOST = -(2**63), 2**64 - 1


def whole(name: str, *, least: int = _LEAST) -> Callable[[Any], int]:
    """A converter to int that refuses fractions, booleans, text and values below `least`."""

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            if isinstance(value, float) and value.is_integer():
                return convert(int(value))
            raise InvalidInputError(f"{name} must be a whole number, not {value!r}.")
        number = int(value)
        if number < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {number}.")
        if number > _MOST:
            raise InvalidInputError(f"{name} must be at most {_MOST}, got {number}.")
        return number

    return convert


def optional_integer(name: str, *, least: int = _LEAST) -> Callable[[Any], int | None]:
    """Like `whole`, but None stays None."""
    convert = whole(name, least=least)
    return lambda value: None if value is None else convert(value)


def finite(
    name: str, *, least: float | None = None, most: float | None = None, below: float | None = None
) -> Callable[[Any], float]:
    """A converter that keeps finite numbers inside the given bounds and refuses the rest."""

    def convert(value: Any) -> float:
        if isinstance(value, (bool, str, bytes)) or not (
            hasattr(value, "__float__") or hasattr(value, "__index__")
        ):
            raise InvalidInputError(f"{name} must be a number, not {value!r}.")
        number = value if isinstance(value, (int, float)) else float(value)
        if not math.isfinite(number):
            raise InvalidInputError(f"{name} must be finite, got {number}.")
        if least is not None and number < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {number}.")
        if most is not None and number > most:
            raise InvalidInputError(f"{name} must be at most {most}, got {number}.")
        if below is not None and number >= below:
            raise InvalidInputError(f"{name} must be below {below}, got {number}.")
        return number

    return convert


def number_field(
    name: str,
    default: float,
    *,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> Any:
    """An attrs field with a default that holds a number checked by `finite`."""
    return attrs.field(default=default, converter=finite(name, least=least, most=most, below=below))


def integer_field(name: str, default: int | None, *, least: int = _LEAST) -> Any:
    """An attrs field with a default that holds a whole number; None only if that is the default."""
    make = optional_integer if default is None else whole
    return attrs.field(default=default, converter=make(name, least=least))
