"""GenericEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    ANYTHING,
    INTEGER,
    MOMENT,
    TEXT,
    Table,
    Tag,
)

__all__ = ["GenericEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class GenericEvent(Model):
    """Anything else worth reporting.

    Attributes:
        event: Tag of this type.
        event_id: Random id of the event.
        event_name: What happened.
        event_session_index: Number of the event within its session, counted from 0.
        severity: How grave a telemetry event is.
        timestamp: When it happened.
        event_data: Labels or facts of any JSON kind, by name. A null value inside is kept.
    """

    event: Literal["GENERIC_EVENT"] = field(default="GENERIC_EVENT")
    event_id: str
    event_name: str
    event_session_index: int
    severity: models.Severity = field(
        validator=one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    )
    timestamp: datetime.datetime
    event_data: dict[str, Any] = field(default=Factory(dict))
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("event", "event", Tag("GENERIC_EVENT"), required=True, default="GENERIC_EVENT"),
            Field("event_id", "event_id", TEXT, required=True),
            Field("event_name", "event_name", TEXT, required=True),
            Field("event_session_index", "event_session_index", INTEGER, required=True),
            Field(
                "severity",
                "severity",
                TEXT,
                required=True,
                values=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
            ),
            Field("timestamp", "timestamp", MOMENT, required=True),
            Field("event_data", "event_data", Table(ANYTHING), default={}),
        )
