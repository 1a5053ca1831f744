"""Records that follow the document, and the checks of the values in them.

A public class is made from its generated definition:

    @attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
    class AdamParams(Record, models.AdamParams): ...

Its fields come from the definition, with the document's types and defaults, so one that the
document adds is accepted and sent. The class states those that differ: a narrower type, bounds, a
converter of its own. What is sent and what is left out is up to the definition too.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import attrs
from tinker_api.arguments import value as written
from tinker_api.codec import BOOLEAN, INTEGER, NUMBER
from tinker_api.errors import ArgumentError

from tinker_ext.errors import InvalidInputError, TinkerError

if TYPE_CHECKING:
    from tinker_api.base import Field, Model

    class _Definition(Model):
        """What `Record` stands before in the order of bases."""
else:
    _Definition = object


class Record(_Definition):
    """Base of public records, before the generated definition."""

    __slots__ = ()

    if not TYPE_CHECKING:
        # What a generated record remembers of the JSON it was read from; users build these.
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
    """The fields of a public record, in the order of the document, each with its check."""
    known = {field.name: field for field in fields}
    rows = (row for base in cls.__mro__[1:] for row in _rows(base))
    return [_checked(known[row.name], row) for row in rows]


def _rows(base: type) -> tuple[Field, ...]:
    make: Callable[[], tuple[Field, ...]] | None = base.__dict__.get("_fields")
    return () if make is None else make.__get__(None, base)()


def _checked(field: attrs.Attribute[Any], row: Field) -> attrs.Attribute[Any]:
    if field.converter is not None:
        return field
    if row.codec is NUMBER or row.codec is INTEGER:
        convert = number(field.name, whole=row.codec is INTEGER, **field.metadata)
    elif row.codec is BOOLEAN:
        convert = flag(field.name)
    else:
        return field.evolve(validator=_fits(row))
    if field.default is None:
        convert = attrs.converters.optional(convert)
    return field.evolve(converter=convert)


def _fits(row: Field) -> Callable[[Any, Any, Any], None]:
    def check(record: Any, field: Any, value: Any) -> None:
        if value is None and (row.nullable or field.default is None):
            return
        try:
            written(type(record).__name__, row.name, row.codec, value, row.values)
        except ArgumentError as error:
            raise InvalidInputError(f"{error}.") from None

    return check


def check_type(
    name: str, value: object, kind: Any, wanted: str, error: type[TinkerError] = InvalidInputError
) -> None:
    """Refuse an argument of another type; it is not shown, since it may be secret."""
    if not isinstance(value, kind):
        raise error(f"{name} must be {wanted}, not {type(value).__name__}.")


def flag(name: str, error: type[TinkerError] = InvalidInputError) -> Callable[[Any], bool]:
    """A converter that keeps what says yes or no, and refuses text, of which all counts as true."""

    def convert(value: Any) -> bool:
        # 0 and 1 stand for flags in configuration files; numpy has a boolean of its own.
        number = value
        with suppress(TypeError, ValueError, RuntimeError):  # an array of several
            number = value.item() if hasattr(value, "item") else value
        if isinstance(number, int) and number in (0, 1):
            return bool(number)
        raise error(f"{name} must be True or False, not {value!r:.50}.")

    return convert


# -- numbers: the exact type of what the user gave, or what is wrong with it -------------------

# What 64 bits hold, with or without a sign; JSON writers carry no more.
_LEAST, _MOST = -(2**63), 2**64 - 1
_LARGEST = sys.float_info.max


def number(
    name: str,
    *,
    whole: bool = False,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    endless: bool = False,
    error: type[TinkerError] = InvalidInputError,
) -> Callable[[Any], Any]:
    """A converter that keeps numbers within the bounds, and refuses booleans, text and the rest.

    Infinity is refused too, unless the number may be `endless`; what it raises is an `error`.
    """
    read, kind = (_integer, "a whole number") if whole else (_real, "a number")
    if whole:
        least, most = _LEAST if least is None else least, _MOST if most is None else most

    def convert(value: Any) -> Any:
        try:
            found = read(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            # An array or a tensor of several numbers, for example, or a fraction beyond all floats.
            raise error(f"{name} must be {kind}, not {value!r:.50}.") from None
        # Also an integer that no float can hold.
        if not whole and not -_LARGEST <= found <= _LARGEST and not (endless and found == math.inf):
            raise error(f"{name} must be finite, got {found!r:.50}.")
        if least is not None and found < least:
            raise error(f"{name} must be at least {least}, got {found}.")
        if most is not None and found > most:
            raise error(f"{name} must be at most {most}, got {found}.")
        if below is not None and found >= below:
            raise error(f"{name} must be below {below}, got {found}.")
        return found

    return convert


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else operator.index(value)


def _real(value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or not (
        hasattr(value, "__float__") or hasattr(value, "__index__")
    ):
        raise TypeError
    return value if isinstance(value, (int, float)) else float(value)
