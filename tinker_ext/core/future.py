"""The futures users hold: `APIFuture`, its concurrent form, and the light future beneath both."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tinker_ext import forks
from tinker_ext.errors import ClientClosedError, DeadlockError, WrongTypeError

T = TypeVar("T")

_PENDING = "PENDING"
_CANCELLED = "CANCELLED_AND_NOTIFIED"
_FINISHED = "FINISHED"

_DEADLOCK = "result() was called on the client's own loop thread, where it would wait for itself."

_process = 0
"""Counts forks: a future of the parent process has nobody left to end it in a child."""

_core_threads: set[int] = set()
"""Idents of the threads that run a core loop; waiting on them would wait for ever."""


def after_fork() -> None:
    """Renew what threads of the parent may have held; a child does not have them."""
    global _process
    _process += 1
    _core_threads.clear()


class LightFuture(forks.OfThisProcess, concurrent.futures.Future[T]):
    """A `concurrent.futures.Future` that makes its condition only when a thread waits.

    It may be awaited from any event loop. A timeout or a cancelled `await` leaves it untouched.
    """

    elsewhere = "Send its result() instead."

    def __init__(self) -> None:
        # The base constructor would build the condition; its other fields are set here.
        self._made_in = _process
        # Of its own, as in the standard library: `concurrent.futures.wait` takes the locks of many
        # futures in the order of their ids, and one lock for all of ours would break that order.
        self._lock = threading.RLock()
        self._light_condition: threading.Condition | None = None
        self._light_waiters: list[Any] | None = None
        self._state = _PENDING
        self._result: Any = None
        self._exception: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] | None = None
        self.on_cancel: Callable[[], object] | None = None
        self._kept: object = None
        self.task: asyncio.Task[Any] | None = None

    if not TYPE_CHECKING:  # to a checker they are plain attributes of the base class
        # The base class and `concurrent.futures.wait` use these two; few futures need them. Not by
        # `__getattr__`, which would make every attribute of every future slow to read.

        @property
        def _condition(self) -> threading.Condition:
            if self._made_in != _process:
                self._refuse_orphan()
            with self._lock:
                if self._light_condition is None:
                    self._light_condition = threading.Condition(self._lock)
                return self._light_condition

        @property
        def _waiters(self) -> list[Any]:
            with self._lock:
                if self._light_waiters is None:
                    self._light_waiters = []
                return self._light_waiters

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        describe = getattr(self.on_cancel, "describe", None)
        error = CancelledError() if self.cancelled() else self._exception
        return displays.future(self.done(), error, self._result, describe and describe())

    def keep(self, thing: object) -> None:
        """Keep `thing` alive until the future is done: the last to let go of a client closes it."""
        with self._lock:
            if self._state == _PENDING:
                self._kept = thing

    def done(self) -> bool:
        """Whether a result, an error or a cancellation is there."""
        if self._made_in != _process:
            self._refuse_orphan()
        return self._state != _PENDING

    def cancelled(self) -> bool:
        """Whether the future was cancelled."""
        return self._state == _CANCELLED

    def running(self) -> bool:
        """Always False: the work runs elsewhere and may be cancelled until it is done."""
        return False

    def set_running_or_notify_cancel(self) -> bool:
        """Whether the work may go on, that is, whether nobody has cancelled it."""
        return self._state == _PENDING

    def cancel(self) -> bool:
        """Give the operation up; returns False when it was done already."""
        if self._made_in != _process:
            self._refuse_orphan()
        on_cancel = self.on_cancel
        if not self.settle(None, _CANCELLED):
            return self._state == _CANCELLED
        if on_cancel is not None:
            on_cancel()
        return True

    def fail(self, error: BaseException | None) -> bool:
        """Set the error unless the future is done; says whether it did."""
        return self.settle(None, error=error)

    def set_result(self, result: T) -> None:
        """Set the result; raises `InvalidStateError` when the future is done."""
        if not self.settle(result):
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the error; raises `InvalidStateError` when the future is done."""
        if not self.fail(exception):
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Call `fn(self)` once done, at once when it is done already."""
        if self._made_in != _process:
            self._refuse_orphan()
        with self._lock:
            if self._state == _PENDING:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(fn)
                return
        fn(self)

    def remove_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Forget a callback that has not been called yet."""
        with self._lock:
            if self._callbacks is not None and fn in self._callbacks:
                self._callbacks.remove(fn)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Args:
            timeout: Seconds to wait; the operation goes on when they pass, so that a later
                `result()` still gets it.

        Returns:
            The result.

        Raises:
            TimeoutError: Not done in time.
        """
        if self._state == _PENDING:
            if threading.get_ident() in _core_threads:
                raise DeadlockError(_DEADLOCK)
            try:
                return super().result(timeout if timeout is None else _seconds(timeout))
            except TimeoutError as error:
                if error is self._exception:
                    raise
                if self._state == _PENDING:
                    raise TimeoutError(self.waiting(timeout)) from None
        return self._value()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return the error, or None."""
        if self._state == _FINISHED:
            return self._exception
        if self._state == _PENDING and threading.get_ident() in _core_threads:
            raise DeadlockError(_DEADLOCK)
        try:
            return super().exception(_seconds(timeout))
        except TimeoutError:
            raise TimeoutError(self.waiting(timeout)) from None

    def waiting(self, timeout: float | None) -> str:
        """What to say to somebody who does not wait any longer."""
        describe = getattr(self.on_cancel, "describe", None)
        about = "" if describe is None else f" {describe()}."
        return f"No result within {timeout:g} s.{about} The operation goes on; wait for it again."

    def _refuse_orphan(self) -> None:
        if self._state == _PENDING:
            self._made_in = _process
            # A thread of the parent may have held the lock, or was waiting under it.
            self._lock = threading.RLock()
            self._light_condition = self._light_waiters = None
            self.fail(
                ClientClosedError(
                    "This operation belongs to the process that forked this one, and only that "
                    "one gets its result. Submit it again here."
                )
            )

    def settle(
        self, value: T | None, state: str = _FINISHED, *, error: BaseException | None = None
    ) -> bool:
        """Set the result unless the future is done; says whether it did."""
        with self._lock:
            if self._state != _PENDING:
                return False
            self._state = state
            self._result = value
            self._exception = error
            # It holds the request and the client, which nobody needs from here on; the last to
            # let go of a client ends it, which is not to happen under the lock.
            released = (self.on_cancel, self._kept)
            self.on_cancel = self._kept = None
            for waiter in self._light_waiters or ():
                if state == _CANCELLED:
                    waiter.add_cancelled(self)
                elif error is not None:
                    waiter.add_exception(self)
                else:
                    waiter.add_result(self)
            if self._light_condition is not None:
                self._light_condition.notify_all()
                self._light_condition = None  # whoever waits holds it; results may be kept long
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback(self)
            except BaseException as problem:
                # On our own thread sys.exit() would end the loop, not the program.
                ours = threading.get_ident() in _core_threads
                if not isinstance(problem, Exception) and not ours:
                    raise
                concurrent.futures._base.LOGGER.exception("exception calling callback for %r", self)
        del released
        return True

    def __await__(self) -> Generator[Any, None, T]:
        if self._state == _PENDING:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()
            wake = partial(_wake, loop, woken)
            self.add_done_callback(wake)
            try:
                yield from woken
            finally:
                if self._state == _PENDING:
                    self.remove_done_callback(wake)
        else:
            # Tasks made before this await run first, as with any future of another thread: a
            # checkpoint started in the background must not fall behind a later one.
            yield
        if self._state == _CANCELLED:
            raise asyncio.CancelledError
        return self._value()

    def _value(self) -> T:
        """The result of a future that is done; makes no condition."""
        if self._state == _CANCELLED:
            raise CancelledError
        if self._exception is not None:
            raise self._exception
        value: T = self._result
        return value


