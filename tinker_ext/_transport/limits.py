"""How much may be under way at once: fair waiting, byte budget, shared back-off, adaptive limit.

Every operation here is O(1), whatever is queued, and a waiter costs one future and one deque entry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

_COMPACT_FROM = 64


class Cancellable(Protocol):
    """What `Alarms.set` returns."""

    def cancel(self) -> None:
        """Do not call."""


class Alarm:
    """One call that will be made at its time unless it is cancelled."""

    __slots__ = ("_alarms", "argument", "call", "when")

    def __init__(
        self, alarms: Alarms, when: float, call: Callable[[Any], object], argument: Any
    ) -> None:
        self._alarms: Alarms | None = alarms
        self.when = when
        self.call: Callable[[Any], object] | None = call
        self.argument = argument

    def cancel(self) -> None:
        """Do not call; nothing happens when it was called already."""
        if self.call is not None:
            self.call = self.argument = None
            alarms = self._alarms
            if alarms is not None:
                alarms.live -= 1
                line = alarms.line
                if not alarms.live or line[0] is self or len(line) > 2 * alarms.live:
                    alarms.clear_away()

    def leave(self) -> Alarm:
        """Be no longer in line: its time has come."""
        self._alarms = None
        return self


class Alarms:
    """Timeouts of one kind on one loop."""

    def __init__(self) -> None:
        self.line: deque[Alarm] = deque()
        self.live = 0
        self._timer: asyncio.TimerHandle | None = None

    def set(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        call: Callable[[Any], object],
        argument: Any,
    ) -> Cancellable:
        """Call `call(argument)` at loop time `when`."""
        line = self.line
        if line and when < line[-1].when:
            return loop.call_at(when, call, argument)  # out of order: rare enough for the heap
        alarm = Alarm(self, when, call, argument)
        line.append(alarm)
        self.live += 1
        if self._timer is None:
            self._timer = loop.call_at(when, self._ring, loop)
        return alarm

    def clear_away(self) -> None:
        """Let go of what was cancelled."""
        line = self.line
        if not self.live:
            line.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        while line[0].call is None:
            line.popleft()
        if len(line) > _COMPACT_FROM and len(line) > 2 * self.live:
            self.line = deque(alarm for alarm in line if alarm.call is not None)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        due = []
        line = self.line
        while line and (line[0].call is None or line[0].when <= now):
            alarm = line.popleft()
            if alarm.call is not None:
                self.live -= 1
                due.append(alarm.leave())
        if line:
            self._timer = loop.call_at(line[0].when, self._ring, loop)
        for alarm in due:
            call, argument = alarm.call, alarm.argument
            alarm.call = alarm.argument = None
            if call is None:
                continue  # one before it has cancelled it
            try:
                call(argument)
            except Exception as error:
                message = "A timeout could not be handled"
                loop.call_exception_handler({"message": message, "exception": error})


class FairQueue:
    """A counting limit whose waiters are served in the order they came.

    Args:
        limit: How many may hold a slot at once.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("a limit is at least 1")
        self._limit = limit
        self._held = 0
        self._waiting = 0
        self._line: deque[asyncio.Future[None]] = deque()
        self._alarms = Alarms()

    @property
    def limit(self) -> int:
        """How many may hold a slot at once."""
        return self._limit

    @property
    def held(self) -> int:
        """How many hold a slot now."""
        return self._held

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return self._waiting

    def resize(self, limit: int) -> None:
        """Change the limit; a smaller one takes effect as slots come back."""
        self._limit = max(1, limit)
        self._hand_out()

    def try_acquire(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self._held < self._limit and not self._waiting:
            self._held += 1
            return True
        return False

    async def acquire(self, *, deadline: float | None = None) -> None:
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
        timer = None
        if deadline is not None:
            timer = self._alarms.set(loop, deadline, _expire, waiter)
        self._line.append(waiter)
        self._waiting += 1
        try:
            await waiter
        except (asyncio.CancelledError, TimeoutError):
            if waiter.cancelled() or waiter.exception() is not None:
                self._waiting -= 1  # its place in the line is skipped when its turn comes
                if not self._waiting:
                    self._line.clear()
            else:
                self.release()  # the slot came at the same moment
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        if self._waiting:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._line and self._held < self._limit:
            waiter = self._line.popleft()
            if not waiter.done():
                self._held += 1
                self._waiting -= 1
                waiter.set_result(None)


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


class ByteBudget:
    """Bytes that may be under way; admits while any are left, so one request may overdraw it.

    Args:
        size: Bytes at rest.
    """

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

    def refused(self, *, started: float, pause: float = 0.0, full: bool = True) -> None:
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

    def refused(self, *, started: float, pause: float = 0.0, full: bool = True) -> None:
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
