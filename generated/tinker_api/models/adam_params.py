"""AdamParams. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    NUMBER,
)

__all__ = ["AdamParams"]


@frozen(kw_only=True, getstate_setstate=False)
class AdamParams(Model):
    """Step settings of AdamW. Era 0.4.1 leaves out whatever the caller did not choose; era 0.36.0
    always sends every key, and writes null for a number that is not finite, which a server
    answers with a failed step.

    Attributes:
        learning_rate: Step size.
        beta1: Decay of the running mean of the gradients.
        beta2: Decay of the running mean of their squares.
        eps: Added to the denominator for stability.
        weight_decay: Strength of the decoupled weight decay. Era 0.36.0 only.
        grad_clip_norm: Norm to which gradients are clipped; 0 means no clipping. Era 0.36.0 only.
    """

    learning_rate: float | None = field(default=0.0001)
    beta1: float | None = field(default=0.9)
    beta2: float | None = field(default=0.95)
    eps: float | None = field(default=1e-12)
    weight_decay: float | None = field(default=0.0)
    grad_clip_norm: float | None = field(default=0.0)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field(
                "learning_rate", "learning_rate", NUMBER, nullable=True, default=0.0001, always=True
            ),
            Field("beta1", "beta1", NUMBER, nullable=True, default=0.9, always=True),
            Field("beta2", "beta2", NUMBER, nullable=True, default=0.95, always=True),
            Field("eps", "eps", NUMBER, nullable=True, default=1e-12, always=True),
            Field("weight_decay", "weight_decay", NUMBER, nullable=True, default=0.0),
            Field("grad_clip_norm", "grad_clip_norm", NUMBER, nullable=True, default=0.0),
        )
