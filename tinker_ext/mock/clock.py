"""Time as the server sees it: the running loop's clock, plus a calendar anchored to it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


class Clock:
    """Monotonic seconds from the loop (virtual loops included) and matching calendar time.

    Args:
        epoch: Unix time of the first reading; None is the machine's own calendar.
    """

    def __init__(self, epoch: float | None = None) -> None:
        self._epoch = epoch
        self._anchor: float | None = None
        self._pinned: float | None = None

    def now(self) -> float:
        """Return monotonic seconds; loops of the standard library agree on them across threads."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def unix(self) -> float:
        """Return calendar time in seconds since 1970."""
        if self._pinned is not None:
            return self._pinned
        if self._epoch is None:
            return time.time()
        if self._anchor is None:
            self._anchor = self.now()
        return self._epoch + self.now() - self._anchor

    def pin(self, unix: float | None) -> None:
        """Hold the calendar at `unix` while a journal is replayed; None lets it run again."""
        self._pinned = unix


def rfc3339(unix: float) -> str:
    """Write a Unix time as RFC 3339 in UTC with microseconds."""
    return datetime.fromtimestamp(unix, UTC).isoformat().replace("+00:00", "Z")
