"""What a service client shares with the clients it makes: server, session, samples, ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tinker_api import operations as api
from tinker_api.operations import Operation

from tinker_ext import forks
from tinker_ext._transport.messages import RetryRule
from tinker_ext._version import __version__
from tinker_ext._wire.dialect import Ability, Dialect
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry, PendingOperation
from tinker_ext.core.loop import Shared
from tinker_ext.core.polling import wait_for
from tinker_ext.core.sample_pool import SamplePool
from tinker_ext.core.server import SDK_VERSION, Server, prepare
from tinker_ext.core.session import Session, SessionOptions
from tinker_ext.core.training_queue import TrainingQueue
from tinker_ext.errors import (
    APIError,
    ClientClosedError,
    DeadlineExceededError,
    FeatureMissingError,
    InvalidInputError,
    TinkerError,
)
from tinker_ext.observe.watchers import Watchers
from tinker_ext.telemetry import SessionEnded

if TYPE_CHECKING:
    from tinker_ext.fleet import Member
    from tinker_ext.journal import Journal


_override: contextvars.ContextVar[float | None] = contextvars.ContextVar(
    "tinker_ext_deadline", default=None
)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Give every operation started inside the block this many seconds.

    Args:
        seconds: Time from the call to the result. It replaces `Config.wait_deadline`.

    Raises:
        InvalidInputError: Not a number of more than 0.

    Example:
        >>> with deadline(30.0):
        ...     chosen_seconds()
        30.0
    """
    token = _override.set(_positive(seconds))
    try:
        yield
    finally:
        _override.reset(token)


def _positive(seconds: Any) -> float:
    try:
        if isinstance(seconds, str) or not seconds > 0:
            raise ValueError
        return float(seconds)
    except (TypeError, ValueError, OverflowError):
        shown = str(seconds) if isinstance(seconds, float) else f"{seconds!r:.50}"
        raise InvalidInputError(f"deadline must be more than 0 seconds, got {shown}.") from None


def chosen_seconds() -> float | None:
    """What `deadline(seconds)` says here; None outside of it."""
    return _override.get()


T = TypeVar("T")

FOREVER_SECONDS = 10 * 365 * 86400.0
CANCEL_BATCH = 64
_SCOPES = frozenset({"access_scope", "project_id"})
"""Query parameters that servers of the first era do not know."""


