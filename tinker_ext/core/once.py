"""Work that is done once and shared: everybody waits for the same attempt, a failure may recur."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """The result of a coroutine that runs when first needed.

    A caller that is cancelled leaves the work running for the others. After a failure the next
    caller starts it anew.

    Args:
        start: Makes the coroutine.
    """

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._start = start
        self._task: asyncio.Task[T] | None = None
        self._dropped: Exception | None = None

    def peek(self) -> T | None:
        """The result when it is there."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def get(self) -> T:
        """The result, computed now when nobody did."""
        loop = asyncio.get_running_loop()
        task = self._task
        if task is None or _came_to_nothing(task, loop):
            task = self._task = loop.create_task(self._start())
            task.add_done_callback(_retrieve)
        if task.done():
            return task.result()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._dropped is None or not task.cancelled() or (current and current.cancelling()):
                raise
            raise self._dropped from None

    def forget(self, reason: Exception | None = None) -> None:
        """Drop the result, and stop the work when it is under way.

        Args:
            reason: What those who wait for it are told.
        """
        if self._task is not None and not self._task.done():
            self._dropped = reason
            self._task.cancel()
        self._task = None


def _came_to_nothing(task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> bool:
    if not task.done():
        return task.get_loop() is not loop  # of the process that forked this one
    return task.cancelled() or task.exception() is not None


def _retrieve(task: asyncio.Task[Any]) -> None:
    # The callers see the error; without one (all cancelled) nobody is to be told.
    if not task.cancelled():
        task.exception()
