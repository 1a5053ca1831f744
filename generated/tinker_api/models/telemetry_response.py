"""TelemetryResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["TelemetryResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class TelemetryResponse(Model):
    """Receipt for a telemetry batch.

    Attributes:
        status: Whether the batch was taken.
    """

    status: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("status", "status", TEXT, required=True),)
