"""Waiting for a result: the long-poll loop around retrieve_future."""

from __future__ import annotations

import asyncio

from tinker_ext._reply_parts import ReplyParts
from tinker_ext._transport import Call, Fail, Lane, Reply, Retry, RetryRule, sent_of, verdict
from tinker_ext._wire.dialects import Wire
from tinker_ext._wire.json_codec import dumps
from tinker_ext._wire.operations import OPERATIONS, Operation, operation
from tinker_ext._wire.records import decoder, is_binary
from tinker_ext.core import outcome as outcomes
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.link import Link
from tinker_ext.core.outcome import Decoder, Outcome
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APITimeoutError,
    BillingError,
    TinkerError,
    error_for_status,
)

_RETRIEVE = operation("retrieve_future")
_PATH = _RETRIEVE.url_path()
_PROTO = "application/x-protobuf"
_ASK = b'{"request_id":%b}'
_ASK_SIZE = b'{"request_id":%b,"allow_metadata_only":true}'

_POLL_HEADERS = {
    (op.request_type, binary): (
        ("X-Tinker-Request-Type", op.request_type),
        *((("Accept", _PROTO),) if binary else ()),
    )
    for op in OPERATIONS.values()
    for binary in (False, True)
}

HELD_SECONDS = 0.5
"""A pending answer that came sooner was not held by the server, so the next poll waits a bit."""
FIRST_PACE_SECONDS = 0.01
LONGEST_PACE_SECONDS = 1.0
BROKEN_POLLS = 3
"""An unreadable reply is asked for again this often: results can be fetched more than once."""
EMPTY_400_POLLS = 3
"""A 400 without a body comes from a proxy; the official client also asks four times in all."""


async def wait_for(
    link: Link,
    entry: Entry,
    op: Operation,
    request_id: str,
    *,
    roundtrip: float | None = None,
    metadata_only: bool = False,
) -> object:
    """Poll until the result of a request is there.

    Args:
        link: The server.
        entry: What users see of the wait; its deadline ends it.
        op: The operation that was accepted.
        request_id: Its future.
        roundtrip: Seconds the accepted request took; the first poll reports it.
        metadata_only: Let the server announce a large result before sending it.

    Returns:
        The decoded result.

    Raises:
        RequestFailedError: The request failed on the server.
        FutureExpiredError: The server does not have the result.
        DeadlineExceededError: The deadline of the entry passed.
        APIError: The server cannot be asked, or its reply cannot be read.
    """
    poll = _Poll(link, entry, op, request_id, roundtrip, metadata_only)
    queue = link.connection.queue(Lane.POLL)
    try:
        while True:
            # Thousands wait here, so it is done before anything of the poll itself is made.
            if not queue.try_acquire():
                try:
                    await queue.acquire(deadline=entry.deadline)
                except TimeoutError:
                    raise poll.late() from None
            answer = await poll.ask()
            if isinstance(answer, outcomes.Ready):
                return answer.value
            if answer is not None:
                await poll.after(answer)
    finally:
        poll.release()


