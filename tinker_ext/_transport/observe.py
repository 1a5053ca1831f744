"""What the transport tells about itself: events without secrets, for logs, telemetry and traces.

An observer only looks on: an error inside one never reaches the call it watches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Protocol, runtime_checkable

import attrs

from tinker_ext._transport.messages import Lane

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
    """The same request will be sent again; `reason` is a status or the name of an error."""

    operation: str
    lane: Lane
    attempt: int
    reason: str
    delay: float
    source: str


@attrs.frozen
class QueueStateSeen:
    """A pending future reported the state of the queue it waits in."""

    operation: str
    request_id: str
    state: str
    reason: str | None


Event = RequestStarted | RequestFinished | RetryScheduled | QueueStateSeen


@runtime_checkable
class Observer(Protocol):
    """Anything that wants to see events."""

    def notice(self, event: Event) -> None:
        """Look at one event; must return quickly, runs on the event loop."""
        ...


class Observers:
    """Several observers as one; keeps their errors away from the caller.

    Args:
        observers: Who is told, in this order.
    """

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers: tuple[Observer, ...] = tuple(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Tell one more."""
        self._observers = (*self._observers, observer)

    def remove(self, observer: Observer) -> None:
        """Stop telling one."""
        self._observers = tuple(each for each in self._observers if each is not observer)

    def notice(self, event: Event) -> None:
        """Tell everybody."""
        for observer in self._observers:
            try:
                observer.notice(event)
            except Exception:
                logger.debug("an observer failed on %s", type(event).__name__, exc_info=True)


class LoggingObserver:
    """Writes retries at debug level and queue states at most once a minute, never `active`.

    Args:
        log: Where to write.
        clock: Seconds; replaced in tests.
    """

    seconds_between_lines = 60.0

    def __init__(
        self, log: logging.Logger = logger, clock: Callable[[], float] = monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._last_line = float("-inf")

    def notice(self, event: Event) -> None:
        """Write the event when it is worth a line."""
        if isinstance(event, RetryScheduled):
            self._log.debug(
                "%s: attempt %d ended with %s; the next in %.2f s (%s)",
                event.operation,
                event.attempt,
                event.reason,
                event.delay,
                event.source,
            )
        elif isinstance(event, QueueStateSeen) and event.state != "active":
            now = self._clock()
            if now - self._last_line >= self.seconds_between_lines:
                self._last_line = now
                self._log.warning(
                    "%s is waiting (%s)%s [request %s]",
                    event.operation,
                    event.state,
                    f": {event.reason}" if event.reason else "",
                    event.request_id,
                )
