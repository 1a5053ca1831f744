"""`Alarms`: timeouts by the thousand, nearly all of which never happen, at a constant cost each.

The loop keeps timers in a heap that thousands of requests make slow. Timeouts of one kind come due
in the order they were set, so a line and one loop timer for its front are enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

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
            if self._alarms is not None:
                self._alarms._cancelled()

    def leave(self) -> Alarm:
        """Be no longer in line: its time has come."""
        self._alarms = None
        return self


class Alarms:
    """Timeouts of one kind on one loop."""

    def __init__(self) -> None:
        self._line: deque[Alarm] = deque()
        self._live = 0
        self._timer: asyncio.TimerHandle | None = None

    def set(
        self,
        loop: asyncio.AbstractEventLoop,
        when: float,
        call: Callable[[Any], object],
        argument: Any,
    ) -> Cancellable:
        """Call `call(argument)` at loop time `when`."""
        line = self._line
        if line and when < line[-1].when:
            return loop.call_at(when, call, argument)  # out of order: rare enough for the heap
        alarm = Alarm(self, when, call, argument)
        line.append(alarm)
        self._live += 1
        if self._timer is None:
            self._timer = loop.call_at(when, self._ring, loop)
        return alarm

    def _cancelled(self) -> None:
        self._live -= 1
        line = self._line
        if not self._live:
            line.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        while line[0].call is None:
            line.popleft()
        if len(line) > _COMPACT_FROM and len(line) > 2 * self._live:
            self._line = deque(alarm for alarm in line if alarm.call is not None)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        due = []
        line = self._line
        while line and (line[0].call is None or line[0].when <= now):
            alarm = line.popleft()
            if alarm.call is not None:
                self._live -= 1
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
