"""CreateCustomLossRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Array,
    Object,
    Tag,
)

__all__ = ["CreateCustomLossRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateCustomLossRequest(Model):
    """Uploads a loss as a graph of operations, so that the server can compute it; answered with a
    future. Era 0.36.0 only.

    Attributes:
        session_id: Session the loss is kept in.
        custom_loss_seq_id: Number of this loss within the session, counted by the client.
        name: Name of the loss for people.
        inputs: Tensors the loss takes, in order.
        graph: The operations of a custom loss. Era 0.36.0 only.
        type: Tag of this type.
    """

    session_id: str
    custom_loss_seq_id: int
    name: str
    inputs: list[models.CustomLossInput]
    graph: models.CustomLossGraph
    type: Literal["create_custom_loss"] = field(default="create_custom_loss")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .custom_loss_graph import CustomLossGraph
        from .custom_loss_input import CustomLossInput

        return (
            Field("session_id", "session_id", TEXT, required=True),
            Field("custom_loss_seq_id", "custom_loss_seq_id", INTEGER, required=True),
            Field("name", "name", TEXT, required=True),
            Field("inputs", "inputs", Array(Object(CustomLossInput)), required=True),
            Field("graph", "graph", Object(CustomLossGraph), required=True),
            Field("type", "type", Tag("create_custom_loss"), default="create_custom_loss"),
        )
