"""CheckpointBillingEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["CheckpointBillingEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class CheckpointBillingEvent(Model):
    """Checkpoints saved. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        count: Number of checkpoints.
    """

    type: Literal["checkpoint"] = field(default="checkpoint")
    count: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("checkpoint"), default="checkpoint"),
            Field("count", "count", INTEGER, required=True),
        )
