"""LoadWeightsResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["LoadWeightsResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class LoadWeightsResponse(Model):
    """Result of loading weights.

    Attributes:
        path: Address of the checkpoint that was loaded.
        model_id: Model that now holds the weights. Era 0.36.0 only.
        type: Tag of this type.
    """

    path: str | None = field(default=None)
    model_id: str | None = field(default=None)
    type: Literal["load_weights"] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("path", "path", TEXT, nullable=True),
            Field("model_id", "model_id", TEXT, nullable=True),
            Field("type", "type", Tag("load_weights"), nullable=True),
        )
