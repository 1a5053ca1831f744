"""SessionFailedTrainingRunReason. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SessionFailedTrainingRunReason"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionFailedTrainingRunReason(Model):
    """A training run failed. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        training_run_id: Id of the run.
    """

    type: Literal["training_run"] = field(default="training_run")
    training_run_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("training_run"), default="training_run"),
            Field("training_run_id", "training_run_id", TEXT, required=True),
        )