class Workspace:
    """One server, one session, and everything under way there.

    Args:
        server: Where everything goes.
        options: What a new session is told.
        session_id: Id of an existing session to join instead.
        description: How to reach the server from elsewhere: base URL and public settings.
    """

    def __init__(
        self,
        server: Server,
        options: SessionOptions | None = None,
        *,
        session_id: str | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self.runtime = server.runtime
        self.watchers = Watchers(server.observers, server.runtime.time)
        self.session = Session(server, options, session_id=session_id)
        self.samples = SamplePool(server)
        self.samples.on_cancelled = self._cancelled
        self.samples.owner = lambda: self.owner()
        self.description = dict(description or {})
        self.member: Member | None = None
        """Its place in a fleet, when the user asked for one."""
        self.journal: Journal | None = None
        """Where the run is written down, when the user asked for it."""
        self.followed: TrainingQueue | None = None
        """The training requests that are written down."""
        self._wait = server.config.wait_deadline or FOREVER_SECONDS
        self.queues: list[TrainingQueue] = []
        """Those of its training clients, which end with it."""
        self._journals: list[Journal] = []
        self._retained = False
        self.closed = False
        """Whether `close` was called."""
        self._wants_cancels: Shared[bool] = Shared(self._ask_about_cancels)
        self._to_cancel: set[str] = set()
        self._calls: set[LightFuture[Any]] = set()
        self.closers: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Awaited when the workspace closes, before the connections do (telemetry, run log)."""
        self.owner: Callable[[], object] = lambda: None
        """The client that ends the workspace when it is forgotten. Clients made by it hold what
        this returns, so that it is not forgotten while they are in use."""
        forks.register(self)

    # -- any thread ------------------------------------------------------------------------

    def open(self) -> None:
        """Make sure the loop runs; raises when the workspace was closed."""
        if self.closed:
            raise ClientClosedError("This client is closed.")
        if not self._retained:
            self._retained = True
            try:
                self.runtime.retain()
            except BaseException:
                self._retained = False
                raise

    def retire_unused(self) -> bool:
        """Close a workspace that never sent anything; True when it is closed (already)."""
        if not self._retained and not self.closed:
            self.closed = True
            if self.member is not None:
                self.member.leave()
            for journal in self._journals:
                journal.close()
        return self.closed

    def enter(self, member: Member) -> None:
        """Take permits and budget of a fleet from now on, and leave it with the end."""
        self.member, self.watchers.ledger = member, member.ledger
        self.samples.share_limit(member)
        self.closers.append(lambda: asyncio.to_thread(member.leave))
        weakref.finalize(self, member.leave)  # for a client that is never closed

    def follow(self, journal: Journal) -> None:
        """Write the run down in a journal from now on; all that it had are closed with it."""
        self.journal = journal
        self._journals.append(journal)

    def submit(self, coro: Coroutine[Any, Any, T]) -> LightFuture[T]:
        """Run a coroutine on the core loop."""
        try:
            self.open()
        except BaseException:
            coro.close()
            raise
        seconds = _override.get()
        if seconds is not None:
            coro = _within(coro, seconds)
        future = self.runtime.submit(coro)
        future.keep(self.owner())
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        return future

    def seconds(self) -> float:
        """How long an operation started now may take."""
        return _override.get() or self._wait

    def begin(self) -> tuple[float, float]:
        """Make sure the loop runs; returns its time, and the seconds an operation may take."""
        if self.closed or not self._retained:
            self.open()
        return self.runtime.time(), _override.get() or self._wait

    def dialect(self) -> Dialect:
        """What the server speaks; asks it, and waits, when nothing was sent yet."""
        return self.server.dialect or self.submit(self.server.ready()).result()

    def pending(self, target: str | None = None) -> list[PendingOperation]:
        """What is in flight or queued, oldest first: everything, or for one target."""
        return self.server.in_flight.snapshot(self.runtime.time(), target)

    def after_fork(self) -> None:
        """In a forked child: share nothing with the parent but the server and its settings.

        Its samplers work on, under numbers of their own. Its session and its models stay the
        parent's, since two processes would number their requests alike: the first call that needs
        a session opens another one, and training clients of the parent refuse to work.
        """
        self.server.in_flight.after_fork()
        self.session.after_fork()
        self.samples.after_fork()
        for queue in self.queues:
            queue.after_fork()
        self.journal = self.followed = None
        self._journals = []
        self._wants_cancels = Shared(self._ask_about_cancels)
        self._to_cancel = set()
        self._calls = set()

    # -- on the loop -----------------------------------------------------------------------

    async def call(
        self,
        op: Operation[Any, Any],
        arguments: Mapping[str, Any],
        seconds: float | None = None,
        *,
        method: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        idempotency_key: str | None = None,
        pending: Callable[[Any], float | None] | None = None,
    ) -> Any:
        """Send an operation outside the training order; return its reply, or its future's result.

        It may take `seconds`, by default the retry window. `method` is the public method that the
        user called, for the server's statistics. The rest is as in `Server.call`.
        """
        dialect = await self.server.ready()
        if Ability.ACCESS_SCOPES not in dialect.abilities:
            known = {field.name for field in op.query_fields}
            arguments = {
                name: value
                for name, value in arguments.items()
                if name not in _SCOPES or name not in known
            }
        if op.result is not None:
            target = str(arguments.get("model_id") or arguments.get("base_model") or "")
            return await self.run(op, arguments, target, seconds or self.seconds())
        marks = (("x-sdk-version", __version__), ("x-sdk-method", method or op.name))
        deadline = None
        if seconds is not None:
            deadline = asyncio.get_running_loop().time() + seconds
        return await self.server.call(
            op,
            headers=(*marks, *headers),
            deadline=deadline,
            idempotency_key=idempotency_key,
            pending=pending,
            **arguments,
        )

    async def run(
        self, op: Operation[Any, Any], arguments: Mapping[str, Any], target: str, seconds: float
    ) -> Any:
        """Send an operation with a future outside the training order; return its result."""
        loop = asyncio.get_running_loop()
        entry = Entry(op.name, target, loop.time(), loop.time() + seconds)
        self.server.in_flight.add(entry)
        ended: LightFuture[Any] = LightFuture()
        watch = self.watchers.begin_training(op.name, target, ())
        if watch is not None:
            watch.follow(entry, ended)
        try:
            entry.stage = "sending"
            window = loop.time() + self.server.config.retry_window
            deadline = min(entry.deadline, window)
            reply = await self.server.send(
                op, prepare(op, arguments), deadline=deadline, retry=self._rule(op)
            )
            request_id = self.server.read(op, reply).request_id
            value = await wait_for(self.server, entry, op, request_id, roundtrip=reply.elapsed)
            ended.settle(value)
            return value
        except BaseException as error:
            ended.fail(error)
            raise
        finally:
            self.server.in_flight.discard(entry)

    def _rule(self, op: Operation[Any, Any]) -> RetryRule | None:
        """How a training operation is repeated outside the queue: only where that is safe."""
        if "seq_id" not in op.arguments or op is api.SAMPLE:
            return None
        dialect = self.server.dialect
        known = dialect is not None and dialect.repeats_answers
        return RetryRule.FINAL409 if known else RetryRule.UNSAFE

    async def _ask_about_cancels(self) -> bool:
        dialect = await self.server.ready()
        if Ability.DYNAMIC_CONFIG not in dialect.abilities:
            return False
        try:
            reply = await self.server.call(api.GET_CLIENT_DYNAMIC_CONFIG, sdk_version=SDK_VERSION)
        except (APIError, FeatureMissingError):
            return False
        return bool(reply.sample_cancel_enabled)

    def _cancelled(self, request_id: str) -> None:
        self._to_cancel.add(request_id)
        if len(self._to_cancel) == 1:
            self.runtime.spawn(self._send_cancels())

    async def _send_cancels(self) -> None:
        """Tell the server about samples nobody waits for, where it wants to know."""
        op = api.CANCEL_FUTURE
        try:
            wanted = await self._wants_cancels.get()
            while wanted and self._to_cancel:
                count = min(CANCEL_BATCH, len(self._to_cancel))
                batch = [self._to_cancel.pop() for _ in range(count)]
                sends = (self.server.send(op, prepare(op, {"request_id": each})) for each in batch)
                await asyncio.gather(*sends, return_exceptions=True)
        finally:
            self._to_cancel.clear()  # or the next one would not be sent, nor any after it

    def close(self, status: str = "success", detail: str | None = None) -> LightFuture[None]:
        """End everything; the future, awaitable too, is done when nothing is left running."""
        if self.retire_unused():
            done: LightFuture[None] = LightFuture()
            done.settle(None)
            return done
        return self.runtime.submit(self.end(status, detail))

    async def end(self, status: str, detail: str | None = None) -> None:
        """End everything: samples and training calls, heartbeat, session, connections."""
        if self.closed:
            return
        self.closed = True
        error: TinkerError = ClientClosedError("The client was closed while this was under way.")
        for queue in self.queues:
            queue.close(error)
        self.samples.close(error)
        for call in list(self._calls):  # else the end of the loop would cancel them without a word
            call.fail(ClientClosedError("The client was closed while this was under way."))
            if call.task is not None:
                call.task.cancel()
        session_id, began = self.session.session_id, self.session.began
        try:
            await self.session.finish(status, detail)
        finally:
            self.session.close()
            self._wants_cancels.forget()
            lasted = 0.0 if began is None else self.runtime.time() - began
            self.server.observers.notice(SessionEnded(session_id, status, detail, lasted))
            try:
                for closer in self.closers:
                    with contextlib.suppress(Exception):
                        await closer()
                for journal in self._journals:
                    with contextlib.suppress(OSError):
                        journal.close()
                await self.server.aclose()
            finally:
                if self._retained:
                    self._retained = False
                    self.runtime.release()


async def _within(coro: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run a coroutine for no longer than the caller allows, whatever it waits for."""
    try:
        async with asyncio.timeout(seconds):
            return await coro
    except TimeoutError as error:
        if isinstance(error, TinkerError):
            raise
        raise DeadlineExceededError(
            f"The call did not end within the {seconds:g} s that `deadline` allows."
        ) from None
