"""TrainingRunsResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

__all__ = ["TrainingRunsResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class TrainingRunsResponse(Model):
    """One page of training runs.

    Attributes:
        training_runs: The runs.
        cursor: Page position of a list.
    """

    training_runs: list[models.TrainingRun]
    cursor: models.Cursor
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .cursor import Cursor
        from .training_run import TrainingRun

        return (
            Field("training_runs", "training_runs", Array(Object(TrainingRun)), required=True),
            Field("cursor", "cursor", Object(Cursor), required=True),
        )
