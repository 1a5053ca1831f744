"""Notices that a group of samples is stuck: none was accepted or finished for a whole period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Progress:
    """The last movement of a group of samples; on the loop.

    Args:
        patience: Seconds without movement after which the group is given up; None never does.
        give_up: Called with the group and its patience.
    """

    __slots__ = ("__weakref__", "_active", "_give_up", "_moved", "_patience", "_timer")

    def __init__(
        self, patience: float | None, give_up: Callable[[Progress, float], object]
    ) -> None:
        self._patience = patience
        self._give_up = give_up
        self._active = 0
        self._moved = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def began(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that a sample was started."""
        self._active += 1
        if self._timer is None and self._patience is not None:
            self._moved = loop.time()
            self._timer = loop.call_later(self._patience, self._look, loop, self._patience)

    def ended(self) -> None:
        """Note that a sample is over, however it ended."""
        self._active -= 1

    def moved(self, now: float) -> None:
        """Note that a sample was accepted or finished."""
        self._moved = now

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._timer = None
        if not self._active:
            return
        if loop.time() - self._moved >= patience:
            self._give_up(self, patience)
            return
        self._timer = loop.call_at(self._moved + patience, self._look, loop, patience)
