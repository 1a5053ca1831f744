"""What is in flight: one entry per operation, the list users see, and the stall watchdog."""

from __future__ import annotations

import asyncio
import logging
import operator
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol, TypeVar

import attrs

from tinker_ext.errors import ClientClosedError, DeadlineExceededError, StallError, TinkerError
from tinker_ext.telemetry import Observers, QueueStateSeen
from tinker_ext.types.enums import QueueState

log = logging.getLogger("tinker_ext")

E = TypeVar("E", bound=TinkerError)

LOG_EVERY_SECONDS: Final = 60.0
"""Least time between two log lines about waiting; the official clients use the same pace."""

QueueObserver = Callable[[str, QueueState, str | None], object]
"""Called with the operation, the queue state and the server's reason, on the loop thread."""


class QueueListener(Protocol):
    """A client that wants to know when the queue state of its work changes."""

    def on_queue_state_change(
        self, queue_state: QueueState, queue_state_reason: str | None = None
    ) -> None:
        """Called on the loop thread, once per change."""


@attrs.frozen
class PendingOperation:
    """One operation in flight, as `client.pending()` shows it.

    Attributes:
        operation: For example `forward_backward`.
        target: Model or sampler the operation works on.
        stage: `queued` (not sent yet), `sending`, or `waiting` (accepted by the server).
        seconds: Time since the call.
        attempt: How many requests have been made for it in this stage.
        request_id: Id the server gave, None before it accepted the request.
        seq_id: Number of the request, None before it was sent.
        queue_state: Last queue state the server reported.
        reason: Last reason the server reported.
    """

    operation: str
    target: str
    stage: str
    seconds: float
    attempt: int
    request_id: str | None
    seq_id: int | None
    queue_state: str | None
    reason: str | None

    def __str__(self) -> str:
        text = f"{self.operation} on {self.target or 'the server'}: {self.stage}"
        facts = [f"for {self.seconds:.0f} s", f"attempt {self.attempt}"]
        if self.request_id is not None:
            facts.append(f"request_id {self.request_id}")
        if self.seq_id is not None:
            facts.append(f"seq_id {self.seq_id}")
        if self.queue_state is not None:
            facts.append(f"queue state {self.queue_state}")
        if self.reason:
            facts.append(f"reason: {self.reason}")
        return f"{text} ({', '.join(facts)})"


_SHOWN: Final = [f.name for f in attrs.fields(PendingOperation) if f.name != "seconds"]


