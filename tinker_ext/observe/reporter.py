"""`Reporter`: telemetry to the server, which is told about a session and its errors.

Nothing here runs unless the user asks for it, and nothing here can delay or break a call: a user's
call only appends to a queue. A task on the core loop sends what is there every ten seconds, and at
once after an exception; it exists only while the queue holds something.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
import math
import os
import platform
import random
import traceback
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import tinker_ext._statuses as statuses
from tinker_ext import forks
from tinker_ext._transport.messages import Lane, RetryRule
from tinker_ext._transport.retry import ACCEPT, Attempts, Fail, Retry, Timing, Verdict, run
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APIStatusError,
    DeadlineExceededError,
    FeatureMissingError,
    RequestFailedError,
    TinkerError,
)
from tinker_ext.telemetry import (
    Event,
    OperationFinished,
    RequestFailed,
    RequestFinished,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
)

if TYPE_CHECKING:
    from tinker_ext.core.loop import Runtime

log = logging.getLogger("tinker_ext")

# These run beside the user's calls: servers may lack them, and nobody waits for their result.
BACKGROUND: Final = frozenset(
    {
        "get_client_config",
        "get_client_dynamic_config",
        "session_heartbeat",
        "finish_session",
        "cancel_future",
        "retrieve_futures",
        "send_telemetry",
    }
)

_DIRECT_LANES: Final = frozenset({Lane.REST, Lane.SESSION})


Draft = dict[str, Any]
"""An event without its number."""


def drafts(event: Event) -> Iterator[Draft]:
    """What to report about an event; usually nothing."""
    if isinstance(event, SessionStarted):
        yield {"event": "SESSION_START", "severity": "INFO"}
    elif isinstance(event, SessionEnded):
        if event.detail is not None and event.status == "errored":
            yield _unhandled(event.detail, "The user's block ended with it.", None)
        # Python's text for a timedelta, as servers expect.
        duration = str(datetime.timedelta(seconds=max(0.0, event.seconds)))
        yield {"event": "SESSION_END", "severity": "INFO", "duration": duration}
    elif isinstance(event, RetryScheduled):
        if event.lane is not Lane.TELEMETRY:
            yield _retry(event)
    elif isinstance(event, RequestFinished):
        if event.lane is Lane.POLL and _poll_failed(event):
            yield _poll(event)
    elif isinstance(event, RequestFailed):
        # A server may merely lack something that not every server has.
        missing = event.operation in BACKGROUND and is_user_error(event.failure)
        if event.lane is not Lane.TELEMETRY and not missing:
            yield _request_failed(event)
            if event.lane in _DIRECT_LANES and event.operation not in BACKGROUND:
                yield _for_user(event.failure, event.operation)
    elif isinstance(event, OperationFinished) and isinstance(event.failure, Exception):
        yield _operation_failed(event, event.failure)
        yield _for_user(event.failure, event.operation)


def is_urgent(draft: Draft) -> bool:
    """Whether to send it at once: what the user's code gets, and the end."""
    return (
        draft["event"] in ("SESSION_END", "UNHANDLED_EXCEPTION")
        or draft.get("event_name") == "user_error"
    )


def is_user_error(error: BaseException | None) -> bool:
    """Whether the user's request was at fault, anywhere in the chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, RequestFailedError) and error.category == "user":
            return True
        status = status_of(error)
        if status is not None and 400 <= status < 500 and status != 408:
            return True
        error = error.__cause__ or error.__context__
    return False


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an error, where it has one."""
    return error.status_code if isinstance(error, APIStatusError) else None


def _generic(name: str, severity: str, **data: Any) -> Draft:
    known = {key: value for key, value in data.items() if value is not None}
    head = {"event": "GENERIC_EVENT", "severity": severity}
    return head | {"event_name": name, "event_data": known}


def _unhandled(error_type: str, message: str, places: str | None) -> Draft:
    head = {"event": "UNHANDLED_EXCEPTION", "severity": "ERROR"}
    said = {"error_type": error_type, "error_message": message}
    return head | said | ({"traceback": places} if places else {})


def _for_user(error: BaseException, operation: str) -> Draft:
    """The event for an exception that the user's code gets."""
    name = type(error).__name__
    status = status_of(error)
    if is_user_error(error):
        about = {"error_type": name, "status_code": status, "func": operation}
        return _generic("user_error", "WARNING", **about)
    said = "" if status is None else f" with status {status}"
    return _unhandled(name, f"{operation} failed{said}.", places_of(error))


