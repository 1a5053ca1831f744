"""Observers of a client: telemetry to the server, a user's callback, the run log, OpenTelemetry.

Nothing here runs unless the user asks for it, and nothing here can delay or break a call.
"""

from tinker_ext._transport.events import (
    Callback,
    Event,
    EventCallback,
    Observer,
    OperationFinished,
    OperationStarted,
    QueueStateSeen,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
    describe,
)
from tinker_ext.observe.otel import opentelemetry_observer

__all__ = [
    "Callback",
    "Event",
    "EventCallback",
    "Observer",
    "OperationFinished",
    "OperationStarted",
    "QueueStateSeen",
    "RequestFailed",
    "RequestFinished",
    "RequestStarted",
    "RetryScheduled",
    "SessionEnded",
    "SessionStarted",
    "describe",
    "opentelemetry_observer",
]
