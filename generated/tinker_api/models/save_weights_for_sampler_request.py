"""SaveWeightsForSamplerRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Table,
    Tag,
)

__all__ = ["SaveWeightsForSamplerRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsForSamplerRequest(Model):
    """Saves the model for sampling; answered with a future. A path gives a lasting checkpoint; a
    sampling_session_seq_id gives a sampler with weights that last as long as the session.

    Attributes:
        model_id: Model meant.
        path: Name of the checkpoint within the run.
        sampling_session_seq_id: Number of the sampler to open, from the same count as other sampling sessions.
        seq_id: Number of this request among all training and weight requests of the model, counted
            from 1. A repeat with the same number is the same request.
        ttl_seconds: Seconds until the checkpoint is deleted; absent keeps it. Era 0.36.0 only.
        user_metadata: Labels kept with the checkpoint. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    model_id: str
    path: str | None = field(default=None)
    sampling_session_seq_id: int | None = field(default=None)
    seq_id: int | None = field(default=None)
    ttl_seconds: int | None = field(default=None)
    user_metadata: dict[str, str] | None = field(default=None)
    type: Literal["save_weights_for_sampler"] = field(default="save_weights_for_sampler")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("model_id", "model_id", TEXT, required=True),
            Field("path", "path", TEXT, nullable=True),
            Field("sampling_session_seq_id", "sampling_session_seq_id", INTEGER, nullable=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
            Field("ttl_seconds", "ttl_seconds", INTEGER, nullable=True),
            Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),
            Field(
                "type", "type", Tag("save_weights_for_sampler"), default="save_weights_for_sampler"
            ),
        )