class _Poll:
    """One wait: how often it asked, what it heard, how long to pause."""

    __slots__ = (
        "_broken",
        "_decoder",
        "_entry",
        "_failures",
        "_headers",
        "_held",
        "_link",
        "_loop",
        "_metadata_only",
        "_op",
        "_pace",
        "_request_id",
        "_roundtrip",
        "_told_size",
    )

    def __init__(
        self,
        link: Link,
        entry: Entry,
        op: Operation,
        request_id: str,
        roundtrip: float | None,
        metadata_only: bool,
    ) -> None:
        self._link = link
        self._entry = entry
        self._op = op
        self._request_id = request_id
        self._roundtrip = roundtrip
        dialect = link.dialect
        modern = dialect is not None and dialect.era != "0.4.1"
        self._metadata_only = metadata_only and modern
        binary = dialect is not None and dialect.wire is Wire.PROTO and is_binary(op.result)
        self._headers = _POLL_HEADERS[op.request_type, binary]
        self._decoder: Decoder = decoder(op.result or "")
        self._loop = asyncio.get_running_loop()
        self._failures = 0
        self._broken = 0
        self._pace = FIRST_PACE_SECONDS
        self._held = 0
        self._told_size = False
        entry.stage = "waiting"
        entry.attempt = 0
        entry.request_id = request_id
        entry.moved = self._loop.time()

    def late(self) -> TinkerError:
        """The error for a wait whose deadline has passed."""
        return self._entry.late(self._loop.time(), self._link.book.stall_seconds)

    async def ask(self) -> Outcome | None:
        """Make one poll with the slot that is held, and say what came.

        Returns:
            What the reply means, or None when there was none and the failure was waited out.
        """
        entry, connection = self._entry, self._link.connection
        now = self._loop.time()
        reply: Reply | None = None
        error: Exception | None = None
        try:
            reply = await connection.once_held(Lane.POLL, self._call, deadline=entry.deadline)
        except APITimeoutError as caught:
            if sent_of(caught) is not False:
                # Some servers hold a poll for minutes; hanging up is how one looks again.
                return outcomes.Pending()
            error = caught
        except APIConnectionError as caught:
            error = caught
        if reply is not None and reply.status < 500 and reply.status not in (402, 409, 429):
            connection.budget.note(Lane.POLL, ok=True, started=now)
            self._failures = 0
            self._pace_for(reply)
            return await self._link.runtime.offload(
                len(reply.content),
                outcomes.parse,
                reply.status,
                reply.headers,
                reply.content,
                self._decoder,
                self._request_id,
            )
        connection.budget.note(Lane.POLL, ok=reply is not None and reply.status < 500, started=now)
        self._failures += 1
        await self._back_off(reply, error)
        return None

    async def after(self, answer: Outcome) -> None:
        """Do what an answer other than a result asks for, or raise."""
        entry = self._entry
        if isinstance(answer, outcomes.Pending):
            now = self._loop.time()
            self._link.book.report(entry, answer.queue_state, answer.reason, now)
            if self._pace > FIRST_PACE_SECONDS or answer.immediate:
                pause = self._pace * (0.5 + self._link.rng.random() / 2)
                await asyncio.sleep(min(pause, max(0.0, entry.deadline - now)))
        elif isinstance(answer, outcomes.MetadataOnly):
            self.release()
            if self._told_size:
                raise self._told(_only_metadata())
            self._told_size = True
            await self._link.response_bytes.acquire(answer.size)
            self._held = answer.size
            self._metadata_only = False
        elif isinstance(answer, (outcomes.Failed, outcomes.Expired)):
            raise self._told(answer.error)
        elif isinstance(answer, outcomes.Broken):
            self._broken += 1
            if self._broken >= BROKEN_POLLS:
                raise self._told(answer.error)
        else:
            self._failures += 1
            if self._failures > EMPTY_400_POLLS:
                raise self._told(error_for_status(400))
            await asyncio.sleep(self._pace)

    def release(self) -> None:
        """Give back the bytes that an announced result reserved."""
        if self._held:
            self._link.response_bytes.release(self._held)
            self._held = 0

    def _call(self) -> Call:
        left = self._entry.deadline - self._loop.time()
        if left <= 0:
            raise self.late()
        attempt = self._entry.attempt = self._entry.attempt + 1
        headers = (*self._headers, ("X-Tinker-Request-Iteration", str(attempt - 1)))
        if self._roundtrip is not None and attempt == 1:
            taken = ("X-Tinker-Create-Promise-Roundtrip-Time", f"{self._roundtrip:.6f}")
            headers = (*headers, taken)
        name = dumps(self._request_id)
        body = _ASK_SIZE % name if self._metadata_only else _ASK % name
        return Call(
            operation=_RETRIEVE.name,
            method="POST",
            path=_PATH,
            content=body,
            headers=headers,
            lane=Lane.POLL,
            timeout=min(self._link.config.poll_timeout, left),
            retry=RetryRule.POLL,
        )

    def _pace_for(self, reply: Reply) -> None:
        if reply.elapsed >= HELD_SECONDS:
            self._pace = FIRST_PACE_SECONDS
        elif self._entry.attempt > 1:
            self._pace = min(LONGEST_PACE_SECONDS, self._pace * 1.5)

    async def _back_off(self, reply: Reply | None, error: Exception | None) -> None:
        decision = verdict(
            RetryRule.POLL,
            status=reply.status if reply is not None else None,
            error=error,
            headers=reply.headers if reply is not None else {},
            attempt=self._failures,
            sent=sent_of(error) if error is not None else None,
            jitter=self._link.rng.random(),
        )
        entry, budget = self._entry, self._link.connection.budget
        if not isinstance(decision, Retry):
            assert isinstance(decision, Fail)
            raise self._told(self._final(reply, error))
        if reply is not None and reply.status == 402 and self._paused_too_long():
            raise self._told(self._final(reply, error))
        if decision.sick:
            ours = decision.source in ("immediate", "backoff")
            await budget.wait_turn(
                Lane.POLL, decision.delay, chosen_by_us=ours, deadline=entry.deadline
            )
        else:
            left = max(0.0, entry.deadline - self._loop.time())
            await asyncio.sleep(min(decision.delay, left))

    def _paused_too_long(self) -> bool:
        dialect = self._link.dialect
        limit = self._link.config.billing_pause
        if dialect is not None:
            limit = min(limit, dialect.config.billing_exception_max_pause_duration_sec)
        return self._loop.time() - self._entry.moved >= limit

    def _final(self, reply: Reply | None, error: Exception | None) -> TinkerError:
        if isinstance(error, TinkerError):
            return error
        assert reply is not None
        made = error_for_status(reply.status, reply.content, reply.headers)
        assert isinstance(made, TinkerError | BillingError)
        return made

    def _told(self, error: TinkerError) -> TinkerError:
        return error.with_context(
            operation=self._op.name,
            request_id=self._request_id,
            attempts=self._entry.attempt,
            elapsed=self._loop.time() - self._entry.started,
        )


def _only_metadata() -> APIResponseValidationError:
    return APIResponseValidationError(
        ReplyParts(200, {}, b"", None),
        None,
        "The server announced the result again where it was asked to send it.",
    )
