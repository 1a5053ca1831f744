"""Records that follow the document, and the fields that check the numbers in them.

A field that the document adds is accepted and sent.

A public class is made from its generated definition:

    @attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
    class AdamParams(Record, models.AdamParams): ...

It states the fields that it checks more closely; the others come from the definition, with the
document's types and defaults. What is sent and what is left out is up to the definition too.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import attrs
from tinker_api.arguments import value as written
from tinker_api.errors import ArgumentError

from tinker_ext.errors import InvalidInputError

if TYPE_CHECKING:
    from tinker_api.base import Field, Model

    class _Definition(Model):
        """What `Record` stands before in the order of bases."""
else:
    _Definition = object

# What a generated record remembers of the JSON it was read from; public ones are built by users.
_OF_READING = ("additional_properties", "_wire")


class Record(_Definition):
    """Base of public records, before the generated definition."""

    __slots__ = ()

    if not TYPE_CHECKING:
        additional_properties = MappingProxyType({})
        _wire = None

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Build the record from JSON, with the checks of its constructor.

        Raises:
            InvalidInputError: A key is not one of its fields, or a value does not fit.
        """
        names = {item.key: item.name for item in cls._layout().fields}
        for key in raw:
            if key not in names:
                raise InvalidInputError(
                    f"{cls.__name__} has no field {key!r}; it has {', '.join(names)}."
                )
        return cls(**{names[key]: item for key, item in raw.items()})


def follow(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """The fields of a public record: its own first, then those that only the document names."""
    rows = {row.name: row for base in cls.__mro__[1:] for row in _rows(base)}
    stated = inspect.get_annotations(cls)
    own = [field for field in fields if field.name in stated]
    more = [
        field.evolve(validator=_check(rows[field.name]))
        for field in fields
        if field.name not in stated and field.name not in _OF_READING
    ]
    return [*own, *more]


def _rows(base: type) -> tuple[Field, ...]:
    make: Callable[[], tuple[Field, ...]] | None = base.__dict__.get("_fields")
    return () if make is None else make.__get__(None, base)()


def _check(row: Field) -> Callable[[Any, Any, Any], None]:
    def check(record: Any, field: Any, value: Any) -> None:
        if value is None and (row.nullable or not row.required):
            return
        try:
            written(type(record).__name__, row.name, row.codec, value, row.values)
        except ArgumentError as error:
            raise InvalidInputError(f"{error}.") from None

    return check


# -- numbers: the exact type of what the user gave, or what is wrong with it -------------------

# What 64 bits hold, with or without a sign; JSON writers carry no more.
_LEAST, _MOST = -(2**63), 2**64 - 1
_LARGEST = sys.float_info.max


def whole(name: str, *, least: int = _LEAST) -> Callable[[Any], int]:
    """A converter to int that refuses fractions, booleans, text and values below `least`."""

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            if isinstance(value, float) and value.is_integer():
                return convert(int(value))
            raise InvalidInputError(f"{name} must be a whole number, not {value!r}.")
        try:
            number = int(value)
        except (TypeError, ValueError):  # an array of several numbers
            raise InvalidInputError(f"{name} must be a whole number, not {value!r}.") from None
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
        try:
            number = value if isinstance(value, (int, float)) else float(value)
        except (TypeError, ValueError):  # an array of several numbers
            raise InvalidInputError(f"{name} must be a number, not {value!r}.") from None
        if not -_LARGEST <= number <= _LARGEST:  # also an integer that no float can hold
            raise InvalidInputError(f"{name} must be finite, got {number!r:.50}.")
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
