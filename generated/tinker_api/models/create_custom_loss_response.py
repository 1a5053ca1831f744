"""CreateCustomLossResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["CreateCustomLossResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateCustomLossResponse(Model):
    """Result of uploading a custom loss. Era 0.36.0 only.

    Attributes:
        loss_id: Id to name the loss by in training requests.
        type: Tag of this type.
    """

    loss_id: str
    type: Literal["create_custom_loss"] = field(default="create_custom_loss")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("loss_id", "loss_id", TEXT, required=True),
            Field("type", "type", Tag("create_custom_loss"), default="create_custom_loss"),
        )
