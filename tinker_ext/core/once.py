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

    def peek(self) -> T | None:
        """The result when it is there."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def get(self) -> T:
        """The result, computed now when nobody did."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._task = asyncio.get_running_loop().create_task(self._start())
            task.add_done_callback(_retrieve)
        if task.done():
            return task.result()
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Drop the result, and stop the work when it is under way."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
        self._task = None


def _retrieve(task: asyncio.Task[Any]) -> None:
    # The callers see the error; without one (all cancelled) nobody is to be told.
    if not task.cancelled():
        task.exception()
