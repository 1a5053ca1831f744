"""CreateModelResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["CreateModelResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateModelResponse(Model):
    """Result of creating a model.

    Attributes:
        model_id: Id of the new model.
        type: Tag of this type.
    """

    model_id: str
    type: Literal["create_model"] = field(default="create_model")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("model_id", "model_id", TEXT, required=True),
            Field("type", "type", Tag("create_model"), default="create_model"),
        )
