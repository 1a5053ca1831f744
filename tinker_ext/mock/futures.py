"""Promises of results: created when a request is accepted, read by long polls, then forgotten."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

import attrs

from tinker_ext.mock.clock import Clock
from tinker_ext.mock.results import Failure, Result

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


@attrs.define(eq=False)
class Promise:
    """One accepted request and what became of it.

    Attributes:
        kind: Operation name, for example `forward_backward`.
        outcome: Result or failure, None while pending.
        visible_at: Monotonic time from which the outcome may be read.
        queue_state: What a pending poll reports, with `queue_reason`.
        state: `pending`, `settled`, `cancelled` or `expired`.
    """

    request_id: str
    kind: str
    created: float
    model_id: str | None = None
    session_id: str | None = None
    sampler_id: str | None = None
    clone: int = 0
    state: str = "pending"
    outcome: Result | Failure | None = None
    visible_at: float = 0.0
    queue_state: str = "active"
    queue_reason: str | None = None
    paused_until: float = 0.0
    delivered: float | None = None
    waiters: list[Waiter] = attrs.field(factory=list, repr=False)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def wake(waiters: list[Waiter]) -> None:
    """Wake waiting coroutines from any thread."""
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for loop, future in list(waiters):
        if loop is here:
            _set(future)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_set, future)


class Nap:
    """A place among the waiters, taken under the lock and slept on outside of it."""

    def __init__(self, waiters: list[Waiter]) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._waiters = waiters
        waiters.append((self._loop, self._future))

    async def until(self, when: float) -> None:
        """Sleep until woken or until the loop's clock shows `when`."""
        timer = self._loop.call_at(when, _set, self._future)
        try:
            await self._future
        finally:
            timer.cancel()
            self._waiters.remove((self._loop, self._future))


class Promises:
    """All promises of a server, safe to settle from the engine's thread.

    Args:
        clock: Source of time.
        lock: The lock that guards the server's state.
        unread_ttl: Seconds an outcome is kept that nobody read.
        read_ttl: Seconds an outcome is kept after it was read.
        latency: Seconds between settling and being visible.
    """

    def __init__(
        self,
        clock: Clock,
        lock: threading.RLock,
        *,
        unread_ttl: float,
        read_ttl: float,
        latency: float = 0.0,
    ) -> None:
        self._clock = clock
        self._lock = lock
        self._unread_ttl = unread_ttl
        self._read_ttl = read_ttl
        self._latency = latency
        self._table: dict[str, Promise] = {}
        self._gone: dict[str, None] = {}
        self._read: deque[tuple[float, str]] = deque()
        self._settled: deque[tuple[float, str]] = deque()
        self.closing = False

    def __len__(self) -> int:
        return len(self._table)

    def add(self, promise: Promise) -> Promise:
        """Register a new promise."""
        with self._lock:
            self._table[promise.request_id] = promise
            return promise

    def find(self, request_id: str) -> Promise | None:
        """Return the promise, or None when it was never made or is forgotten."""
        self._sweep()
        return self._table.get(request_id)

    def is_gone(self, request_id: str) -> bool:
        """Tell whether this id was once known and has expired."""
        return request_id in self._gone

    def pending(self, kind: str | None = None) -> int:
        """Count promises that wait for their outcome."""
        with self._lock:
            return sum(
                1
                for promise in self._table.values()
                if promise.state == "pending" and kind in (None, promise.kind)
            )

    def in_flight(self, kind: str) -> int:
        """Count promises whose outcome nobody can read yet, for whatever reason."""
        now = self._clock.now()
        with self._lock:
            return sum(
                1
                for promise in self._table.values()
                if promise.kind == kind
                and (
                    promise.state == "pending"
                    or (promise.state == "settled" and now < promise.visible_at)
                )
            )

    def settle(self, promise: Promise, outcome: Result | Failure) -> None:
        """Give a promise its outcome; later calls have no effect."""
        with self._lock:
            if promise.state != "pending":
                return
            now = self._clock.now()
            promise.outcome = outcome
            promise.state = "settled"
            promise.visible_at = max(now + self._latency, promise.paused_until)
            self._settled.append((now + self._unread_ttl, promise.request_id))
            wake(promise.waiters)

    def cancel(self, promise: Promise) -> None:
        """Give up a pending promise at its owner's wish."""
        with self._lock:
            if promise.state == "pending":
                promise.state = "cancelled"
                promise.outcome = Failure("the request was cancelled by its owner", "user")
                wake(promise.waiters)

    def expire(self, request_id: str) -> None:
        """Forget a promise; reading it answers 410 from now on."""
        with self._lock:
            promise = self._table.pop(request_id, None)
            self._gone[request_id] = None
            if len(self._gone) > 200_000:
                del self._gone[next(iter(self._gone))]
            if promise is not None:
                promise.state = "expired"
                wake(promise.waiters)

    def mark_read(self, promise: Promise) -> None:
        """Start the shorter time to live of a delivered outcome."""
        with self._lock:
            if promise.delivered is None:
                promise.delivered = self._clock.now()
                self._read.append((promise.delivered + self._read_ttl, promise.request_id))

    def readable(self, promise: Promise) -> bool:
        """Tell whether a poll can answer now."""
        if promise.state == "pending":
            return False
        return promise.state != "settled" or self._clock.now() >= promise.visible_at

    async def wait(self, promise: Promise, seconds: float) -> bool:
        """Wait until a promise can be read.

        Returns:
            True when it can, False when `seconds` passed first or the server is closing.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.readable(promise):
            now = loop.time()
            if now >= deadline or self.closing:
                return False
            with self._lock:
                if self.readable(promise):
                    return True
                settled = promise.state == "settled"
                until = min(deadline, promise.visible_at) if settled else deadline
                nap = Nap(promise.waiters)
            await nap.until(until)
        return True

    def after_fork(self) -> None:
        """Forget who waits: loops of the parent, whose wake-up pipes a child must not write to."""
        for promise in self._table.values():
            promise.waiters.clear()

    def close(self) -> None:
        """Release every waiting poll."""
        with self._lock:
            self.closing = True
            for promise in self._table.values():
                wake(promise.waiters)

    def durable(self) -> list[dict[str, Any]]:
        """Return the pending and settled promises that a snapshot keeps."""
        with self._lock:
            return [
                {
                    "request_id": p.request_id,
                    "kind": p.kind,
                    "model_id": p.model_id,
                    "session_id": p.session_id,
                    "outcome": p.outcome.to_record() if p.outcome is not None else None,
                }
                for p in self._table.values()
                if p.request_id.startswith("req-") and p.state == "settled"
            ]

    def _sweep(self) -> None:
        now = self._clock.now()
        with self._lock:
            for queue in (self._read, self._settled):
                while queue and queue[0][0] <= now:
                    _, request_id = queue.popleft()
                    if request_id in self._table:
                        self.expire(request_id)
