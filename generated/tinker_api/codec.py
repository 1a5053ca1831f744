"""Codecs: how one kind of value is checked, read from JSON and written back.

Plain JSON values, and lists or maps of them, are
passed by reference and never copied, so a million-element list costs the same as an empty one.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

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

    @property
    def verbatim(self) -> bool:
        """Whether `write` returns what it is given."""

    def read(self, value: Any) -> Any:
        """Turn a JSON value into the Python value or raise ParseError."""

    def write(self, value: Any) -> Any:
        """Turn the Python value into a JSON value."""


# Plain classes, not attrs: every program that builds one record loads all of these.
class _Scalar:
    """A JSON value that stays as it is, after a look at its type."""

    __slots__ = ("kinds", "what")
    plain = True
    verbatim = True

    def __init__(self, what: str, kinds: frozenset[type]) -> None:
        self.what = what
        self.kinds = kinds

    def read(self, value: Any) -> Any:
        if type(value) not in self.kinds:
            expected(self.what, value)
        return value

    def write(self, value: Any) -> Any:
        return value


class _Integer(_Scalar):
    __slots__ = ()

    def read(self, value: Any) -> Any:
        # JSON has one number type: 3.0 is an integer, and is kept as it was sent.
        if type(value) is int or (type(value) is float and value.is_integer()):
            return value
        expected(self.what, value)


class _Anything:
    __slots__ = ()
    plain = True
    verbatim = False

    def read(self, value: Any) -> Any:
        return value

    def write(self, value: Any) -> Any:
        return _dump(value)


TEXT = _Scalar("a string", frozenset({str}))
BOOLEAN = _Scalar("a boolean", frozenset({bool}))
NUMBER = _Scalar("a number", frozenset({int, float}))
INTEGER = _Integer("an integer", frozenset({int}))
ANYTHING = _Anything()


class _Moment:
    """A date-time string as `datetime`; `Model` keeps the original text for the way back."""

    __slots__ = ()
    plain = False
    verbatim = False

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


class Tag:
    """A constant that names the class of an object."""

    __slots__ = ("value",)
    plain = True
    verbatim = True

    def __init__(self, value: str | int | float | bool) -> None:
        self.value = value

    def read(self, value: Any) -> Any:
        if type(value) is not type(self.value) or value != self.value:
            raise ParseError(f"expected the tag {self.value!r}")
        return value

    def write(self, value: Any) -> Any:
        return value


class Nullable:
    """A value or null."""

    __slots__ = ("item", "plain")
    verbatim = False

    def __init__(self, item: Codec) -> None:
        self.item = item
        self.plain = item.plain

    def read(self, value: Any) -> Any:
        return None if value is None else self.item.read(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.item.write(value)


class Array:
    """A list. Long lists of plain values are passed on after a look at some of their elements."""

    __slots__ = ("item", "plain")
    verbatim = False

    def __init__(self, item: Codec) -> None:
        self.item = item
        self.plain = item.plain

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


class Table:
    """An object with free keys and values of one kind."""

    __slots__ = ("item", "plain")
    verbatim = False

    def __init__(self, item: Codec) -> None:
        self.item = item
        self.plain = item.plain

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


class Object:
    """A value of one model class."""

    __slots__ = ("model", "read")
    plain = False
    verbatim = False

    def __init__(self, model: type[Model]) -> None:
        self.model = model
        self.read = model.from_dict

    def write(self, value: Any) -> Any:
        return _dump(value)


class Choice:
    """A value of one of several kinds.

    An object goes to the member its tag names. Without a tag it goes to the one member whose
    required keys are all there and that knows most of the keys. When that is not exactly one, or
    the tag is new, the object becomes `Unknown` and is kept as it came.

    Args:
        models: Member classes.
        others: Codecs of the members that are not objects.
        rules: (key, value, class) tried first and in order; value None means "the key is there".
        aliases: Tags that name a member which has no tag of its own.
        empty: Members that an empty object may be when it is expected.
    """

    __slots__ = ("_marks", "aliases", "empty", "models", "others", "plain", "rules")
    verbatim = False

    def __init__(
        self,
        models: tuple[type[Model], ...] = (),
        others: tuple[Codec, ...] = (),
        rules: tuple[tuple[str, str | None, type[Model]], ...] = (),
        aliases: tuple[tuple[str, type[Model]], ...] = (),
        empty: tuple[type[Model], ...] = (),
    ) -> None:
        self.models = models
        self.others = others
        self.rules = rules
        self.aliases = aliases
        self.empty = empty
        self.plain = not models and all(other.plain for other in others)
        self._marks: dict[type[Model], _Marks] = {}

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
        """Return the class a rule names, else the expected one if the object can be that.

        Raises:
            ParseError: The object is something else: it has the tag of another member or one that
                is not documented, a state that no rule knows, the keys of another member, or
                nothing of what the expected class has.
        """
        for key, wanted, model in self.rules:
            if key in value and (wanted is None or value[key] == wanted):
                return model
        marks = self._marks.get(expected)
        if marks is None:
            marks = self._marks[expected] = _Marks(self, expected)
        marks.check(value)
        return expected

    def write(self, value: Any) -> Any:
        if type(value) is list or hasattr(value, "dtype"):
            for other in self.others:
                if isinstance(other, Array):
                    return other.write(value)
        return _dump(value)


class _Marks:
    """What tells one expected class from the other members of a union; see `Choice.decided`.

    Attributes:
        name: Name of the expected class.
        keys: Keys it has, tags not counted.
        required: Those that must be there and are never null.
        tag_key: Key of the tag that tells results apart.
        tags: Values of it that mean this class.
        own_tag: Whether the class documents such a tag.
        state_keys: Further keys by which a rule recognises a state, such as `status`.
        foreign: Keys that other members require and this class does not have, with their owner.
        foreign_keys: All of them.
        empty: Whether an object without any of the keys may be this class.
    """

    def __init__(self, choice: Choice, expected: type[Model]) -> None:
        mine = expected._layout()
        self.name = expected.__name__
        self.keys = frozenset(mine.keys - mine.tags.keys())
        self.required = frozenset(
            item.key
            for item in mine.fields
            if item.required and not item.nullable and item.key not in mine.tags
        )
        self.tag_key = next(
            (key for model in choice.models for key in model._layout().tags if key in mine.tags),
            next((key for model in choice.models for key in model._layout().tags), ""),
        )
        self.own_tag = self.tag_key in mine.tags
        tags = {mine.tags[self.tag_key].value} if self.own_tag else set()
        self.tags = tags | {tag for tag, model in choice.aliases if model is expected}
        ruled = [key for key, wanted, _ in choice.rules if wanted is not None]
        self.state_keys = [key for key in ruled if key != self.tag_key and key not in mine.keys]
        self.foreign: list[tuple[frozenset[str], str]] = []
        for model in choice.models:
            layout = model._layout()
            needed = frozenset(layout.required - layout.tags.keys())
            if model is not expected and needed - mine.keys:
                self.foreign.append((needed, model.__name__))
        self.foreign_keys = frozenset().union(*(needed for needed, _ in self.foreign))
        self.empty = expected in choice.empty or expected not in choice.models

    def check(self, value: dict[str, Any]) -> None:
        """Raise ParseError when the object is not one of the expected class."""
        tag = value.get(self.tag_key)
        # Another class outside the union may use the key for something else.
        if tag is not None and self.tag_key not in self.keys:
            if not isinstance(tag, str) or tag not in self.tags:
                self._refuse(f"an object with {self.tag_key} {_short(tag)}")
        keys = value.keys()
        for key in self.required:
            if value.get(key) is None:
                self._refuse(f"an object without {key}")
        for key in self.state_keys:
            # A server may add a word of its own to what is certainly the result.
            certain = self.own_tag and tag is not None and self.required
            if value.get(key) is not None and not certain:
                self._refuse(f"an object with {key} {_short(value[key])}")
        if self.foreign_keys.isdisjoint(keys):
            if self.required:
                return
        else:
            for needed, name in self.foreign:
                if needed <= keys:
                    self._refuse(f"what {name} has")
        if not self.required:
            for key in self.keys:
                if value.get(key) is not None:
                    return
            others = [key for key in keys if key not in self.keys and key != self.tag_key]
            # Null stands for absent, but not where an unknown key is all that there is.
            said = any(value[key] is not None for key in others) or len(others) == len(keys) > 0
            if not self.empty or said:
                self._refuse("an object with none of its keys")

    def _refuse(self, found: str) -> NoReturn:
        raise ParseError(f"expected {self.name}, found {found}")


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}…"
