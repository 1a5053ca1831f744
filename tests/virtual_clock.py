"""An event loop whose clock jumps to the next timer, so that hours of waiting run in milliseconds.

Nothing blocks: when no callback is ready, the loop's time is set to the moment of the earliest
timer. With an in-process ASGI transport there is no socket to wait for, so one seed is one
execution.

Example:
    >>> async def nap() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(nap())
    3600.0
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Nothing is ready, no timer is set and no thread can wake the loop: it would wait forever."""


class HaltedError(RuntimeError):
    """Somebody stopped the loop with `VirtualClockLoop.halt`."""


class _JumpingSelector(selectors.BaseSelector):
    """Never blocks for a timer: asks the real selector what is ready now, else moves the clock."""

    # Real seconds to wait for a thread of somebody else before a deadlock is declared. Work that
    # the loop itself has handed to a thread (getaddrinfo, an encoder) is waited for.
    patience = 60.0

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if self.threads_at_work:
            return self._real.select(self.patience)
        if timeout is None:
            if ready := self._real.select(self.patience):
                return ready
            raise DeadlockError("every task waits for something that nobody will do")
        self.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Any:
        return self._real.get_map()


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """A selector loop that starts at time 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._jumper = _JumpingSelector()
        super().__init__(self._jumper)
        # asyncio treats timers within this distance as due together; the jump must reach it.
        self._clock_resolution = 1e-9
        self.halted: str | None = None

    def time(self) -> float:
        return self._jumper.now

    def hold(self) -> None:
        """Hold the clock still until `release`: what comes over a socket takes no time."""
        self._jumper.threads_at_work += 1

    def release(self) -> None:
        """Let the clock jump to the next timer again."""
        self._jumper.threads_at_work -= 1

    def halt(self, reason: str) -> None:
        """End the run with `HaltedError`: no code under test can catch that and go on."""
        self.halted = reason
        self.stop()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run in a thread as usual, but hold the clock still until the thread is done."""
        future = super().run_in_executor(executor, func, *args)
        self.hold()
        future.add_done_callback(lambda _: self.release())
        return future


def run_virtual(coro: Coroutine[Any, Any, T], seed: int = 0) -> T:
    """Run a coroutine on a fresh virtual clock with the global random generator seeded.

    Args:
        coro: What to run.
        seed: Seeds `random`, so that code without its own generator repeats itself too.

    Returns:
        The coroutine's result.

    Raises:
        DeadlockError: Every task waits and no timer is left.
        HaltedError: The run was stopped from inside.
    """
    random.seed(seed)
    loop = VirtualClockLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(coro)
    except RuntimeError:
        if loop.halted is not None:
            raise HaltedError(loop.halted) from None
        raise
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.hold()  # while threads end
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        with contextlib.suppress(DeadlockError):
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
