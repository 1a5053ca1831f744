"""CheckpointsListResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

__all__ = ["CheckpointsListResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CheckpointsListResponse(Model):
    """Checkpoints of a run, or of the caller with a page position.

    Attributes:
        checkpoints: The checkpoints.
        cursor: Page position; absent when the list is not paged.
    """

    checkpoints: list[models.Checkpoint]
    cursor: models.Cursor | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .checkpoint import Checkpoint
        from .cursor import Cursor

        return (
            Field("checkpoints", "checkpoints", Array(Object(Checkpoint)), required=True),
            Field("cursor", "cursor", Object(Cursor), nullable=True),
        )
