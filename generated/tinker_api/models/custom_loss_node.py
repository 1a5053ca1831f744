"""CustomLossNode. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    ANYTHING,
    TEXT,
    Array,
    Table,
)

__all__ = ["CustomLossNode"]


@frozen(kw_only=True, getstate_setstate=False)
class CustomLossNode(Model):
    """One operation of a custom loss. Era 0.36.0 only.

    Attributes:
        op: Kind of an operation of a custom loss. Era 0.36.0 only.
        name: Name by which later operations refer to the result.
        target: Function, method, attribute or input meant.
        args: Positional arguments; null inside is kept.
        kwargs: Labels or facts of any JSON kind, by name. A null value inside is kept.
    """

    op: models.CustomLossNodeOp = field(
        validator=one_of(
            "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"
        )
    )
    name: str
    target: str
    args: list[Any] = field(default=Factory(list))
    kwargs: dict[str, Any] = field(default=Factory(dict))
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field(
                "op",
                "op",
                TEXT,
                required=True,
                values=(
                    "placeholder",
                    "get_attr",
                    "call_function",
                    "call_method",
                    "call_module",
                    "output",
                ),
            ),
            Field("name", "name", TEXT, required=True),
            Field("target", "target", TEXT, required=True),
            Field("args", "args", Array(ANYTHING), default=[]),
            Field("kwargs", "kwargs", Table(ANYTHING), default={}),
        )
