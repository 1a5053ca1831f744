"""`Reporter`: the observer that sends telemetry, in batches and off the user's path.

A user's call only appends to a queue. A task on the core loop sends what is there every ten
seconds, and at once after an exception; it exists only while the queue holds something.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from tinker_ext import forks
from tinker_ext._transport import statuses
from tinker_ext._transport.events import Event, SessionEnded, SessionStarted
from tinker_ext.errors import APIStatusError, FeatureMissingError, TinkerError
from tinker_ext.observe import identity
from tinker_ext.observe.payload import Draft, drafts

log = logging.getLogger("tinker_ext")

QUEUE_EVENTS: Final = 10_000
BATCH_EVENTS: Final = 100
PERIOD_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 300.0
DRAIN_SECONDS: Final = 2.0
"""Time that closing a client may spend on the last batches."""


class Loop(Protocol):
    """What is needed from the place where the core runs."""

    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Run something on the loop, from any thread."""

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task, on the loop."""


Send = Callable[[Mapping[str, Any]], Awaitable[object]]
"""Posts one body to the telemetry endpoint, in one attempt; raises an `APIError` on failure."""


class Reporter:
    """Sends the events of one session.

    Args:
        send: Posts one body.
        loop: Where the core runs.
        sdk_version: Reported with every batch.
        rng: Source of event ids.
    """

    def __init__(
        self, send: Send, loop: Loop, *, sdk_version: str, rng: random.Random | None = None
    ) -> None:
        self._send = send
        self._loop = loop
        self._sdk_version = sdk_version
        self._rng = rng or random.Random()
        self._lock = forks.lock()
        self._process = identity.current()
        self._session_id: str | None = None
        self._index = 0
        self._queue: deque[dict[str, Any]] = deque()
        self._dropped = False
        self._off = False
        self._closing = False
        self._failures = 0
        self._task: asyncio.Task[Any] | None = None
        self._bell: asyncio.Event | None = None

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
        found = drafts(event)
        if not found:
            return
        taken = [self._put(draft) for draft in found]
        if any(taken):
            self._loop.call(self._wake, any(draft.urgent for draft in found))

    def _put(self, draft: Draft) -> bool:
        with self._lock:
            if self._process is not identity.current():
                self._forget_parent()
            if len(self._queue) >= QUEUE_EVENTS:
                if not self._dropped:
                    self._dropped = True
                    log.warning(
                        "Telemetry is %d events behind; further events are dropped.", QUEUE_EVENTS
                    )
                return False
            now = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
            made = {
                **draft.body,
                "event_id": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
                "event_session_index": self._index,
                "timestamp": now,
            }
            self._index += 1
            self._queue.append(made)
            return True

    def _forget_parent(self) -> None:
        """A forked child has the parent's queue, which the parent sends, and none of its tasks."""
        self._process = identity.current()
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
            await self._pause(bell)
            bell.clear()
            await self._flush()
            if self._closing and self._failures:
                return

    async def _pause(self, bell: asyncio.Event) -> None:
        if self._closing:
            return
        if self._failures:
            # A server that is unwell is not asked sooner because more goes wrong.
            pause = min(LONGEST_PAUSE_SECONDS, PERIOD_SECONDS * 2**self._failures)
            await asyncio.sleep(pause)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PERIOD_SECONDS):
                await bell.wait()

    async def _flush(self) -> None:
        while self._queue and not self._off:
            count = min(BATCH_EVENTS, len(self._queue))
            # New events are added at the other end, so these stay the first ones.
            body = self._body([self._queue[index] for index in range(count)])
            try:
                await self._send(body)
            except TinkerError as error:
                if not self._is_dropped(error):
                    self._failures += 1
                    return
            self._failures = 0
            if not self._off:
                for _ in range(count):
                    self._queue.popleft()

    def _is_dropped(self, error: TinkerError) -> bool:
        """Whether this batch is lost for good; a server without the endpoint ends it all."""
        status = error.status_code if isinstance(error, APIStatusError) else None
        if isinstance(error, FeatureMissingError) or status in statuses.UNWANTED:
            self._off = True
            self._queue.clear()
            log.debug("This server takes no telemetry; nothing more is reported.")
            return True
        return status is not None and 400 <= status < 500 and status not in (408, 429)

    def _body(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "events": events,
            "platform": identity.platform_name(),
            "sdk_version": self._sdk_version,
            "session_id": self._session_id or f"sessionless-{self._process.uuid}",
            "process_uuid": self._process.uuid,
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
