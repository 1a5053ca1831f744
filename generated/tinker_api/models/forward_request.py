"""ForwardRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Object,
)

__all__ = ["ForwardRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class ForwardRequest(Model):
    """Computes a loss over a batch without gradients. Era 0.4.1 sends it to its own endpoint; era
    0.36.0 has no JSON form and sets a flag in the protobuf training body instead.

    Attributes:
        forward_input: A batch of training examples and the loss to compute on it.
        model_id: Model meant.
        seq_id: Number of this request among all training and weight requests of the model, counted
            from 1. A repeat with the same number is the same request.
    """

    forward_input: models.ForwardBackwardInput
    model_id: str
    seq_id: int | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .forward_backward_input import ForwardBackwardInput

        return (
            Field("forward_input", "forward_input", Object(ForwardBackwardInput), required=True),
            Field("model_id", "model_id", TEXT, required=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
        )
