"""`Waits`: what the pending calls of a client wait for, and where its time goes.

Each moment counts once, for what the oldest pending call is doing; without one it is the program's
own. Events mark the moments exactly; while calls are pending a timer writes what has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from tinker_ext import forks
from tinker_ext._transport.events import (
    OperationFinished,
    OperationStarted,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
)
from tinker_ext.runlog import KINDS, RunLog

if TYPE_CHECKING:
    from tinker_ext.observe.watchers import WatchedCall

SHOWN = 16
"""Calls written in a line; the oldest."""

TICK_SECONDS = 0.5
CALLS_SECONDS = 1.0
SAME_SECONDS = 5.0
TIME_SECONDS = 10.0
"""How often calls are looked at; how often they are written with news, and without; how often the
time is."""

REFUSALS = ("402", "429")


class Runtime(Protocol):
    """What is needed of the place where the core runs."""

    def time(self) -> float:
        """Loop time; from any thread."""

    def call(self, fn: Any, *args: Any) -> None:
        """Run a function on the loop; from any thread."""


class Waits:
    """Writes the `waiting` and `time` lines of a run log; safe from any thread.

    Args:
        run_log: Where to.
        runtime: Clock and timers.
        live: Calls under way, by number.
        totals: Gives what was used so far, written with the time.
    """

    def __init__(
        self,
        run_log: RunLog,
        runtime: Runtime,
        live: Mapping[int, WatchedCall],
        totals: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.session_id: str | None = None
        self._log = run_log
        self._runtime = runtime
        self.clock = runtime.time
        self._live = live
        self._totals = totals
        self._lock = forks.lock()
        self._pending: dict[int, tuple[OperationStarted, WatchedCall]] = {}
        self._lanes: dict[str, str] = {}
        self._spent = dict.fromkeys(KINDS, 0.0)
        self._since: float | None = None
        self._written = -CALLS_SECONDS
        self._last: tuple[Any, Any] = (None, None)
        self._ticking = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def started(self, event: OperationStarted) -> None:
        """Take in a call that has begun."""
        call = self._live.get(event.number)
        with self._lock:
            self._account()
            if call is not None:
                self._pending[event.number] = event, call
            tick = not (self._ticking or self._closed)
            self._ticking = self._ticking or tick
        if tick:
            self._runtime.call(self._tick)

    def finished(self, event: OperationFinished) -> None:
        """Take in that a call has ended."""
        with self._lock:
            self._account()
            self._pending.pop(event.number, None)

    def request(self, event: RequestStarted | RequestFinished) -> None:
        """Take in that a request has left or was answered."""
        with self._lock:
            self._account()
            if isinstance(event, RequestStarted):
                self._lanes[event.operation] = event.lane.value

    def retried(self, event: RetryScheduled) -> None:
        """Take in that a request will be sent again."""
        with self._lock:
            self._account()

    def flush(self) -> None:
        """Write where the time went since the last such line."""
        with self._lock:
            self._account()
            self._write_time()

    def close(self) -> None:
        """Stop looking; on the loop."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _account(self) -> None:
        now = self._runtime.time()
        if self._since is not None:
            self._spent[self._kind()] += max(0.0, now - self._since)
        self._since = now
        if sum(self._spent.values()) >= TIME_SECONDS:
            self._write_time()

    def _kind(self) -> str:
        _, call = next(iter(self._pending.values()), (None, None))
        if call is None:
            return "us"
        if call.stage == "queued":
            return "queue"
        if call.stage == "waiting":
            return "server" if call.queue_state in (None, "active") else "queue"
        return "queue" if call.cause in REFUSALS else "network"

    def _write_time(self) -> None:
        spent = {name: round(seconds, 4) for name, seconds in self._spent.items()}
        total = round(sum(self._spent.values()), 4)
        self._spent = dict.fromkeys(KINDS, 0.0)
        if total:
            self._log.write(
                "time", session=self.session_id, seconds=total, **spent, totals=self._totals()
            )

    def _tick(self) -> None:
        with self._lock:
            self._account()
            now = self._runtime.time()
            if now - self._written >= CALLS_SECONDS:
                self._write_calls(now)
            if self._closed or not self._pending:
                self._ticking, self._timer = False, None
                return
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _write_calls(self, now: float) -> None:
        apart = time.time() - now
        calls = [
            {
                "number": event.number,
                "operation": event.operation,
                "target": event.target,
                "lane": self._lanes.get(event.operation),
                "stage": call.stage,
                "since": round(call.started + apart, 3),
                "deadline": round(call.deadline + apart, 3),
                "attempts": call.attempt,
                "retries": call.retries,
                "cause": call.cause,
                "state": call.queue_state,
                "reason": call.reason,
                "request_id": call.request_id,
                "seq_id": call.seq_id,
            }
            for event, call in islice(self._pending.values(), SHOWN)
        ]
        # News is what calls wait for; that others wait for the same, or were polled, can wait.
        news = {(c["operation"], c["stage"], c["retries"], c["state"], c["reason"]) for c in calls}
        numbers = [call["number"] for call in calls]
        soon = news != self._last[0]
        if not soon and (numbers == self._last[1] or now - self._written < SAME_SECONDS):
            return
        self._last, self._written = (news, numbers), now
        self._log.write("waiting", session=self.session_id, count=len(self._pending), calls=calls)
