"""AuditLogEntry. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import Factory, field, frozen

from ..base import Field, Model
from ..codec import (
    ANYTHING,
    MOMENT,
    TEXT,
    Table,
)

__all__ = ["AuditLogEntry"]


@frozen(kw_only=True, getstate_setstate=False)
class AuditLogEntry(Model):
    """One event of the audit log. Era 0.36.0 only.

    Attributes:
        timestamp: When it happened.
        event: What happened: a resource, an underscore and an action.
        event_details: Labels or facts of any JSON kind, by name. A null value inside is kept.
        model_id: Model concerned; kept for old entries.
        tinker_path: Checkpoint concerned; kept for old entries.
        purpose: Stated purpose; kept for old entries.
    """

    timestamp: datetime.datetime
    event: str
    event_details: dict[str, Any] = field(default=Factory(dict))
    model_id: str | None = field(default=None)
    tinker_path: str | None = field(default=None)
    purpose: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("timestamp", "timestamp", MOMENT, required=True),
            Field("event", "event", TEXT, required=True),
            Field("event_details", "event_details", Table(ANYTHING), default={}),
            Field("model_id", "model_id", TEXT, nullable=True),
            Field("tinker_path", "tinker_path", TEXT, nullable=True),
            Field("purpose", "purpose", TEXT, nullable=True),
        )
