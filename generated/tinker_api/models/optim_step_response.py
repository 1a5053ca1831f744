"""OptimStepResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    NUMBER,
    Table,
)

__all__ = ["OptimStepResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class OptimStepResponse(Model):
    """Result of an optimizer step.

    Attributes:
        metrics: Numbers about the step.
    """

    metrics: dict[str, float] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("metrics", "metrics", Table(NUMBER), nullable=True),)
