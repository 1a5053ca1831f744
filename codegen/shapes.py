"""Turns the generator's view of a property into our type annotation and codec expression.

Templates print what this module computes. Every piece of text that comes from the document passes
through `repr` here, or through the generator's own docstring filter in a template, so that hostile
text stays a literal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen
from openapi_python_client.parser.properties.any import AnyProperty
from openapi_python_client.parser.properties.boolean import BooleanProperty
from openapi_python_client.parser.properties.const import ConstProperty
from openapi_python_client.parser.properties.datetime import DateTimeProperty
from openapi_python_client.parser.properties.file import FileProperty
from openapi_python_client.parser.properties.float import FloatProperty
from openapi_python_client.parser.properties.int import IntProperty
from openapi_python_client.parser.properties.list_property import ListProperty
from openapi_python_client.parser.properties.literal_enum_property import LiteralEnumProperty
from openapi_python_client.parser.properties.model_property import ModelProperty
from openapi_python_client.parser.properties.none import NoneProperty
from openapi_python_client.parser.properties.union import UnionProperty


@frozen
class Shape:
    """One kind of value: how Python annotates it and how the runtime codes it.

    Attributes:
        type: Annotation expression; it reaches other modules' names through `models`, which loads
            them when the annotation is read.
        codec: Expression that builds the codec, in terms of names from `codec`.
        classes: Model classes the codec needs at run time, as (module, class).
        nullable: Whether null is a documented value.
        values: Documented values of an enumeration, also inside a list.
    """

    type: str
    codec: str
    classes: frozenset[tuple[str, str]] = frozenset()
    nullable: bool = False
    values: tuple[str | int, ...] = ()


@frozen
class Shapes:
    """Builds shapes for one document.

    Attributes:
        models: Model properties of the document by class name.
        maps: Class names that are only maps and become plain dicts.
        open_enums: Enumerations that a response may carry, which therefore stay open.
        rules: Decoding order of named unions: member class names to (key, value, class) rows.
        aliases: (tag, class name) pairs that name a result by the operation it belongs to.
        empty: Class names of results that an empty object may be.
        enum_order: Values of an enumeration in document order, by class name.
        unions: Unions the document names: member class names to alias.
    """

    models: dict[str, ModelProperty]
    maps: frozenset[str]
    open_enums: frozenset[str]
    rules: dict[frozenset[str], tuple[tuple[str, str | None, str], ...]] = field(factory=dict)
    aliases: tuple[tuple[str, str], ...] = ()
    empty: frozenset[str] = frozenset()
    enum_order: dict[str, tuple[str | int, ...]] = field(factory=dict)
    unions: dict[frozenset[str], str] = field(factory=dict)

    def of(self, prop: Any) -> Shape:
        """Return the shape of a property."""
        match prop:
            case ModelProperty():
                return self._model(prop)
            case ListProperty():
                return self._list(prop)
            case UnionProperty():
                return self.union(list(leaves(prop)))
            case ConstProperty():
                value = repr(raw_value(prop.value))
                return Shape(f"Literal[{value}]", f"Tag({value})")
            case LiteralEnumProperty():
                return self._enum(prop)
            case NoneProperty():
                return Shape("None", "ANYTHING", nullable=True)
            case AnyProperty():
                return Shape("Any", "ANYTHING", nullable=True)
            case BooleanProperty():
                return Shape("bool", "BOOLEAN")
            case IntProperty():
                return Shape("int", "INTEGER")
            case FloatProperty():
                return Shape("float", "NUMBER")
            case DateTimeProperty():
                return Shape("datetime.datetime", "MOMENT")
            case FileProperty():
                return Shape("bytes", "ANYTHING")
            case _:
                return Shape("str", "TEXT")

    def _model(self, prop: ModelProperty) -> Shape:
        name = prop.class_info.name
        if name not in self.maps:
            pair = frozenset({(prop.class_info.module_name, str(name))})
            return Shape(f"models.{name}", f"Object({name})", pair)
        item = self.models[name].additional_properties
        inner = Shape("Any", "ANYTHING", nullable=True) if item is None else self.of(item)
        return Shape(
            f"dict[str, {_or_none(inner)}]",
            f"Table({_nullable(inner)})",
            inner.classes,
            values=inner.values,
        )

    def _list(self, prop: ListProperty) -> Shape:
        inner = self.of(prop.inner_property)
        return Shape(
            f"list[{_or_none(inner)}]",
            f"Array({_nullable(inner)})",
            inner.classes,
            values=inner.values,
        )

    def _enum(self, prop: LiteralEnumProperty) -> Shape:
        name = str(prop.class_info.name)
        base = "int" if prop.value_type is int else "str"
        values = self.enum_order.get(name) or tuple(sorted(prop.values, key=str))
        annotation = f"models.{name} | {base}" if name in self.open_enums else f"models.{name}"
        return Shape(annotation, "INTEGER" if base == "int" else "TEXT", values=values)

    def union(self, members: list[Any]) -> Shape:
        """Return the shape of a value that fits one of several properties."""
        nullable = any(isinstance(member, NoneProperty) for member in members)
        shapes = [self.of(member) for member in members if not isinstance(member, NoneProperty)]
        if any(shape.codec == "ANYTHING" for shape in shapes):
            return Shape("Any", "ANYTHING", nullable=True)
        objects = [s for s in shapes if s.codec.startswith("Object(")]
        others = list({s.codec: s for s in shapes if not s.codec.startswith("Object(")}.values())
        if {"INTEGER", "NUMBER"} <= {s.codec for s in others}:
            others = [s for s in others if s.codec != "INTEGER"]
        classes = frozenset().union(*(s.classes for s in shapes))
        values = tuple(dict.fromkeys(v for s in shapes for v in s.values))
        if len(objects) + len(others) == 1:
            only = (objects + others)[0]
            return Shape(only.type, only.codec, classes, nullable, only.values)
        names = [name for s in objects for _, name in s.classes]
        types = [s.type for s in objects + others] + (["Unknown"] if objects else [])
        rows = self.rules.get(frozenset(names), ())
        listed = ", ".join(f"({key!r}, {value!r}, {model})" for key, value, model in rows)
        tags = [pair for pair in self.aliases if rows and pair[1] in names]
        aliases = ", ".join(f"({tag!r}, {model})" for tag, model in tags)
        empty = [name for name in names if rows and name in self.empty]
        arguments = [
            f"models=({', '.join(names)},)" if names else "",
            f"others=({', '.join(s.codec for s in others)},)" if others else "",
            f"rules=({listed},)" if listed else "",
            f"aliases=({aliases},)" if aliases else "",
            f"empty=({', '.join(empty)},)" if empty else "",
        ]
        alias = self.unions.get(frozenset(names)) if not others else None
        if alias is not None:
            types = [f"models.{alias}"]
        # A closed list of values only holds when every alternative is one.
        closed = values if all(s.values for s in shapes) else ()
        return Shape(
            " | ".join(dict.fromkeys(types)),
            f"Choice({', '.join(argument for argument in arguments if argument)})",
            classes,
            nullable,
            closed,
        )


def leaves(prop: UnionProperty) -> Iterator[Any]:
    """Yield the members of a union, those of nested unions included."""
    for member in prop.inner_properties:
        if isinstance(member, UnionProperty):
            yield from leaves(member)
        else:
            yield member


def raw_value(value: Any) -> Any:
    """Return the document's own value behind a generator value."""
    raw = getattr(value, "raw_value", value)
    untrusted = getattr(raw, "get_untrusted_value", None)
    return raw if untrusted is None else untrusted()


def _or_none(shape: Shape) -> str:
    known = shape.type in ("Any", "None")
    return f"{shape.type} | None" if shape.nullable and not known else shape.type


def _nullable(shape: Shape) -> str:
    wrapped = shape.nullable and shape.codec != "ANYTHING"
    return f"Nullable({shape.codec})" if wrapped else shape.codec