class PendingOperations(list[PendingOperation]):
    """A list of pending operations that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        return displays.pending(self)


@attrs.define(eq=False, repr=False, weakref_slot=False)
class Entry:
    """The live form of a `PendingOperation`; small, since there may be 100,000."""

    operation: str
    target: str
    started: float
    deadline: float
    moved: float = attrs.Factory(operator.attrgetter("started"), takes_self=True)
    stage: str = "queued"
    attempt: int = 0
    number: int = 0
    """Of the call, for observers; 0 without any."""
    retries: int = 0
    cause: str | None = None
    request_id: str | None = None
    seq_id: int | None = None
    queue_state: str | None = None
    reason: str | None = None

    def retried(self, cause: str) -> None:
        """Note that a request is to be sent again; a status, or the name of an error, says why."""
        self.retries += 1
        self.cause = cause

    def snapshot(self, now: float) -> PendingOperation:
        """What a user may see of it now."""
        seconds = max(0.0, now - self.started)
        return PendingOperation(seconds=seconds, **{n: getattr(self, n) for n in _SHOWN})

    def late(self, now: float, stall_seconds: float, failure: str = "") -> DeadlineExceededError:
        """The error for an operation that does not get done by its deadline: what it waited for.

        `now` is before that when the server wants to be asked after it.
        """
        still = now - self.moved >= stall_seconds
        cls = StallError if still else DeadlineExceededError
        before = f" It had failed before: {failure}" if failure else ""
        end = "passed while waiting" if now >= self.deadline else "comes before the next attempt"
        error = cls(f"The deadline {end}: {self.snapshot(now)}.{before}")
        return self._told(error, now)

    def cut_off(self, now: float) -> ClientClosedError:
        """The error for an operation whose client was closed before it ended."""
        brief = f"{self.operation} on {self.target or 'the server'}, {self.stage}"
        error = ClientClosedError(f"The client was closed while this was under way: {brief}.")
        return self._told(error, now)

    def _told(self, error: E, now: float) -> E:
        return error.with_context(
            operation=self.operation,
            request_id=self.request_id,
            attempts=self.attempt,
            elapsed=now - self.started,
        )


class InFlight:
    """All operations in flight of one client, with their observers and the watchdog."""

    def __init__(
        self,
        stall_seconds: float,
        log_seconds: float = LOG_EVERY_SECONDS,
        events: Observers | None = None,
    ) -> None:
        self.stall_seconds = stall_seconds
        self.observers: list[QueueObserver] = []
        self._log_seconds = log_seconds
        self._events = Observers() if events is None else events
        self._listeners: dict[str, weakref.WeakSet[QueueListener]] = {}
        self._states: dict[str, tuple[QueueState, str | None]] = {}
        self._entries: dict[Entry, None] = {}
        self._queues: list[Callable[[], Iterable[Entry]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._logged: dict[str, float] = {}

    def add_queue(self, entries: Callable[[], Iterable[Entry]]) -> None:
        """Let `snapshot` also list entries that wait in a queue of their own."""
        self._queues.append(entries)

    def listen(self, target: str, listener: QueueListener) -> None:
        """Tell a client about the queue state of its work, as long as the client lives."""
        self._listeners.setdefault(target, weakref.WeakSet()).add(listener)

    def add(self, entry: Entry) -> None:
        """Note that an operation is in flight; on the loop."""
        self._entries[entry] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.stall_seconds, self._watch, loop)

    def discard(self, entry: Entry) -> None:
        """Note that an operation has ended; on the loop."""
        self._entries.pop(entry, None)
        if not self._entries and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def after_fork(self) -> None:
        """Forget the parent's operations in a forked child."""
        self._entries.clear()
        self._timer = None

    def snapshot(self, now: float, target: str | None = None) -> list[PendingOperation]:
        """What is in flight or queued, oldest first, for one target or all; from any thread."""
        entries = list(self._entries)
        for queue in self._queues:
            entries.extend(queue())
        mine = (entry for entry in entries if target is None or entry.target == target)
        found = PendingOperations(entry.snapshot(now) for entry in mine)
        found.sort(key=lambda op: -op.seconds)
        return found

    def report(self, entry: Entry, state: str | None, reason: str | None, now: float) -> None:
        """Note the queue state a poll brought, tell the observers, log it at times."""
        if state is None:
            return
        if (state, reason) != (entry.queue_state, entry.reason):
            entry.moved = now
        if self._events:
            self._events.notice(
                QueueStateSeen(entry.operation, entry.request_id or "", state, reason, entry.target)
            )
        entry.queue_state, entry.reason = state, reason
        known = QueueState(state)
        for observer in tuple(self.observers):
            tell = partial(observer, entry.operation, known, reason)
            self._tell(tell, "A queue state observer failed.", now)
        self._tell_clients(entry.target, known, reason, now)
        if known is not QueueState.ACTIVE and self._may_log("queue", now):
            log.warning("The server is holding work back. %s", entry.snapshot(now))

    def _tell_clients(self, target: str, state: QueueState, reason: str | None, now: float) -> None:
        if self._states.get(target, (QueueState.ACTIVE, None)) == (state, reason):
            return
        self._states[target] = (state, reason)
        for listener in list(self._listeners.get(target, ())):
            tell = partial(listener.on_queue_state_change, state, reason)
            self._tell(tell, "on_queue_state_change failed.", now)

    def _tell(self, tell: Callable[[], object], failed: str, now: float) -> None:
        try:
            tell()
        except (Exception, SystemExit):
            # Reports come with every poll, and a broken observer fails on each of them.
            if self._may_log(failed, now):
                log.exception(failed)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        still = [e for e in self._entries if now - e.moved >= self.stall_seconds]
        if still:
            oldest = min(still, key=lambda entry: entry.moved)
            log.warning(
                "%d operation(s) have not moved for %.0f s. Oldest: %s",
                len(still),
                now - oldest.moved,
                oldest.snapshot(now),
            )
        self._timer = (
            loop.call_later(self.stall_seconds, self._watch, loop) if self._entries else None
        )

    def _may_log(self, what: str, now: float) -> bool:
        last = self._logged.get(what)
        if last is not None and now - last < self._log_seconds:
            return False
        self._logged[what] = now
        return True
