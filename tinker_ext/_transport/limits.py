"""How much may be under way at once, and when a retry may leave.

Fair waiting, byte budget, shared back-off, adaptive limit and retry tokens. Every operation here is
O(1), whatever is queued, but for deadlines, which are looked at together; a waiter costs one future
and one deque entry.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol
from weakref import WeakKeyDictionary

import tinker_ext._statuses as statuses
from tinker_ext._transport.messages import LaneBusyError, Reply
from tinker_ext.errors import APIConnectionError


class Deadlines:
    """One timer for many deadlines; it stays set when what they end is over.

    Setting and cancelling one for each would cost more than most of what they guard.

    Args:
        expire: Ends what is due at a loop time; returns the earliest deadline that is left, or
            infinity.
    """

    def __init__(self, expire: Callable[[float], float]) -> None:
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self.rings = math.inf
        """Loop time at which the timer is set; nobody needs to ask for a later one."""

    def watch(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        """Ring at loop time `when`, unless the timer rings sooner and looks again."""
        if when < self.rings:
            self.close()
            self.rings = when
            self._timer = loop.call_at(when, self._ring, loop)

    def close(self) -> None:
        """Take the timer back."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.rings = None, math.inf

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self.watch(loop, self._expire(loop.time()))


class FairQueue:
    """A counting limit whose waiters are served in the order they came."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("a limit is at least 1")
        self.limit = limit
        """How many may hold a slot at once; `resize` changes it."""
        self.held = 0
        """How many hold a slot now."""
        self.waiting = 0
        """How many wait for a slot."""
        self._line: deque[tuple[asyncio.Future[None], float]] = deque()
        self._deadlines = Deadlines(self._expire)

    def resize(self, limit: int) -> None:
        """Change the limit; a smaller one takes effect as slots come back."""
        self.limit = max(1, limit)
        self._hand_out()

    def try_acquire(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self.held < self.limit and not self.waiting:
            self.held += 1
            return True
        return False

    async def acquire(self, *, deadline: float = math.inf) -> None:
        """Wait for a slot.

        Args:
            deadline: Loop time at which to give up.

        Raises:
            TimeoutError: No slot came free before the deadline.
        """
        if self.try_acquire():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._deadlines.watch(loop, deadline)
        self._line.append((waiter, deadline))
        self.waiting += 1
        try:
            await waiter
        except (asyncio.CancelledError, TimeoutError):
            if waiter.cancelled() or waiter.exception() is not None:
                self.waiting -= 1  # its place in the line is skipped when its turn comes
                if not self.waiting:
                    self._line.clear()
                else:
                    self._hand_out()  # one may wait behind it for a slot that came back meanwhile
            else:
                self.release()  # the slot came at the same moment
            raise

    def close(self) -> None:
        """Leave no timer behind when nobody waits."""
        if not self.waiting:
            self._deadlines.close()

    def release(self) -> None:
        """Give a slot back."""
        self.held -= 1
        if self.waiting:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._line and self.held < self.limit:
            waiter, _ = self._line.popleft()
            if not waiter.done():
                self.held += 1
                self.waiting -= 1
                waiter.set_result(None)

    def _expire(self, now: float) -> float:
        earliest = math.inf
        for waiter, deadline in self._line:
            if deadline <= now:
                _expire(waiter)
            elif not waiter.done():
                earliest = min(earliest, deadline)
        # All are looked at, so not too often: of a thousand in line every millisecond.
        return max(earliest, now + 1e-6 * len(self._line))


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


class ByteBudget:
    """Bytes that may be under way; admits while any are left, so one request may overdraw it."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def left(self) -> int:
        """Bytes left; below zero after an overdraft."""
        return self._left

    @property
    def size(self) -> int:
        """Bytes at rest."""
        return self._size

    def resize(self, size: int) -> None:
        """Change how many bytes there are at rest."""
        if size != self._size:
            grown, self._size = size - self._size, size
            self.release(grown)

    def try_acquire(self, size: int) -> bool:
        """Take `size` bytes if the budget is not overdrawn and nobody waits for it."""
        if self._left >= 0 and not self._line:
            self._left -= size
            return True
        return False

    async def acquire(self, size: int) -> None:
        """Wait until the budget is not overdrawn, then take `size` bytes of it."""
        if self.try_acquire(size):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release(size)  # the turn came at the same moment: give it back
            raise

    def release(self, size: int) -> None:
        """Give `size` bytes back."""
        self._left += size
        while self._left >= 0 and self._line:
            wanted, waiter = self._line.popleft()
            if not waiter.done():
                self._left -= wanted
                waiter.set_result(None)

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes for the length of an `async with` block."""
        await self.acquire(size)
        try:
            yield
        finally:
            self.release(size)


class PollPace:
    """How often a client repeats polls that the server answers "not yet" without holding them.

    One poll more a result is harmless, so each result lets two of those that wait ask at once: on
    a server that works fast nobody waits here for long, on one that does not work nobody storms.
    """

    RATE = 15.0
    BURST = 20
    PER_RESULT = 2

    def __init__(self) -> None:
        self._free = float(self.BURST)
        self._counted = 0.0
        self._line: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Polls that wait for their turn."""
        return sum(not waiter.done() for waiter in self._line)

    async def turn(self, deadline: float) -> None:
        """Wait until one more poll may be repeated, at most until the deadline."""
        loop = asyncio.get_running_loop()
        self._count(loop.time())
        if self._free >= 1.0 and not self._line:
            self._free -= 1.0
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._line.append(waiter)
        self._arm(loop)
        late = loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        except TimeoutError:
            return  # whoever asks sees that the time is over
        finally:
            late.cancel()

    def got_result(self) -> None:
        """Let some ask at once, or the next who come: where one is done others may be."""
        if self._line or self._free < self.BURST:
            over = self.PER_RESULT - (self._let_go(self.PER_RESULT) if self._line else 0)
            self._free = min(self.BURST, self._free + over)

    def _count(self, now: float) -> None:
        self._free = min(self.BURST, self._free + (now - self._counted) * self.RATE)
        self._counted = now

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and self._line:
            self._timer = loop.call_later((1.0 - self._free) / self.RATE, self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._count(loop.time())
        # A timer may ring a moment early; what it rang for is due.
        self._free -= self._let_go(max(1, int(self._free)))
        self._arm(loop)

    def _let_go(self, most: int) -> int:
        gone = 0
        while self._line and gone < most:
            waiter = self._line.popleft()
            if not waiter.done():
                waiter.set_result(None)
                gone += 1
        return gone


class SharedBackoff:
    """One pause for everybody who talks to the same server with the same key.

    After a 429 nobody sends until the pause is over; `recent` stays true for a while after it, so
    that the first requests go out carefully.
    """

    careful_seconds = 10.0

    def __init__(self) -> None:
        self._until = 0.0

    def pause(self, seconds: float) -> None:
        """Make everybody wait at least `seconds` from now; a longer pause under way stays."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)

    def remaining(self) -> float:
        """Seconds until sending is allowed again."""
        if not self._until:
            return 0.0  # there was no pause yet
        return max(0.0, self._until - asyncio.get_running_loop().time())

    def recent(self) -> bool:
        """Whether a pause is under way or ended less than ten seconds ago."""
        now = asyncio.get_running_loop().time()
        return self._until > 0 and now < self._until + self.careful_seconds

    async def wait(self) -> None:
        """Return when no pause is under way."""
        left = self.remaining()
        if left > 0:
            await asyncio.sleep(left)
            await self.wait()  # somebody may have made the pause longer meanwhile


_backoffs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], SharedBackoff]] = (
    WeakKeyDictionary()
)


def shared_backoff(base_url: str, fingerprint: str) -> SharedBackoff:
    """Return the one back-off of the running loop for a server and a credential.

    Args:
        base_url: The server.
        fingerprint: Digest of the credential, never the credential itself.
    """
    table = _backoffs.setdefault(asyncio.get_running_loop(), {})
    return table.setdefault((base_url, fingerprint), SharedBackoff())


class SampleLimit(Protocol):
    """How many samples may be under way: found by one client alone, or shared by a fleet."""

    @property
    def value(self) -> int:
        """The limit now."""

    def accepted(self, *, in_flight: int) -> None:
        """Note that the server took a request while `in_flight` were under way."""

    def refused(self, *, started: float, pause: float, full: bool) -> None:
        """Note a refusal of a request sent at loop time `started`.

        Args:
            started: When it was sent.
            pause: Seconds for which nobody is to send.
            full: Whether it means that the server had too much, and not, for example, no credit.
        """

    async def after_refusal(self, backoff: SharedBackoff) -> None:
        """Wait until a refused request may be sent again."""


class AdaptiveLimit:
    """A concurrency limit that finds what the server admits.

    It doubles per round until the first refusal, then grows by one per round and shrinks by a
    third on a refusal. Refusals of requests that started before the last cut tell nothing new and
    are ignored.

    Args:
        start: First limit.
        cap: Highest limit.
        on_change: Called with the new limit, for example `FairQueue.resize`.
    """

    shrink = 2 / 3

    def __init__(
        self, start: int = 64, cap: int = 2000, on_change: Callable[[int], None] | None = None
    ) -> None:
        self._value = float(min(start, cap))
        self._cap = cap
        self._on_change = on_change
        self._probing = True
        self._last_cut = float("-inf")

    @property
    def value(self) -> int:
        """The limit now."""
        return int(self._value)

    def accepted(self, *, in_flight: int) -> None:
        """Note that the server took a request while `in_flight` were under way."""
        # An idle client learns nothing about the limit.
        if self._value >= self._cap or in_flight * 2 < self._value:
            return
        before = self.value
        step = 1.0 if self._probing else 1.0 / self._value
        self._value = min(float(self._cap), self._value + step)
        self._changed(before)

    def refused(self, *, started: float, pause: float, full: bool) -> None:
        """Note a 429 or other sign of overload on a request sent at loop time `started`."""
        self._probing = False
        if started <= self._last_cut:
            return
        self._last_cut = asyncio.get_running_loop().time()
        before = self.value
        self._value = max(1.0, self._value * self.shrink)
        self._changed(before)

    async def after_refusal(self, backoff: SharedBackoff) -> None:
        """Wait until a refused request may be sent again."""
        await backoff.wait()

    def _changed(self, before: int) -> None:
        if self._on_change is not None and self.value != before:
            self._on_change(self.value)


HELD_SECONDS = 0.5
"""A pending answer that came sooner was not held by the server, so the next poll waits a bit."""


class _LaneHealth:
    """Tokens, streak of failures and waiting line of one lane."""

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self.streak = 0
        self.unhealthy_since: float | None = None
        self.answers = False
        """Whether its last outcome was a "not yet" that came at once, which proves little."""
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
        answered_seconds: Pause between probes while polls are answered "not yet" at once.
        release_seconds: Time over which the line of a lane that recovered is let go.
    """

    burst = 10.0
    streak = 3
    probe_seconds = 0.35
    longest_probe_seconds = 1.0
    rate = 8.0
    refused_burst = 4.0
    answered_seconds = 0.125
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
        health.answers = False
        if health.unhealthy_since is None and health.streak >= self.streak:
            self._mark_unhealthy(lane, health)

    def note_outcome(
        self, lane: str, reply: Reply | None, error: Exception | None, started: float
    ) -> None:
        """Learn from what an attempt came to; a failure on our own side says nothing."""
        if reply is not None:
            if reply.status in statuses.ACCEPTED:
                if "html" in reply.headers.get("content-type", ""):
                    return  # a gateway's page is not a success of the server
                self._next_refused -= 1.0 / self.rate
                health = self._lanes.get(lane)
                if health is not None and health.tokens == self.burst and not health.streak:
                    return  # a healthy lane, and nothing to learn
            elif reply.status == statuses.NOT_YET and reply.elapsed < HELD_SECONDS:
                self._note_answer(lane, started)
                return
            self.note(lane, ok=reply.status not in statuses.FAILED, started=started)
        elif isinstance(error, APIConnectionError) and not isinstance(error, LaneBusyError):
            self.note(lane, ok=False, started=started)

    def _note_answer(self, lane: str, started: float) -> None:
        """Learn from a "not yet" that came at once.

        It costs a server nothing, also one that fails at every other poll: the line goes on
        faster, and is not let go as after a success.
        """
        health = self._lanes.get(lane)
        if health is None:
            return
        health.streak = 0
        since = health.unhealthy_since
        if since is None or started < since or health.answers:
            return
        health.answers = True
        loop = asyncio.get_running_loop()
        self._next_probe = min(self._next_probe, loop.time() + self.answered_seconds)
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
            self._arm(loop)

    def _mark_unhealthy(self, lane: str, health: _LaneHealth) -> None:
        loop = asyncio.get_running_loop()
        health.unhealthy_since = loop.time()
        health.answers = False
        health.tokens = 0.0
        if health.line:
            self._schedule_probes(lane, loop)

    def _schedule_probes(self, lane: str, loop: asyncio.AbstractEventLoop) -> None:
        if lane not in self._probing:
            self._probing.append(lane)
        self._arm(loop)

    async def probe(self, lane: str, deadline: float) -> None:
        """Wait until a retry of this lane may leave, or the deadline (a loop time)."""
        loop = asyncio.get_running_loop()
        health = self._lanes.get(lane)
        if health is None:
            health = self._lanes[lane] = _LaneHealth(self.burst)
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
            if health.answers:
                self._next_probe = loop.time() + self.answered_seconds
                break
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
