"""`Model`, the base of all records: how fields are read, remembered and written.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from attrs import fields

from .codec import MOMENT, Codec, Tag, expected
from .errors import ParseError

__all__ = ["Field", "Layout", "Model", "one_of"]

_MISSING: Any = object()
# Attribute, key, whether None is written as null, whether a value may be left out, how to write it.
Row = tuple[str, str, bool, Callable[[Any], bool] | None, Callable[[Any], Any] | None]


class Field:
    """One property of a model and the rules for leaving it out.

    Attributes:
        name: Name of the attribute.
        key: Name in JSON.
        codec: Reads and writes the value.
        required: Whether the key must be there.
        nullable: Whether null is a documented value.
        null_matters: Whether null says something else than leaving the key out.
        default: What leaving the key out means.
        always: Whether a value is sent even when it is the default.
        values: The only values a request may have, also inside a list; empty for any.
        read: Reads the value.
        write: Writes it.
    """

    __slots__ = (
        "always",
        "codec",
        "default",
        "key",
        "name",
        "null_matters",
        "nullable",
        "read",
        "required",
        "values",
        "write",
    )

    def __init__(
        self,
        name: str,
        key: str,
        codec: Codec,
        required: bool = False,
        nullable: bool = False,
        null_matters: bool = False,
        default: Any = None,
        always: bool = False,
        values: tuple[str | int, ...] = (),
    ) -> None:
        self.name = name
        self.key = key
        self.codec = codec
        self.required = required
        self.nullable = nullable
        self.null_matters = null_matters
        self.default = default
        self.always = always
        self.values = values
        self.read = codec.read
        self.write = codec.write

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
            if not default:
                return type(value) is type(default) and not value
            return bool(self.codec.write(value) == default)
        if type(value) is not type(default) and {type(value), type(default)} != {int, float}:
            return False
        return bool(value == default)


class Layout:
    """The fields of one model, prepared for reading and for writing."""

    __slots__ = ("fields", "keys", "required", "rows", "tags")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.keys = frozenset(item.key for item in fields)
        self.required = frozenset(item.key for item in fields if item.required)
        self.tags = {item.key: item.codec for item in fields if isinstance(item.codec, Tag)}
        self.rows: tuple[Row, ...] = tuple(
            (
                item.name,
                item.key,
                item.required or item.null_matters,
                None
                if item.required or item.always or type(item.codec) is Tag
                else item.is_default,
                None if item.codec.verbatim else item.write,
            )
            for item in fields
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
    # Whether the document lets a request carry keys of other names.
    _open: ClassVar[bool] = False
    additional_properties: dict[str, Any]
    _wire: tuple[tuple[str, ...], tuple[str, ...], dict[str, str]] | None

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        return ()

    @classmethod
    def _layout(cls) -> Layout:
        layout = cls.__dict__.get("_prepared")
        if layout is None:
            layout = Layout(cls._fields())
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
            expected(f"an object for {cls.__name__}", raw)
        layout = cls.__dict__.get("_prepared") or cls._layout()
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
                fresh = type(item.default) in (list, dict)
                assign(self, item.name, item.absent() if fresh else item.default)
                continue
            seen += 1
            if not item.required:
                present.append(key)
            if value is None and (item.nullable or not item.required):
                nulls.append(key)
                value = None if item.nullable else item.absent()
            else:
                try:
                    read = item.read(value)
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
            and tags, those that are always sent, and the others that differ from their default.
        """
        wire = self._wire
        out: dict[str, Any] = {}
        if wire is None:
            for name, key, null, default, write in (self._prepared or self._layout()).rows:
                value = getattr(self, name)
                if value is None:
                    if null:
                        out[key] = None
                elif default is None or not default(value):
                    out[key] = value if write is None else write(value)
        else:
            present, nulls, texts = wire
            for item in self._layout().fields:
                key = item.key
                value = getattr(self, item.name)
                if not item.required and key not in present:
                    if value is None or item.always or type(item.codec) is Tag:
                        continue
                    if item.is_default(value):
                        continue
                if value is None or key in nulls:
                    out[key] = None
                elif key in texts:
                    out[key] = texts[key]
                else:
                    out[key] = item.write(value)
        if self.additional_properties:
            out.update(self.additional_properties)
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _names(type(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A record pickled by an older release lacks the fields that came since.
        absent = {item.name: item for item in self._layout().fields}
        for name in _names(type(self)):
            if name in state:
                value = state[name]
            elif name in absent:
                value = absent[name].absent()
            else:
                value = {} if name == "additional_properties" else None
            object.__setattr__(self, name, value)


def _names(cls: Any) -> list[str]:
    return [item.name for item in fields(cls)]


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
