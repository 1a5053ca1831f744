"""CustomLossGraph. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
    Tag,
)

__all__ = ["CustomLossGraph"]


@frozen(kw_only=True, getstate_setstate=False)
class CustomLossGraph(Model):
    """The operations of a custom loss. Era 0.36.0 only.

    Attributes:
        format: Version of the graph encoding.
        nodes: Operations in an order in which they can be carried out.
    """

    format: Literal[1] = field(default=1)
    nodes: list[models.CustomLossNode]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .custom_loss_node import CustomLossNode

        return (
            Field("format", "format", Tag(1), default=1),
            Field("nodes", "nodes", Array(Object(CustomLossNode)), required=True),
        )
