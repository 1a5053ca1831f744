"""UnloadModelRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["UnloadModelRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class UnloadModelRequest(Model):
    """Frees the memory of a model. Public clients of neither era call it.

    Attributes:
        model_id: Model meant.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    model_id: str
    type: Literal["unload_model"] = field(default="unload_model")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("model_id", "model_id", TEXT, required=True),
            Field("type", "type", Tag("unload_model"), default="unload_model"),
        )
