"""Codecs: how one kind of value is checked, read from JSON and written back.

Plain JSON values, and lists or maps of them, are
passed by reference and never copied, so a million-element list costs the same as an empty one.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from attrs import field, frozen

from .errors import ParseError
from .types import Unknown

if TYPE_CHECKING:
    from .base import Model

__all__ = [
    "ANYTHING",
    "BOOLEAN",
    "INTEGER",
    "MOMENT",
    "NUMBER",
    "TEXT",
    "Array",
    "Choice",
    "Codec",
    "Nullable",
    "Object",
    "Table",
    "Tag",
    "expected",
]

_PROBES = 64


def expected(what: str, value: object) -> NoReturn:
    """Raise ParseError with what should have been there and the type that was."""
    found = "null" if value is None else type(value).__name__
    raise ParseError(f"expected {what}, found {found}")


class Codec(Protocol):
    """Reads and writes one kind of value."""

    @property
    def plain(self) -> bool:
        """Whether the Python value *is* the JSON value, so that nothing is ever copied."""

    def read(self, value: Any) -> Any:
        """Turn a JSON value into the Python value or raise ParseError."""

    def write(self, value: Any) -> Any:
        """Turn the Python value into a JSON value."""


@frozen
class _Scalar:
    """A JSON value that stays as it is, after a look at its type."""

    what: str
    kinds: frozenset[type]
    plain: bool = True

    def read(self, value: Any) -> Any:
        if type(value) not in self.kinds:
            expected(self.what, value)
        return value

    def write(self, value: Any) -> Any:
        return value


@frozen
class _Integer(_Scalar):
    def read(self, value: Any) -> Any:
        # JSON has one number type: 3.0 is an integer, and is kept as it was sent.
        if type(value) is int or (type(value) is float and value.is_integer()):
            return value
        expected(self.what, value)


@frozen
class _Anything:
    plain: bool = True

    def read(self, value: Any) -> Any:
        return value

    def write(self, value: Any) -> Any:
        return _dump(value)


TEXT = _Scalar("a string", frozenset({str}))
BOOLEAN = _Scalar("a boolean", frozenset({bool}))
NUMBER = _Scalar("a number", frozenset({int, float}))
INTEGER = _Integer("an integer", frozenset({int}))
ANYTHING = _Anything()


@frozen
class _Moment:
    """A date-time string as `datetime`; `Model` keeps the original text for the way back."""

    plain: bool = False

    def read(self, value: Any) -> datetime.datetime:
        if type(value) is not str:
            expected("a date-time", value)
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ParseError("expected an ISO 8601 date-time") from None

    def write(self, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.datetime) else value


MOMENT = _Moment()


@frozen
class Tag:
    """A constant that names the class of an object."""

    value: str | int | float | bool
    plain: bool = True

    def read(self, value: Any) -> Any:
        if type(value) is not type(self.value) or value != self.value:
            raise ParseError(f"expected the tag {self.value!r}")
        return value

    def write(self, value: Any) -> Any:
        return value


@frozen
class Nullable:
    """A value or null."""

    item: Codec
    plain: bool = field(init=False)

    @plain.default
    def _is_plain(self) -> bool:
        return self.item.plain

    def read(self, value: Any) -> Any:
        return None if value is None else self.item.read(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.item.write(value)


@frozen
class Array:
    """A list. Long lists of plain values are passed on after a look at some of their elements."""

    item: Codec
    plain: bool = field(init=False)

    @plain.default
    def _is_plain(self) -> bool:
        return self.item.plain

    def read(self, value: Any) -> Any:
        if type(value) is not list:
            expected("an array", value)
        read = self.item.read
        index = 0
        try:
            if self.plain:
                step = max(1, len(value) // _PROBES)
                for index in range(0, len(value), step):
                    read(value[index])
                if step > 1:
                    index = len(value) - 1
                    read(value[index])
                return value
            out = []
            for index, item in enumerate(value):
                out.append(read(item))
            return out
        except ParseError as error:
            raise error.within(index) from None

    def write(self, value: Any) -> Any:
        if type(value) is list:
            if self.plain:
                return value
            write = self.item.write
            return [write(item) for item in value]
        if hasattr(value, "dtype"):
            if not value.dtype.isnative:
                value = value.astype(value.dtype.newbyteorder("="))
            # The wire has flat lists of numbers; the shape travels beside them.
            flat = self.item.plain and not isinstance(self.item, Array)
            return value.reshape(-1) if flat else value
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            return [self.item.write(item) for item in value]
        return value


@frozen
class Table:
    """An object with free keys and values of one kind."""

    item: Codec
    plain: bool = field(init=False)

    @plain.default
    def _is_plain(self) -> bool:
        return self.item.plain

    def read(self, value: Any) -> Any:
        if type(value) is not dict:
            expected("an object", value)
        read = self.item.read
        out = {}
        key = ""
        try:
            for key, item in value.items():
                out[key] = read(item)
        except ParseError as error:
            raise error.within(key) from None
        return value if self.plain else out

    def write(self, value: Any) -> Any:
        if type(value) is dict and self.plain and self.item is not ANYTHING:
            return value
        if not isinstance(value, Mapping):
            return value
        write = self.item.write
        return {key: write(item) for key, item in value.items()}


def _dump(value: Any) -> Any:
    to_dict = getattr(value, "to_dict", None)
    return value if to_dict is None else to_dict()


@frozen
class Object:
    """A value of one model class."""

    model: type[Model]
    plain: bool = False

    def read(self, value: Any) -> Any:
        return self.model.from_dict(value)

    def write(self, value: Any) -> Any:
        return _dump(value)


@frozen
class Choice:
    """A value of one of several kinds.

    An object goes to the member its tag names. Without a tag it goes to the one member whose
    required keys are all there and that knows most of the keys. When that is not exactly one, or
    the tag is new, the object becomes `Unknown` and is kept as it came.

    Args:
        models: Member classes.
        others: Codecs of the members that are not objects.
        rules: (key, value, class) tried first and in order; value None means "the key is there".
    """

    models: tuple[type[Model], ...] = ()
    others: tuple[Codec, ...] = ()
    rules: tuple[tuple[str, str | None, type[Model]], ...] = ()
    plain: bool = field(init=False)

    @plain.default
    def _is_plain(self) -> bool:
        return not self.models and all(other.plain for other in self.others)

    def read(self, value: Any) -> Any:
        if type(value) is dict and self.models:
            model = self.member(value)
            return Unknown(value) if model is None else model.from_dict(value)
        problems = []
        for other in self.others:
            try:
                return other.read(value)
            except ParseError as error:
                problems.append(str(error))
        if self.models:
            return Unknown(value)
        raise ParseError(f"fits no alternative ({'; '.join(problems)})")

    def member(self, value: dict[str, Any]) -> type[Model] | None:
        """Return the class this object certainly belongs to, or None."""
        for key, wanted, model in self.rules:
            if key in value and (wanted is None or value[key] == wanted):
                return model
        best: tuple[bool, int] = (False, -1)
        winners: list[type[Model]] = []
        layouts = [(model, model._layout()) for model in self.models]
        tags = {key for _, layout in layouts for key in layout.tags if value.get(key) is not None}
        for model, layout in layouts:
            verdict = layout.match(value)
            if verdict is None or verdict < best:
                continue
            tagged, known = verdict
            # An undocumented tag speaks against every member that does not take any tag.
            if not tagged and not (tags <= layout.keys and (known or not self.rules)):
                continue
            if verdict > best:
                best, winners = verdict, []
            winners.append(model)
        return winners[0] if len(winners) == 1 else None

    def decided(self, value: dict[str, Any], expected: type[Model]) -> type[Model]:
        """Return the class a rule names, else the expected one unless the object is another's.

        Raises:
            ParseError: The object has the tag of another member, or none of the expected keys but
                all that another member needs.
        """
        for key, wanted, model in self.rules:
            if key in value and (wanted is None or value[key] == wanted):
                return model
        member = self.member(value)
        if member is not None and member is not expected:
            mine = expected._layout().keys & value.keys()
            foreign = member._layout().tags.keys() & value.keys() - mine
            if foreign or not mine:
                raise ParseError(f"expected {expected.__name__}, found {member.__name__}")
        return expected

    def write(self, value: Any) -> Any:
        if type(value) is list or hasattr(value, "dtype"):
            for other in self.others:
                if isinstance(other, Array):
                    return other.write(value)
        return _dump(value)
