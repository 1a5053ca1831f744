"""TrainingRun. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    MOMENT,
    TEXT,
    Object,
    Table,
)

__all__ = ["TrainingRun"]


@frozen(kw_only=True, getstate_setstate=False)
class TrainingRun(Model):
    """One model that was or is being trained.

    Attributes:
        training_run_id: Id of the run; equal to the model id.
        base_model: Base of the model.
        model_owner: Who owns the run.
        is_lora: Whether the model is an adapter.
        corrupted: Whether an error has left the run unusable.
        lora_rank: Rank of the adapter.
        last_request_time: When the run was last used.
        last_checkpoint: Newest training checkpoint.
        last_sampler_checkpoint: Newest sampler checkpoint.
        user_metadata: Labels kept with the run.
    """

    training_run_id: str
    base_model: str
    model_owner: str
    is_lora: bool
    corrupted: bool = field(default=False)
    lora_rank: int | None = field(default=None)
    last_request_time: datetime.datetime
    last_checkpoint: models.Checkpoint | None = field(default=None)
    last_sampler_checkpoint: models.Checkpoint | None = field(default=None)
    user_metadata: dict[str, str] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .checkpoint import Checkpoint

        return (
            Field("training_run_id", "training_run_id", TEXT, required=True),
            Field("base_model", "base_model", TEXT, required=True),
            Field("model_owner", "model_owner", TEXT, required=True),
            Field("is_lora", "is_lora", BOOLEAN, required=True),
            Field("corrupted", "corrupted", BOOLEAN, default=False),
            Field("lora_rank", "lora_rank", INTEGER, nullable=True),
            Field("last_request_time", "last_request_time", MOMENT, required=True),
            Field("last_checkpoint", "last_checkpoint", Object(Checkpoint), nullable=True),
            Field(
                "last_sampler_checkpoint",
                "last_sampler_checkpoint",
                Object(Checkpoint),
                nullable=True,
            ),
            Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),
        )
