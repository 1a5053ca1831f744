"""GetSamplerResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["GetSamplerResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class GetSamplerResponse(Model):
    """What a sampling session samples from. Era 0.36.0 only.

    Attributes:
        sampler_id: Id of the sampling session.
        base_model: Base of the model.
        model_path: Sampler weights, when it is not the untuned base.
    """

    sampler_id: str
    base_model: str
    model_path: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("sampler_id", "sampler_id", TEXT, required=True),
            Field("base_model", "base_model", TEXT, required=True),
            Field("model_path", "model_path", TEXT, nullable=True),
        )
