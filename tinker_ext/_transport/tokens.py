"""The retry tokens of one server: what everybody who talks to it may send again, and how fast.

Each lane has a few tokens that failures spend and successes refill. Without a token, or after three
failures in a row, the lane is *unhealthy*: its retries then wait here in line, and one ticker per
server lets a single probe out at a time, at most three a second over all lanes and one a second
when the outage lasts. The first answer to a request that began after the lane became unhealthy
ends that, and the line is let go in small portions within half a second.

Retries after a refusal (429, 409, …) speak of a server that is well and busy. They leave at a
steady rate, and as many more as requests succeed, whatever delay the server names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

import tinker_ext._transport.statuses as statuses
from tinker_ext._transport.faults import LaneBusyError
from tinker_ext._transport.messages import Reply
from tinker_ext.errors import APIConnectionError


class _LaneHealth:
    """Tokens, streak of failures and waiting line of one lane."""

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self.streak = 0
        self.unhealthy_since: float | None = None
        self.line: deque[asyncio.Future[None]] = deque()


class RetryTokens:
    """Decides when a retry to one server may leave; shared by all connections to it.

    Args:
        refund: Part of a retry that each success gives back.

    Attributes:
        burst: Retries a healthy lane may make at once.
        streak: Failures in a row that make a lane unhealthy.
        probe_seconds: Pause between probes at the start of an outage.
        longest_probe_seconds: … and when it lasts.
        rate: Retries after refusals that may leave each second, beside one per success.
        refused_burst: … and how many of them at once.
        release_seconds: Time over which the line of a lane that recovered is let go.
    """

    burst = 10.0
    streak = 3
    probe_seconds = 0.35
    longest_probe_seconds = 1.0
    rate = 8.0
    refused_burst = 4.0
    release_seconds = 0.5
    _release_step = 0.01

    def __init__(self, refund: float = 0.2) -> None:
        self.refund = refund
        self._lanes: dict[str, _LaneHealth] = {}
        self._probing: deque[str] = deque()
        self._ticker: asyncio.TimerHandle | None = None
        self._next_probe = 0.0
        self._pause = self.probe_seconds
        self._next_refused = 0.0

    def reserve(self) -> float:
        """Take the next place among the retries after refusals; returns the seconds until it."""
        now = asyncio.get_running_loop().time()
        step = 1.0 / self.rate
        # The rate may be exceeded by a small burst, after which places are one step apart.
        at = max(now, self._next_refused - (self.refused_burst - 1.0) * step)
        self._next_refused = max(self._next_refused, now) + step
        return at - now

    def unhealthy(self, lane: str) -> bool:
        """Whether retries of this lane are held back."""
        health = self._lanes.get(lane)
        return health is not None and health.unhealthy_since is not None

    def waiting(self, lane: str) -> int:
        """How many retries of this lane wait here."""
        health = self._lanes.get(lane)
        return len(health.line) if health is not None else 0

    def note(self, lane: str, *, ok: bool, started: float) -> None:
        """Learn from an attempt that began at loop time `started`."""
        health = self._lanes.get(lane)
        if health is None:
            health = self._lanes[lane] = _LaneHealth(self.burst)
        if ok:
            health.streak = 0
            if health.tokens < self.burst:
                health.tokens = min(self.burst, health.tokens + self.refund)
            # An answer to a question from before the outage proves nothing about now.
            if health.unhealthy_since is not None and started >= health.unhealthy_since:
                self._recover(health)
            return
        health.streak += 1
        if health.unhealthy_since is None and health.streak >= self.streak:
            self._mark_unhealthy(lane, health)

    def note_outcome(
        self, lane: str, reply: Reply | None, error: Exception | None, started: float
    ) -> None:
        """Learn from what an attempt came to; a failure on our own side says nothing."""
        if reply is not None:
            if statuses.accepted(reply.status):
                self._next_refused -= 1.0 / self.rate
            self.note(lane, ok=not statuses.failed(reply.status), started=started)
        elif isinstance(error, APIConnectionError) and not isinstance(error, LaneBusyError):
            self.note(lane, ok=False, started=started)

    def _mark_unhealthy(self, lane: str, health: _LaneHealth) -> None:
        loop = asyncio.get_running_loop()
        health.unhealthy_since = loop.time()
        health.tokens = 0.0
        if health.line:
            self._schedule_probes(lane, loop)

    def _schedule_probes(self, lane: str, loop: asyncio.AbstractEventLoop) -> None:
        if lane not in self._probing:
            self._probing.append(lane)
        self._arm(loop)

    async def probe(self, lane: str, delay: float, *, chosen_by_us: bool, deadline: float) -> None:
        """Wait until a retry may leave, or the deadline.

        Args:
            lane: The lane of the retry.
            delay: Seconds the retry table asks for.
            chosen_by_us: The delay is our own back-off; on an unhealthy lane the line replaces
                it. A delay named by the server is always waited for.
            deadline: Loop time at which to give up waiting.
        """
        loop = asyncio.get_running_loop()
        health = self._lanes.get(lane)
        if health is None:
            health = self._lanes[lane] = _LaneHealth(self.burst)
        if not (chosen_by_us and health.unhealthy_since is not None):
            await asyncio.sleep(delay)
        if health.unhealthy_since is None:
            if health.tokens >= 1.0:
                health.tokens -= 1.0
                return
            self._mark_unhealthy(lane, health)
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
            if health.unhealthy_since is None or not _pop(health.line):
                continue
            self._probing.append(lane)
            self._next_probe = loop.time() + self._pause
            self._pause = min(self.longest_probe_seconds, self._pause * 1.1)
            break
        if self._probing:
            self._arm(loop)

    def _recover(self, health: _LaneHealth) -> None:
        health.unhealthy_since = None
        health.streak = 0
        health.tokens = self.burst
        self._pause = self.probe_seconds
        if health.line:
            portions = self.release_seconds / self._release_step
            self._release(health, max(1, round(len(health.line) / portions)))

    def _release(self, health: _LaneHealth, portion: int) -> None:
        """Let the line go in portions, as long as the lane stays well."""
        if health.unhealthy_since is not None:
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


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, RetryTokens]] = WeakKeyDictionary()


def shared_tokens(base_url: str, refund: float = 0.2) -> RetryTokens:
    """Return the tokens of the running loop for a server; the first user sets `refund`."""
    table = _shared.setdefault(asyncio.get_running_loop(), {})
    tokens = table.get(base_url)
    if tokens is None:
        tokens = table[base_url] = RetryTokens(refund)
    return tokens
