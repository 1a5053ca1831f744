"""The retry budget of one server: while it is unwell only a few probes go out, for everybody.

Each lane has a small purse of retries that failures spend and successes refill. An empty purse, or
three failures in a row, makes the lane *sick*: its retries then wait here in line, and one ticker
per server lets a single probe out at a time, at most three a second over all lanes and one a second
when the outage lasts. The first answer to a request that began after the lane fell sick heals it,
and the line is let go in small portions within half a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

from tinker_ext._transport.faults import LaneBusyError
from tinker_ext._transport.messages import Lane, Reply
from tinker_ext.errors import APIConnectionError


class _LaneHealth:
    """Purse, streak of failures and waiting line of one lane."""

    def __init__(self, purse: float) -> None:
        self.purse = purse
        self.streak = 0
        self.sick_since: float | None = None
        self.line: deque[asyncio.Future[None]] = deque()


class RetryBudget:
    """Decides when a retry to one server may leave; shared by all connections to it.

    Args:
        refund: Part of a retry that each success gives back.

    Attributes:
        purse: Retries a healthy lane may make in a burst.
        streak: Failures in a row that make a lane sick.
        probe_seconds: Pause between probes at the start of an outage.
        longest_probe_seconds: … and when it lasts.
        release_seconds: Time over which a healed lane's line is let go.
    """

    purse = 10.0
    streak = 3
    probe_seconds = 0.35
    longest_probe_seconds = 1.0
    release_seconds = 0.5
    _release_step = 0.01

    def __init__(self, refund: float = 0.2) -> None:
        self.refund = refund
        self._lanes: dict[Lane, _LaneHealth] = {}
        self._probing: deque[Lane] = deque()
        self._ticker: asyncio.TimerHandle | None = None
        self._next_probe = 0.0
        self._pause = self.probe_seconds

    def sick(self, lane: Lane) -> bool:
        """Whether retries of this lane are held back."""
        health = self._lanes.get(lane)
        return health is not None and health.sick_since is not None

    def waiting(self, lane: Lane) -> int:
        """How many retries of this lane wait here."""
        health = self._lanes.get(lane)
        return len(health.line) if health is not None else 0

    def note(self, lane: Lane, *, ok: bool, started: float) -> None:
        """Learn from an attempt that began at loop time `started`."""
        health = self._lanes.get(lane)
        if health is None:
            health = self._lanes[lane] = _LaneHealth(self.purse)
        if ok:
            health.streak = 0
            if health.purse < self.purse:
                health.purse = min(self.purse, health.purse + self.refund)
            # An answer to a question from before the outage proves nothing about now.
            if health.sick_since is not None and started >= health.sick_since:
                self._heal(health)
            return
        health.streak += 1
        if health.sick_since is None and health.streak >= self.streak:
            self._fall_sick(lane, health)

    def note_outcome(
        self, lane: Lane, reply: Reply | None, error: Exception | None, started: float
    ) -> None:
        """Learn from what an attempt came to; a failure on our own side says nothing."""
        if reply is not None:
            self.note(lane, ok=reply.status < 500, started=started)
        elif isinstance(error, APIConnectionError) and not isinstance(error, LaneBusyError):
            self.note(lane, ok=False, started=started)

    def _fall_sick(self, lane: Lane, health: _LaneHealth) -> None:
        loop = asyncio.get_running_loop()
        health.sick_since = loop.time()
        health.purse = 0.0
        if health.line:
            self._schedule_probes(lane, loop)

    def _schedule_probes(self, lane: Lane, loop: asyncio.AbstractEventLoop) -> None:
        if lane not in self._probing:
            self._probing.append(lane)
        self._arm(loop)

    async def wait_turn(
        self, lane: Lane, delay: float, *, chosen_by_us: bool, deadline: float
    ) -> None:
        """Wait until a retry may leave, or the deadline.

        Args:
            lane: The lane of the retry.
            delay: Seconds the retry table asks for.
            chosen_by_us: The delay is our own back-off; on a sick lane the line replaces it. A
                delay named by the server is always waited for.
            deadline: Loop time at which to give up waiting.
        """
        loop = asyncio.get_running_loop()
        health = self._lanes.get(lane)
        if health is None:
            health = self._lanes[lane] = _LaneHealth(self.purse)
        if not (chosen_by_us and health.sick_since is not None):
            await asyncio.sleep(delay)
        if health.sick_since is None:
            if health.purse >= 1.0:
                health.purse -= 1.0
                return
            self._fall_sick(lane, health)
        waiter: asyncio.Future[None] = loop.create_future()
        health.line.append(waiter)
        self._schedule_probes(lane, loop)
        timer = loop.call_at(deadline, _settle, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._ticker is None:
            when = max(loop.time(), self._next_probe)
            self._ticker = loop.call_at(when, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let one probe out, of the lane whose turn it is."""
        self._ticker = None
        for _ in range(len(self._probing)):
            lane = self._probing.popleft()
            health = self._lanes[lane]
            if health.sick_since is None or not _pop(health.line):
                continue
            self._probing.append(lane)
            self._next_probe = loop.time() + self._pause
            self._pause = min(self.longest_probe_seconds, self._pause * 1.1)
            break
        if self._probing:
            self._arm(loop)

    def _heal(self, health: _LaneHealth) -> None:
        health.sick_since = None
        health.streak = 0
        health.purse = self.purse
        self._pause = self.probe_seconds
        if health.line:
            portions = self.release_seconds / self._release_step
            self._release(health, max(1, round(len(health.line) / portions)))

    def _release(self, health: _LaneHealth, portion: int) -> None:
        """Let the line go in portions, as long as the lane stays well."""
        if health.sick_since is not None:
            return
        for _ in range(portion):
            if not _pop(health.line):
                return
        loop = asyncio.get_running_loop()
        loop.call_later(self._release_step, self._release, health, portion)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _pop(line: deque[asyncio.Future[None]]) -> bool:
    """Wake the first that still waits; False when nobody does."""
    while line:
        waiter = line.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return True
    return False


_budgets: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, RetryBudget]] = WeakKeyDictionary()


def shared_budget(base_url: str, refund: float = 0.2) -> RetryBudget:
    """Return the one budget of the running loop for a server; the first user sets `refund`."""
    table = _budgets.setdefault(asyncio.get_running_loop(), {})
    budget = table.get(base_url)
    if budget is None:
        budget = table[base_url] = RetryBudget(refund)
    return budget
