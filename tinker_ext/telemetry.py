"""What a client tells about itself: events without secrets, for logs, telemetry and traces.

An observer only looks on: an error inside one never reaches the call it watches.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import attrs

from tinker_ext._transport.messages import Lane
from tinker_ext._version import __version__
from tinker_ext.ledger import Tokens

__all__ = [
    "Callback", "Event", "EventCallback", "Observer", "OperationFinished", "OperationStarted",
    "QueueStateSeen", "RequestFailed", "RequestFinished", "RequestStarted", "RetryScheduled",
    "SessionEnded", "SessionStarted", "describe", "opentelemetry_observer",
]  # fmt: skip

logger = logging.getLogger("tinker_ext")


@attrs.frozen
class RequestStarted:
    """An attempt is about to leave; `attempt` counts from 1."""

    operation: str
    lane: Lane
    attempt: int
    size: int


@attrs.frozen
class RequestFinished:
    """An attempt ended with a status, or with the name of an error."""

    operation: str
    lane: Lane
    attempt: int
    status: int | None
    error: str | None
    elapsed: float


@attrs.frozen
class RetryScheduled:
    """The same request will be sent again; `reason` is a status or the name of an error.

    `number` is that of the `OperationStarted` it is sent for, None for requests of our own.
    """

    operation: str
    lane: Lane
    attempt: int
    reason: str
    delay: float
    source: str
    number: int | None = None


@attrs.frozen
class RequestFailed:
    """The last attempt failed and nothing more is tried; `failure` is what the caller gets."""

    operation: str
    lane: Lane
    attempts: int
    elapsed: float
    failure: BaseException = attrs.field(repr=False)

    @property
    def error(self) -> str:
        """Name of the error."""
        return type(self.failure).__name__


@attrs.frozen
class QueueStateSeen:
    """A pending future reported the state of the queue it waits in."""

    operation: str
    request_id: str
    state: str
    reason: str | None
    target: str = ""


@attrs.frozen
class SessionStarted:
    """The server has opened a session."""

    session_id: str


@attrs.frozen
class SessionEnded:
    """A client was closed; `detail` is the name of the exception that ended its block."""

    session_id: str | None
    status: str
    detail: str | None
    seconds: float


@attrs.frozen
class OperationStarted:
    """The user has made a call; its `OperationFinished` has the same number.

    Delivered in the user's thread, before anything is sent.
    """

    number: int
    operation: str
    target: str
    model: str | None = None


@attrs.frozen(kw_only=True)
class OperationFinished:
    """One call of the user has ended, with a result or with an error.

    Attributes:
        number: The calls of a client, counted from 1 in the order they were made.
        operation: For example `forward_backward`.
        target: Model id, or the sampling session, path or base model.
        model: Name of the base model, where it is known.
        seconds: From the call to its result.
        tokens: What the call used, by kind; nothing when the server refused it.
        tokens_in: Tokens sent.
        tokens_out: Tokens sampled.
        datums: Datums of a batch, or sequences asked for.
        loss: Loss of the reply, where it has one: usually a sum over its positions.
        trained: Positions that took part in that loss.
        metrics: Metrics of the reply.
        request_id: Id of the (last) request.
        seq_id: First seq_id of the call.
        attempts: Requests made in the last stage of the call.
        retries: How often a request of the call was sent again.
        effect: Whether it took effect on the server: `yes`, `no` or `unknown`.
        failure: The exception, None on success.
    """

    number: int = 0
    operation: str
    target: str
    model: str | None = None
    seconds: float
    tokens: Tokens = attrs.field(factory=Tokens)
    tokens_in: int = 0
    tokens_out: int = 0
    datums: int = 0
    loss: float | None = None
    trained: int | None = None
    metrics: Mapping[str, float] = attrs.field(factory=dict)
    request_id: str | None = None
    seq_id: int | None = None
    attempts: int = 0
    retries: int = 0
    effect: str = "yes"
    failure: BaseException | None = attrs.field(default=None, repr=False)

    @property
    def error(self) -> str | None:
        """Name of the exception, None on success."""
        return None if self.failure is None else type(self.failure).__name__


Event = (
    RequestStarted
    | RequestFinished
    | RetryScheduled
    | RequestFailed
    | QueueStateSeen
    | SessionStarted
    | SessionEnded
    | OperationStarted
    | OperationFinished
)


def describe(event: Event) -> dict[str, Any]:
    """An event as a plain dict that JSON can carry; of an exception only the name.

    Example:
        >>> describe(SessionStarted("s1"))
        {'event': 'SessionStarted', 'session_id': 's1'}
    """
    fields: dict[str, Any] = {"event": type(event).__name__}
    for name in attrs.fields_dict(type(event)):
        value = getattr(event, name)
        if name == "failure":
            fields["error"] = None if value is None else type(value).__name__
        elif isinstance(value, Tokens):
            fields[name] = value.to_dict()
        elif isinstance(value, Mapping):
            fields[name] = dict(value)
        elif isinstance(value, Lane):
            fields[name] = value.value
        else:
            fields[name] = value
    return fields


@runtime_checkable
class Observer(Protocol):
    """Anything that wants to see events."""

    def notice(self, event: Event) -> None:
        """Look at one event; must return quickly, runs on the event loop."""
        ...


class Observers:
    """Several observers as one; keeps their errors away from the caller."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self.each: tuple[Observer, ...] = tuple(observers)

    @classmethod
    def of(cls, observer: Observer | None) -> Observers:
        """The same list when it is one, else a list of the one observer, or an empty one."""
        if isinstance(observer, cls):
            return observer
        return cls([] if observer is None else [observer])

    def __bool__(self) -> bool:
        return bool(self.each)

    def add(self, observer: Observer) -> None:
        """Tell one more."""
        self.each = (*self.each, observer)

    def remove(self, observer: Observer) -> None:
        """Stop telling one."""
        self.each = tuple(each for each in self.each if each is not observer)

    def notice(self, event: Event) -> None:
        """Tell everybody."""
        for observer in self.each:
            try:
                observer.notice(event)
            except (Exception, SystemExit):  # sys.exit() would end our thread, not the program
                logger.debug("an observer failed on %s", type(event).__name__, exc_info=True)


class LoggingObserver:
    """Writes attempts and retries at debug level; queue states have a line of their own."""

    def notice(self, event: Event) -> None:
        """Write the event when it is worth a line."""
        if isinstance(event, RequestFinished):
            logger.debug(
                "%s: attempt %d ended with %s after %.3f s",
                event.operation,
                event.attempt,
                event.error if event.status is None else event.status,
                event.elapsed,
            )
        elif isinstance(event, RetryScheduled):
            logger.debug(
                "%s: attempt %d ended with %s; the next in %.2f s (%s)",
                event.operation,
                event.attempt,
                event.reason,
                event.delay,
                event.source,
            )


EventCallback = Callable[[Event], object]
"""Called with every event, usually on the core loop's thread: it must return quickly."""


class Callback:
    """Calls a function with every event; its errors never reach the call it watches."""

    def __init__(self, function: EventCallback) -> None:
        self._function = function

    def notice(self, event: Event) -> None:
        """Pass the event on."""
        self._function(event)


# -- OpenTelemetry ---------------------------------------------------------------------------

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
