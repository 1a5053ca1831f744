"""OptimStepRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Choice,
    Object,
    Tag,
)

__all__ = ["OptimStepRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class OptimStepRequest(Model):
    """Applies the gathered gradients. Exactly one of adam_params and optimizer_params is present.

    Attributes:
        model_id: Model meant.
        seq_id: Number of this request among all training and weight requests of the model, counted
            from 1. A repeat with the same number is the same request.
        adam_params: Step settings of AdamW. Era 0.4.1 leaves out whatever the caller did not choose; era
            0.36.0 always sends every key, and writes null for a number that is not finite,
            which a server answers with a failed step.
        optimizer_params: Step settings of an optimizer. Settings of AdamW have no tag; a tag not listed
            belongs to a family this document does not know. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    model_id: str
    seq_id: int | None = field(default=None)
    adam_params: models.AdamParams | None = field(default=None)
    optimizer_params: models.OptimParams | None = field(default=None)
    type: Literal["optim_step"] = field(default="optim_step")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .adam_params import AdamParams
        from .dimuon_params import DimuonParams
        from .optim_params_base import OptimParamsBase

        return (
            Field("model_id", "model_id", TEXT, required=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
            Field("adam_params", "adam_params", Object(AdamParams)),
            Field(
                "optimizer_params",
                "optimizer_params",
                Choice(
                    models=(
                        DimuonParams,
                        AdamParams,
                        OptimParamsBase,
                    )
                ),
            ),
            Field("type", "type", Tag("optim_step"), default="optim_step"),
        )