def _seconds(timeout: float | None) -> float | None:
    """A timeout as locks take it: what they cannot count is for ever."""
    try:
        return None if timeout is None or timeout >= threading.TIMEOUT_MAX else timeout
    except TypeError:
        raise WrongTypeError(f"timeout must be a number of seconds, not {timeout!r}.") from None


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None], _: object) -> None:
    """Wake one awaiting task, from whichever thread the future ends on."""
    try:
        if asyncio._get_running_loop() is loop:
            _set(woken)
        else:
            loop.call_soon_threadsafe(_set, woken)
    except RuntimeError:  # the awaiting loop was closed: nobody is left to wake
        return


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class APIFuture(forks.OfThisProcess, Generic[T]):
    """The result of an operation that the server is working on.

    Wait with `future.result()`, `await future` or `await future.result_async()`, as often as
    you like, from any thread and any event loop. A timeout ends the waiting, not the operation.

    Example:
        >>> from tinker_ext.core.future import AwaitableConcurrentFuture, LightFuture
        >>> light = LightFuture()
        >>> future = AwaitableConcurrentFuture(light)
        >>> light.settle(3)
        True
        >>> future.result(timeout=1)
        3
    """

    elsewhere = "Send its result() instead."

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result; raises TimeoutError after `timeout` seconds."""
        raise TypeError(f"{type(self).__name__} is abstract")

    async def result_async(self, timeout: float | None = None) -> T:
        """Async form of `result`."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def __await__(self) -> Generator[Any, None, T]:
        return self.result_async().__await__()


class AwaitableConcurrentFuture(APIFuture[T]):
    """An `APIFuture` over a `concurrent.futures.Future`.

    Args:
        future: The future to wrap; `future()` gives it back.
    """

    def __init__(self, future: concurrent.futures.Future[T]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Args:
            timeout: Seconds to wait, None for as long as the operation's own deadline.

        Returns:
            The result of the operation.

        Raises:
            TimeoutError: Not done in time; the operation goes on and may be waited for again.
        """
        return self._future.result(timeout if timeout is None else _seconds(timeout))

    async def result_async(self, timeout: float | None = None) -> T:
        """Async form of `result`."""
        timeout = _seconds(timeout)
        if timeout is None or self._future.done():
            return await _wait(self._future)
        try:
            async with asyncio.timeout(timeout):
                return await _wait(self._future)
        except TimeoutError:
            if self._future.done() or not isinstance(self._future, LightFuture):
                raise
            raise TimeoutError(self._future.waiting(timeout)) from None

    def __await__(self) -> Generator[Any, None, T]:
        return _wait(self._future).__await__()

    def future(self) -> concurrent.futures.Future[T]:
        """The `concurrent.futures.Future` beneath."""
        return self._future

    def done(self) -> bool:
        """Whether a result, an error or a cancellation is there."""
        return self._future.done()

    def cancel(self) -> bool:
        """Stop waiting for good; work that the server has accepted still takes effect."""
        return self._future.cancel()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return the error, or None."""
        return self._future.exception(_seconds(timeout))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'done' if self.done() else 'pending'}>"

    def _repr_html_(self) -> str:
        show = getattr(self._future, "_repr_html_", None)
        return f"<code>{type(self).__name__}</code>" if show is None else str(show())


async def _wait(future: concurrent.futures.Future[T]) -> T:
    if isinstance(future, LightFuture):
        light: LightFuture[T] = future
        return await light
    return await asyncio.shield(asyncio.wrap_future(future))
