"""SessionStartEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    INTEGER,
    MOMENT,
    TEXT,
    Tag,
)

__all__ = ["SessionStartEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionStartEvent(Model):
    """A session was opened.

    Attributes:
        event: Tag of this type.
        event_id: Random id of the event.
        event_session_index: Number of the event within its session, counted from 0.
        severity: How grave a telemetry event is.
        timestamp: When it happened.
    """

    event: Literal["SESSION_START"] = field(default="SESSION_START")
    event_id: str
    event_session_index: int
    severity: models.Severity = field(
        validator=one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    )
    timestamp: datetime.datetime
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("event", "event", Tag("SESSION_START"), required=True, default="SESSION_START"),
            Field("event_id", "event_id", TEXT, required=True),
            Field("event_session_index", "event_session_index", INTEGER, required=True),
            Field(
                "severity",
                "severity",
                TEXT,
                required=True,
                values=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
            ),
            Field("timestamp", "timestamp", MOMENT, required=True),
        )
