"""ParsedCheckpointTinkerPath. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["ParsedCheckpointTinkerPath"]


@frozen(kw_only=True, getstate_setstate=False)
class ParsedCheckpointTinkerPath(Model):
    """The parts of a checkpoint address. Never sent over HTTP: the client builds it.

    Attributes:
        tinker_path: The whole address.
        training_run_id: Run the checkpoint belongs to; may be empty.
        checkpoint_type: What a checkpoint is for. Era 0.4.1 knows training and sampler; external exists in
            era 0.36.0 only. Further values may appear.
        checkpoint_id: Kind and name of the checkpoint, joined by a slash.
    """

    tinker_path: str
    training_run_id: str
    checkpoint_type: str
    checkpoint_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("tinker_path", "tinker_path", TEXT, required=True),
            Field("training_run_id", "training_run_id", TEXT, required=True),
            Field("checkpoint_type", "checkpoint_type", TEXT, required=True),
            Field("checkpoint_id", "checkpoint_id", TEXT, required=True),
        )
