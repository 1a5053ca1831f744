"""Threads beside the loop: one per blocking job, so that no job ever waits behind a slow one.

`concurrent.futures` refuses work as soon as the interpreter begins to end, which is before
`atexit` functions run, and Python 3.12 and later start no thread from then on. The end of a
session is reported just then. So a job has a thread of its own, which ends with it, and runs on the
loop where no thread can be started.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

COMPUTATIONS = 2
"""Encodings that run beside the loop at once; more would take its processor."""

if TYPE_CHECKING or sys.platform != "win32":
    _Base = asyncio.SelectorEventLoop
else:
    _Base = asyncio.ProactorEventLoop


class CoreLoop(_Base):
    """The event loop of the core, with its own threads for whatever blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.ending = False
        """Set before the last `stop`: from then on an interrupted loop is not started again."""
        self._threads: set[threading.Thread] = set()
        self._computing = asyncio.Semaphore(COMPUTATIONS)
        self._lookups: dict[tuple[Any, ...], asyncio.Future[Any]] = {}
        self._addresses: dict[tuple[Any, ...], Any] = {}

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func(*args)` in a thread of its own, or in the executor that is given."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return self._beside("tinker-ext-work", func, *args) or self._here(func, *args)

    async def compute(self, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(*args)` beside the loop, at most `COMPUTATIONS` of them at once."""
        async with self._computing:
            return await self.run_in_executor(None, fn, *args)

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Look a host name up; all who ask for one name wait for the same look-up.

        While the interpreter ends, the addresses that were found before serve again.
        """
        key = (host, port, family, type, proto, flags)
        found = self._lookups.get(key)
        if found is None:
            started = self._beside("tinker-ext-names", socket.getaddrinfo, *key)
            if started is None:
                if key in self._addresses:
                    return self._addresses[key]
                return await self._here(socket.getaddrinfo, *key)
            found = self._lookups[key] = started
            found.add_done_callback(lambda done: self._looked_up(key, done))
        # One who gives up leaves the look-up to the others.
        return await asyncio.shield(found)

    def _looked_up(self, key: tuple[Any, ...], done: asyncio.Future[Any]) -> None:
        del self._lookups[key]
        if not done.cancelled() and done.exception() is None:
            self._addresses[key] = done.result()

    def _beside(self, name: str, fn: Callable[..., T], *args: Any) -> asyncio.Future[T] | None:
        """Start a thread for a job; None when none can be started."""
        ended: asyncio.Future[T] = self.create_future()

        def work() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = fn(*args)
            except BaseException as caught:
                error = caught
            try:
                self.call_soon_threadsafe(_settle, ended, value, error)
            except RuntimeError:  # the loop was closed: nobody waits any more
                pass
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            return None
        return ended

    def _here(self, fn: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        ended: asyncio.Future[T] = self.create_future()
        try:
            _settle(ended, fn(*args), None)
        except Exception as error:
            _settle(ended, None, error)
        return ended

    def join_threads(self, seconds: float) -> None:
        """Wait for the jobs under way; one that hangs in the system is left behind."""
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))


def _settle(ended: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(value)
    elif isinstance(error, StopIteration):  # a future refuses it
        ended.set_exception(RuntimeError(f"{error!r} was raised beside the loop"))
    else:
        ended.set_exception(error)