def places_of(error: BaseException) -> str | None:
    """Where in this package an exception passed; no source lines, no files of the user."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] == "tinker_ext":
            found.append(f"{module}:{line} in {frame.f_code.co_name}")
    return "\n".join(found) or None


def _retry(event: RetryScheduled) -> Draft:
    return _generic(
        "InternalClientHolder.execute_with_retries.exception",
        "WARNING",
        func=event.operation,
        exception_type=None if event.reason.isdigit() else event.reason,
        status_code=int(event.reason) if event.reason.isdigit() else None,
        is_retryable=True,
        is_user_error=False,
        attempt_count=event.attempt,
    )


def _request_failed(event: RequestFailed) -> Draft:
    user = is_user_error(event.failure)
    return _generic(
        "InternalClientHolder.execute_with_retries.exception",
        "WARNING" if user or event.operation in BACKGROUND else "ERROR",
        func=event.operation,
        exception_type=event.error,
        status_code=status_of(event.failure),
        is_retryable=False,
        is_user_error=user,
        attempt_count=event.attempts,
        elapsed_time=round(event.elapsed, 6),
    )


def _poll_failed(event: RequestFinished) -> bool:
    if event.status is not None:
        return event.status >= 400 and event.status != 408
    return event.error not in (None, "CancelledError") and "Timeout" not in str(event.error)


def _poll(event: RequestFinished) -> Draft:
    kind = "connection_error" if event.status is None else "api_status_error"
    return _generic(
        f"APIFuture.result_async.{kind}",
        "WARNING",
        status_code=event.status,
        exception_type=event.error,
        iteration=event.attempt - 1,
        elapsed_time=round(event.elapsed, 6),
    )


_KINDS: Final = {
    RequestFailedError: "application_error",
    APIResponseValidationError: "validation_error",
    DeadlineExceededError: "timeout",
    APIConnectionError: "connection_error",
    Exception: "api_status_error",
}


def _operation_failed(event: OperationFinished, error: Exception) -> Draft:
    name = next(name for kind, name in _KINDS.items() if isinstance(error, kind))
    name, more = f"APIFuture.result_async.{name}", dict[str, Any]()
    if event.operation == "asample" and event.request_id is None:
        name = "RetryHandler.execute.exception"
        more = {"func": "asample", "should_retry": False, "attempt_count": event.attempts}
    elif isinstance(error, RequestFailedError):
        more = {"error_category": error.category.name}
    user = is_user_error(error)
    return _generic(
        name,
        "WARNING" if user else "ERROR",
        request_id=event.request_id,
        request_type=event.operation,
        exception_type=event.error,
        status_code=status_of(error),
        is_user_error=user,
        iteration=event.attempts,
        elapsed_time=round(event.seconds, 6),
        **more,
    )


@functools.lru_cache(maxsize=1)
def _uuid_of(pid: int) -> str:
    return str(uuid.uuid4())


def process_uuid() -> str:
    """The id of this process; a forked child has another."""
    return _uuid_of(os.getpid())


QUEUE_EVENTS: Final = 10_000
BATCH_EVENTS: Final = 100
PERIOD_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 300.0
DRAIN_SECONDS: Final = 2.0
"""Time that closing a client may spend on the last batches."""


Send = Callable[[Mapping[str, Any]], Awaitable[object]]
"""Posts one body to the telemetry endpoint, in one attempt; raises an `APIError` on failure."""


class Reporter:
    """Sends the events of one session."""

    def __init__(
        self, send: Send, loop: Runtime, *, sdk_version: str, rng: random.Random | None = None
    ) -> None:
        self._send = send
        self._loop = loop
        self._sdk_version = sdk_version
        self._rng = rng or random.Random()
        self._lock = forks.lock()
        self._session_id: str | None = None
        self._index = 0
        self._queue: deque[dict[str, Any]] = deque()
        self._dropped = False
        self._off = False
        self._closing = False
        self._failures = 0
        self._task: asyncio.Task[Any] | None = None
        self._bell: asyncio.Event | None = None
        forks.register(self)

    @property
    def off(self) -> bool:
        """Whether the server has refused telemetry."""
        return self._off

    @property
    def queued(self) -> int:
        """Events not sent yet."""
        return len(self._queue)

    # -- any thread ------------------------------------------------------------------------

    def notice(self, event: Event) -> None:
        """Queue what is worth reporting; never waits."""
        if self._off:
            return
        if isinstance(event, SessionStarted):
            self._session_id = event.session_id
        if isinstance(event, SessionEnded) and event.session_id is None:
            return  # without a session there is neither start nor end
        found = list(drafts(event))
        if any([self._put(draft) for draft in found]):  # noqa: C419 - all are put
            self._loop.call(self._wake, any(map(is_urgent, found)))

    def _put(self, draft: Draft) -> bool:
        with self._lock:
            if len(self._queue) >= QUEUE_EVENTS:
                if not self._dropped:
                    self._dropped = True
                    log.warning(
                        "Telemetry is %d events behind; further events are dropped.", QUEUE_EVENTS
                    )
                return False
            now = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
            made = {
                **draft,
                "event_id": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
                "event_session_index": self._index,
                "timestamp": now,
            }
            self._index += 1
            self._queue.append(made)
            return True

    def after_fork(self) -> None:
        """In a forked child: the parent sends its queue, and its tasks are not here."""
        self._queue.clear()
        self._task = self._bell = None

    # -- on the loop -----------------------------------------------------------------------

    def _wake(self, urgent: bool) -> None:
        if self._off or self._closing or not self._queue:
            return
        if self._task is None or self._task.done():
            self._bell = asyncio.Event()
            self._task = self._loop.spawn(self._run(self._bell))
        if urgent and self._bell is not None:
            self._bell.set()

    async def _run(self, bell: asyncio.Event) -> None:
        while self._queue and not self._off:
            if not self._closing:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await bell.wait()
            while self._queue and not self._off:
                batch = _Batch(self, self._rng)
                await batch.make()
                if isinstance(batch.verdict, Retry):
                    await run(batch, batch.make)
                if self._failures:
                    return

    async def deliver(self) -> Verdict:
        """Send the first events once, and decide what follows."""
        count = min(BATCH_EVENTS, len(self._queue))
        # New events are added at the other end, so these stay the first ones.
        body = self._body([self._queue[index] for index in range(count)])
        try:
            await self._send(body)
        except TinkerError as error:
            if not self._is_dropped(error):
                self._failures += 1
                if self._closing:
                    return Fail("final")
                # A server that is unwell is not asked sooner because more goes wrong.
                pause = min(LONGEST_PAUSE_SECONDS, PERIOD_SECONDS * 2**self._failures)
                return Retry(pause, "pending")
        self._failures = 0
        if not self._off:
            for _ in range(count):
                self._queue.popleft()
        return ACCEPT

    def _is_dropped(self, error: TinkerError) -> bool:
        """Whether this batch is lost for good; a server without the endpoint ends it all."""
        status = status_of(error)
        if isinstance(error, FeatureMissingError) or status in statuses.UNWANTED:
            self._off = True
            self._queue.clear()
            log.debug("This server takes no telemetry; nothing more is reported.")
            return True
        return status is not None and 400 <= status < 500 and status not in statuses.PASSING

    def _body(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "events": events,
            "platform": platform.system() or "unknown",
            "sdk_version": self._sdk_version,
            "session_id": self._session_id or f"sessionless-{process_uuid()}",
            "process_uuid": process_uuid(),
        }

    async def aclose(self, seconds: float = DRAIN_SECONDS) -> None:
        """Send what is left, waiting at most `seconds`; then nothing of this is running."""
        self._closing = True
        task = self._task
        if task is None or task.done():
            if not self._queue or self._off:
                return
            task = self._task = self._loop.spawn(self._run(asyncio.Event()))
        elif self._bell is not None:
            self._bell.set()
        if self._failures:
            seconds = 0.0  # it failed before; the user does not wait for another try
        await asyncio.wait({task}, timeout=seconds)
        self._off = True
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


class _Batch(Attempts):
    """The first events of the queue, sent until the server takes or refuses them."""

    def __init__(self, reporter: Reporter, rng: random.Random) -> None:
        super().__init__("send_telemetry", "", RetryRule.ONCE, math.inf, Timing(), rng)
        self._reporter = reporter

    async def make(self) -> None:
        """Send them once."""
        self.verdict = await self._reporter.deliver()
