"""Observers of a client: telemetry to the server, a user's callback, the run log, OpenTelemetry.

Nothing here runs unless the user asks for it, and nothing here can delay or break a call.
"""

import importlib.util
import time
from typing import Any

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
from tinker_ext._version import __version__

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


NAME = "tinker_ext"


def is_installed() -> bool:
    """Whether the OpenTelemetry API can be imported."""
    try:
        return importlib.util.find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:
        return False


def opentelemetry_observer(
    tracer_provider: Any = None, meter_provider: Any = None
) -> Observer | None:
    """An observer that makes spans and metrics, or None without OpenTelemetry.

    Args:
        tracer_provider: Where spans go; the global provider by default.
        meter_provider: Where metrics go; the global provider by default.

    Returns:
        What to pass to `ServiceClient(observer=…)`.
    """
    if not is_installed():
        return None
    return _OpenTelemetry(tracer_provider, meter_provider)


class _OpenTelemetry:
    """Makes a span and counts per event."""

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        from opentelemetry import metrics, trace

        self._trace = trace
        self._tracer = trace.get_tracer(NAME, __version__, tracer_provider)
        meter = metrics.get_meter(NAME, __version__, meter_provider)
        self._seconds = meter.create_histogram(
            "tinker.operation.duration", "s", "Time from a call to its result"
        )
        self._tokens = meter.create_counter("tinker.tokens", "{token}", "Tokens used, by kind")
        self._requests = meter.create_counter("tinker.requests", "{request}", "Attempts by status")
        self._retries = meter.create_counter("tinker.retries", "{retry}", "Requests sent again")
        self._waits = meter.create_counter(
            "tinker.queue.waits", "{report}", "Reports that the server holds work back"
        )

    def notice(self, event: Event) -> None:
        """Make the span and the numbers of an event."""
        if isinstance(event, OperationFinished):
            self._operation(event)
        elif isinstance(event, RequestFinished):
            labels: dict[str, Any] = {"operation": event.operation, "lane": str(event.lane)}
            if event.status is not None:
                labels["http.response.status_code"] = event.status
            if event.error is not None:
                labels["error.type"] = event.error
            self._requests.add(1, labels)
        elif isinstance(event, RetryScheduled):
            self._retries.add(1, {"operation": event.operation, "reason": event.reason})
        elif isinstance(event, QueueStateSeen) and event.state != "active":
            self._waits.add(1, {"operation": event.operation, "state": event.state})

    def _operation(self, event: OperationFinished) -> None:
        labels: dict[str, Any] = {"operation": event.operation}
        if event.error is not None:
            labels["error.type"] = event.error
        self._seconds.record(event.seconds, labels)
        for kind, count in event.tokens.to_dict().items():
            if count:
                self._tokens.add(count, {"operation": event.operation, "kind": kind})
        self._span(event)

    def _span(self, event: OperationFinished) -> None:
        ended = time.time_ns()
        attributes: dict[str, Any] = {
            "tinker.target": event.target,
            "tinker.model": event.model,
            "tinker.request_id": event.request_id,
            "tinker.seq_id": event.seq_id,
            "tinker.datums": event.datums,
            "tinker.tokens_in": event.tokens_in,
            "tinker.tokens_out": event.tokens_out,
            "tinker.loss": event.loss,
            "error.type": event.error,
        }
        span = self._tracer.start_span(
            f"tinker.{event.operation}",
            kind=self._trace.SpanKind.CLIENT,
            attributes={name: value for name, value in attributes.items() if value is not None},
            start_time=ended - int(event.seconds * 1e9),
        )
        if event.error is not None:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, event.error))
        span.end(ended)
