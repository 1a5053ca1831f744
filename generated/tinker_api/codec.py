"""How models read and write JSON: the `Model` base class and the codecs its fields are made of.

A codec checks and converts one kind of value. Plain JSON values, and lists or maps of them, are
passed by reference and never copied, so a million-element list costs the same as an empty one.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Protocol, Self

from attrs import field, frozen

from .errors import ParseError
from .types import Unknown

__all__ = ["Codec", "Field", "Model", "one_of"]

_MISSING: Any = object()
_PROBES = 64


def _expected(what: str, value: object) -> NoReturn:
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
            _expected(self.what, value)
        return value

    def write(self, value: Any) -> Any:
        return value


@frozen
class _Integer(_Scalar):
    def read(self, value: Any) -> Any:
        # JSON has one number type: 3.0 is an integer, and is kept as it was sent.
        if type(value) is int or (type(value) is float and value.is_integer()):
            return value
        _expected(self.what, value)


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
            _expected("a date-time", value)
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
            _expected("an array", value)
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
            for index, item in enumerate(value):  # noqa: B007
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
            # The wire has flat lists of numbers; the shape travels beside them.
            return (
                value.reshape(-1) if self.item.plain and not isinstance(self.item, Array) else value
            )
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
            _expected("an object", value)
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
        """Return the class that a rule or the object's own tag names, else the expected one."""
        for key, wanted, model in self.rules:
            if key in value and (wanted is None or value[key] == wanted):
                return model
        return expected

    def write(self, value: Any) -> Any:
        if type(value) is list or hasattr(value, "dtype"):
            for other in self.others:
                if isinstance(other, Array):
                    return other.write(value)
        return _dump(value)


@frozen
class Field:
    """One property of a model and the rules for leaving it out."""

    name: str
    key: str
    codec: Codec
    required: bool = False
    nullable: bool = False
    null_matters: bool = False
    default: Any = None

    def absent(self) -> Any:
        """Return the value of the attribute when the key is missing."""
        default = self.default
        if type(default) not in (list, dict):
            return default
        return self.codec.read(default.copy())

    def is_default(self, value: Any) -> bool:
        """Tell whether leaving the key out says the same as sending the value."""
        default = self.default
        if value is default:
            return True
        if type(default) in (list, dict):
            return bool(self.codec.write(value) == default)
        if type(value) is not type(default) and {type(value), type(default)} != {int, float}:
            return False
        return bool(value == default)


@frozen
class Layout:
    """The fields of one model, prepared for reading."""

    fields: tuple[Field, ...]
    keys: frozenset[str]
    required: frozenset[str]
    tags: dict[str, Tag]

    @classmethod
    def of(cls, fields: tuple[Field, ...]) -> Layout:
        """Prepare a list of fields."""
        return cls(
            fields,
            frozenset(item.key for item in fields),
            frozenset(item.key for item in fields if item.required),
            {item.key: item.codec for item in fields if isinstance(item.codec, Tag)},
        )

    def match(self, value: dict[str, Any]) -> tuple[bool, int] | None:
        """Rank this model for an object: None is impossible, a bigger pair is a better fit."""
        tagged = False
        for key, tag in self.tags.items():
            found = value.get(key)
            if found is not None:
                if found != tag.value:
                    return None
                tagged = True
            elif key in self.required:
                return None
        known = len(self.keys & value.keys())
        if not self.required <= value.keys():
            return (True, known) if tagged else None
        if not tagged and not self.required and known != len(value):
            # Nothing here is particular to this class, and the sender knows more than we do.
            return None
        return (tagged, known)


class Model:
    """Base of the generated records.

    Attributes are plain values: an absent optional property reads as its documented default. A
    record that was read remembers which keys were there, so that writing it gives the same JSON.
    """

    __slots__ = ()

    _prepared: ClassVar[Layout | None] = None
    additional_properties: dict[str, Any]
    _wire: tuple[tuple[str, ...], tuple[str, ...], dict[str, str]] | None

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        return ()

    @classmethod
    def _layout(cls) -> Layout:
        layout = cls.__dict__.get("_prepared")
        if layout is None:
            layout = Layout.of(cls._fields())
            cls._prepared = layout
        return layout

    @classmethod
    def _absent(cls, name: str) -> Any:
        return next(item for item in cls._layout().fields if item.name == name).absent()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read a JSON object.

        Args:
            raw: The object; its lists and maps of plain values are kept by reference.

        Returns:
            The record. Keys the document does not know are in `additional_properties`.

        Raises:
            ParseError: A required key is missing or a value has the wrong type.
        """
        if not isinstance(raw, Mapping):
            _expected(f"an object for {cls.__name__}", raw)
        layout = cls._layout()
        self = object.__new__(cls)
        assign = object.__setattr__
        present: list[str] = []
        nulls: list[str] = []
        texts: dict[str, str] = {}
        seen = 0
        for item in layout.fields:
            key = item.key
            value = raw.get(key, _MISSING)
            if value is _MISSING:
                if item.required:
                    raise ParseError(f"{cls.__name__} needs the key {key!r}")
                assign(self, item.name, item.absent())
                continue
            seen += 1
            if not item.required:
                present.append(key)
            if value is None and (item.nullable or not item.required):
                nulls.append(key)
                value = None if item.nullable else item.absent()
            else:
                try:
                    read = item.codec.read(value)
                except ParseError as error:
                    raise error.within(key) from None
                if item.codec is MOMENT:
                    texts[key] = value
                value = read
            assign(self, item.name, value)
        extra = {} if seen == len(raw) else {k: v for k, v in raw.items() if k not in layout.keys}
        assign(self, "additional_properties", extra)
        assign(self, "_wire", (tuple(present), tuple(nulls), texts))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of this record.

        Returns:
            For a record that was read: what was read. For one that was built: required properties
            and tags, and the optional ones that differ from their default.
        """
        present, nulls, texts = self._wire or ((), (), {})
        built = self._wire is None
        out: dict[str, Any] = {}
        for item in self._layout().fields:
            key = item.key
            value = getattr(self, item.name)
            if not item.required and key not in present:
                if type(item.codec) is Tag:
                    if not built:
                        continue
                elif value is None:
                    if not (item.null_matters and built):
                        continue
                elif item.is_default(value):
                    continue
            if value is None or key in nulls:
                out[key] = None
            elif key in texts:
                out[key] = texts[key]
            else:
                out[key] = item.codec.write(value)
        if self.additional_properties:
            out.update(self.additional_properties)
        return out


def one_of(*values: str | int) -> Callable[[Any, Any, Any], None]:
    """Return a validator that accepts the listed values only, and says which they are."""
    known = frozenset(values)

    def validate(instance: Any, attribute: Any, value: Any) -> None:
        for item in value if type(value) is list else (value,):
            if item is not None and item not in known:
                listed = ", ".join(repr(choice) for choice in values)
                owner = type(instance).__name__
                raise ValueError(f"{owner}.{attribute.name} is {item!r}; use one of {listed}")

    return validate
