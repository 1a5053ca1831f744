"""DimuonParams. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    NUMBER,
    Tag,
)

__all__ = ["DimuonParams"]


@frozen(kw_only=True, getstate_setstate=False)
class DimuonParams(Model):
    """Step settings of Dimuon. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        learning_rate: Step size; not negative.
        grad_clip_norm: Norm to which gradients are clipped; 0 means no clipping.
        beta1: Momentum, from 0 up to but not including 1.
    """

    type: Literal["dimuon"] = field(default="dimuon")
    learning_rate: float
    grad_clip_norm: float = field(default=0.0)
    beta1: float = field(default=0.9)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("dimuon"), required=True, default="dimuon"),
            Field("learning_rate", "learning_rate", NUMBER, required=True),
            Field("grad_clip_norm", "grad_clip_norm", NUMBER, default=0.0, always=True),
            Field("beta1", "beta1", NUMBER, default=0.9, always=True),
        )
