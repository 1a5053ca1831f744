"""Where the async core runs: one daemon loop thread per process, and work shared on it."""

from __future__ import annotations

import abc
import asyncio
import atexit
import contextlib
import logging
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tinker_ext import forks
from tinker_ext.core import future as _future
from tinker_ext.core.future import LightFuture
from tinker_ext.errors import ClientClosedError

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

    time = staticmethod(time.monotonic)  # what the base class calls, asked for at every turn

    _debug: bool
    _closed: bool
    _ready: deque[asyncio.Handle]

    def set_debug(self, enabled: bool) -> None:
        """Do what the base class does; every future, task and handle asks for the answer."""
        super().set_debug(enabled)
        self.get_debug = partial(bool, enabled)  # type: ignore[method-assign]

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Do what the base class does, without its checks: every sample needs this four times."""
        if self._debug or self._closed:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        """Do what the base class does, and then what follows from it at once.

        A reply that was read wakes a task; without this the sockets would be asked again before
        the task runs, which costs as much as the task where one call waits for an answer.
        """
        super()._run_once()  # type: ignore[misc]
        if self._debug:
            return  # the base class measures every callback
        ready = self._ready
        handle: asyncio.Handle | None
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        # An error that is kept keeps this frame, which would keep what the last call was for.
        handle = None

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
            done = _outcome(fn, args)
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self.call_soon_threadsafe(_settle, ended, *done)
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
        _settle(ended, *_outcome(fn, args))
        return ended

    def join_threads(self, seconds: float) -> None:
        """Wait for the jobs under way; one that hangs in the system is left behind."""
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))


def _outcome(fn: Callable[..., T], args: tuple[Any, ...]) -> tuple[T | None, BaseException | None]:
    try:
        return fn(*args), None
    except BaseException as error:
        return None, error


def _settle(ended: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(value)
    elif isinstance(error, StopIteration):  # a future refuses it
        ended.set_exception(RuntimeError(f"{error!r} was raised beside the loop"))
    else:
        ended.set_exception(error)


log = logging.getLogger("tinker_ext")

OFFLOAD_BYTES = 262_144
"""Work on more bytes than this leaves the loop: encoding 256 KB takes about a millisecond."""

_EXIT_SECONDS = 1.0


class Runtime(abc.ABC):
    """Where the core runs; keeps tasks alive, and reports those that die of an unexpected error."""

    generation: int
    """A number that changes when the loop was replaced (after a fork)."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task; only on the loop itself."""
        # Directly, and by one name: the loop would number it, which takes as long as the rest.
        task = asyncio.Task(coro, loop=asyncio.get_running_loop(), name="tinker-ext")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _abandon(self) -> None:
        """Let asyncio say nothing about tasks that a fork or the end of the process cuts off."""
        for task in list(self._running):
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A background task of the client failed.", exc_info=task.exception())

    @abc.abstractmethod
    def time(self) -> float:
        """The loop's time; from any thread."""

    @abc.abstractmethod
    def retain(self) -> None:
        """Note one more user of the loop."""

    @abc.abstractmethod
    def release(self) -> None:
        """Note one user less; the last one ends the loop."""

    @abc.abstractmethod
    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` on the loop soon; from any thread, in the order of the calls."""

    @abc.abstractmethod
    async def offload(self, size: int, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(*args)` beside the loop when `size` bytes make it slow, else at once."""

    def submit(self, coro: Coroutine[Any, Any, T]) -> LightFuture[T]:
        """Start a coroutine from any thread; cancelling the future cancels it."""
        light: LightFuture[T] = LightFuture()

        def stop() -> None:
            task = light.task
            if task is not None:
                task.cancel()

        light.on_cancel = lambda: self.call(stop)
        try:
            self.call(self._begin, coro, light)
        except BaseException:
            coro.close()
            raise
        return light

    def _begin(self, coro: Coroutine[Any, Any, T], light: LightFuture[T]) -> None:
        if light.done():  # cancelled before it started
            coro.close()
            return
        task = asyncio.get_running_loop().create_task(coro)
        self._running.add(task)

        def ended(task: asyncio.Task[T]) -> None:
            self._running.discard(task)
            if task.cancelled():
                light.on_cancel = None
                light.cancel()
            elif (error := task.exception()) is not None:
                light.fail(error)
            else:
                light.settle(task.result())

        task.add_done_callback(ended)
        light.task = task


class LoopThread(Runtime):
    """One daemon thread with one event loop, alive while somebody retains it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: CoreLoop | None = None
        self._thread: threading.Thread | None = None
        super().__init__()
        self.generation = 0

    time = staticmethod(time.monotonic)
    """The loop's time; from any thread."""

    def retain(self) -> None:
        """Note one more user; the first one starts the thread."""
        with self._lock:
            self._ensure()
            self._users += 1

    def release(self) -> None:
        """Note one user less; the last one ends the thread, after what is queued now."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                self._stop()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_end, loop)

    def join(self, timeout: float = _EXIT_SECONDS) -> None:
        """Wait until the thread has ended, when it is about to."""
        thread = self._thread
        if self._loop is None and thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` on the loop soon; from any thread, in the order of the calls."""
        loop = self._loop
        if loop is None:
            with self._lock:
                loop = self._ensure()
        loop.call_soon_threadsafe(fn, *args)

    async def offload(self, size: int, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(*args)` in a worker thread when `size` bytes make it slow, else at once."""
        loop = self._loop
        if size < OFFLOAD_BYTES or loop is None:
            return fn(*args)
        return await loop.compute(fn, *args)

    def _ensure(self) -> CoreLoop:
        if self._loop is None:
            if self._thread is not None:
                self.generation += 1
            loop = CoreLoop()
            self._running = set()
            thread = threading.Thread(
                target=_run, args=(loop,), name="tinker-ext-loop", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # Python 3.12 and later start none at the end
                loop.close()
                raise ClientClosedError(
                    "The interpreter is ending, and nothing new can be sent from here on. Keep "
                    "the client in use until then, or do this before the program ends."
                ) from error
            self._loop, self._thread = loop, thread
        return self._loop

    def after_fork(self) -> None:
        """Forget the parent's thread: a forked child does not have it."""
        _future.after_fork()
        self._abandon()
        self._lock = threading.Lock()
        self._loop = None
        self._thread = None
        self.generation += 1

    def at_exit(self) -> None:
        """End the thread with the interpreter, without waiting long for it."""
        with self._lock:
            self._stop()
        self.join()
        self._abandon()


def _end(loop: CoreLoop) -> None:
    loop.ending = True
    loop.stop()


def _run(loop: CoreLoop) -> None:
    _future._core_threads.add(threading.get_ident())
    try:
        _run_to_the_end(loop)
    finally:
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            loop.run_until_complete(asyncio.wait(leftover, timeout=_EXIT_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.join_threads(_EXIT_SECONDS)
        _future._core_threads.discard(threading.get_ident())
        loop.close()


def _run_to_the_end(loop: CoreLoop) -> None:
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio lets these two pass. On this thread they end nothing but the loop, which
            # serves every client of the process.
            log.error(
                "%s was raised on the client's own thread, where it cannot end the program; a "
                "callback or an observer must not call sys.exit().",
                type(error).__name__,
                exc_info=error,
            )
            if loop.ending:
                return


_shared = LoopThread()


def shared_loop() -> LoopThread:
    """The loop thread of this process; it starts when first used."""
    return _shared


atexit.register(_shared.at_exit)
forks.register(_shared)


class Shared(Generic[T]):
    """The result of a coroutine that runs when first needed.

    A caller that is cancelled leaves the work running for the others. After a failure the next
    caller starts it anew.
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
        """Drop the result, and stop the work when it is under way."""
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
