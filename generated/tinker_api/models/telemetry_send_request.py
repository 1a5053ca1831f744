"""TelemetrySendRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    TEXT,
    Array,
    Choice,
)

__all__ = ["TelemetrySendRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class TelemetrySendRequest(Model):
    """A batch of telemetry events of one session.

    Attributes:
        events: The events, oldest first.
        platform: Operating system of the client.
        sdk_version: Version text of the calling client.
        session_id: Session the events belong to.
        process_uuid: Random id of the client process. Era 0.36.0 only, and always sent there.
    """

    events: list[models.TelemetryEvent]
    platform: str
    sdk_version: str
    session_id: str
    process_uuid: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .generic_event import GenericEvent
        from .session_end_event import SessionEndEvent
        from .session_start_event import SessionStartEvent
        from .unhandled_exception_event import UnhandledExceptionEvent

        return (
            Field(
                "events",
                "events",
                Array(
                    Choice(
                        models=(
                            SessionStartEvent,
                            SessionEndEvent,
                            UnhandledExceptionEvent,
                            GenericEvent,
                        )
                    )
                ),
                required=True,
            ),
            Field("platform", "platform", TEXT, required=True),
            Field("sdk_version", "sdk_version", TEXT, required=True),
            Field("session_id", "session_id", TEXT, required=True),
            Field("process_uuid", "process_uuid", TEXT),
        )
