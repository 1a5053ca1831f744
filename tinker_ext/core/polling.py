"""Waiting for a result: retrieve_future, asked by the retry loop until the result is there."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import attrs
import orjson
from tinker_api import operations as api
from tinker_api.errors import ApiError
from tinker_api.models import FutureMetadataOnly, RequestFailedResponse, TryAgainResponse
from tinker_api.operations import Operation

import tinker_ext._statuses as statuses
from tinker_ext._transport.limits import HELD_SECONDS
from tinker_ext._transport.messages import Call, LaneBusyError, Reply, RetryRule, sent_of
from tinker_ext._transport.retry import (
    ACCEPT,
    Attempts,
    Fail,
    Retry,
    Verdict,
    back_off,
)
from tinker_ext._wire import results
from tinker_ext._wire.dialect import Ability, Wire
from tinker_ext._wire.payload import ASK, ASK_SIZE
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.server import Server, unreadable
from tinker_ext.errors import (
    APIResponseValidationError,
    APITimeoutError,
    FutureExpiredError,
    ReplyParts,
    RequestFailedError,
    TinkerError,
    error_for_status,
)


@attrs.frozen
class Pending:
    """Not done yet; the queue state says why when the server told."""

    queue_state: str | None = None
    reason: str | None = None
    immediate: bool = False
    """True for a 200 try_again, which some servers send without holding the request."""


@attrs.frozen
class MetadataOnly:
    """Done; the result has this many bytes and must be asked for once more."""

    size: int


@attrs.define
class Ready:
    """Done; here is the result."""

    value: Any


@attrs.frozen
class Failed:
    """The request failed, or its result is gone: asking again will not help."""

    error: TinkerError


@attrs.frozen
class FromElsewhere:
    """The reply was not written by the server: a gateway's page, or nothing at all."""

    status: int


@attrs.frozen
class Broken:
    """The reply cannot be read as what was asked for, or may have been written by a gateway."""

    error: TinkerError


Outcome = Pending | MetadataOnly | Ready | Failed | FromElsewhere | Broken

_FUTURE = re.compile(r"\b(future|promise|request)s?\b", re.IGNORECASE)
# "Failed to retrieve future: …" is what TuFT 0.2.2 puts before the reason, whatever that is.
_PREFACE = re.compile(r"\s*failed to \w+ (the )?\w+:", re.IGNORECASE)
_PROTOBUF = "application/x-protobuf"
_BAD_BODY = (
    ApiError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)


def parse(op: Operation[Any, Any], reply: Reply, request_id: str) -> Outcome:
    """Decide what a reply to a poll means that did not fail itself (5xx, 402, 409, 429).

    Never raises for anything a server can send.
    """
    status = reply.status
    if status in statuses.ACCEPTED:
        kind = reply.headers.get("content-type", "")
        try:
            if _PROTOBUF in kind:
                return Ready(results.read_proto(op, reply.content))
            if "html" in kind:
                return FromElsewhere(status)
            return _read(results.read_json(op, orjson.loads(reply.content)), request_id)
        except _BAD_BODY as error:
            return Broken(unreadable(reply, op.result or op.name, request_id, error))
    body = _mapping(reply.content)
    if status == statuses.NOT_YET:
        return _pending(body or {})
    if status == statuses.GONE:
        return Failed(_expired(status, body or {}, request_id))
    if body is None:
        return FromElsewhere(status)
    detail = body.get("detail", body.get("error"))
    if status == 404 and isinstance(detail, str) and _is_about_future(detail, request_id):
        return Failed(_expired(status, body, request_id))
    if status == 400 and isinstance(detail, str):
        if "category" in body:
            return Failed(RequestFailedError(detail, request_id, str(body["category"])))
        # SkyRL reports a failed request this way, and a gateway a poll that it does not let pass.
        failed = RequestFailedError(detail, request_id, "unknown")
        failed.in_doubt = True
        return Broken(failed)
    return Failed(
        error_for_status(status, reply.content, reply.headers).with_context(
            operation="retrieve_future", request_id=request_id
        )
    )


def _read(value: Any, request_id: str) -> Outcome:
    """What a member of the union means: the result itself, or one of those that stand for it."""
    if isinstance(value, TryAgainResponse):
        return _pending(value.to_dict(), immediate=True)
    if isinstance(value, FutureMetadataOnly):
        size: Any = value.response_payload_size
        return MetadataOnly(size if type(size) is int and 0 <= size < 1 << 40 else 0)
    if isinstance(value, RequestFailedResponse):
        body = value.to_dict()
        said = _text(body, "error", "the server gave no reason")
        return Failed(RequestFailedError(said, request_id, _text(body, "category", "unknown")))
    return Ready(value)


def _pending(body: Mapping[str, Any], *, immediate: bool = False) -> Pending:
    return Pending(_text(body, "queue_state"), _text(body, "queue_state_reason"), immediate)


def _text(body: Mapping[str, Any], key: str, default: Any = None) -> Any:
    said = body.get(key)
    return said if isinstance(said, str) else default


def _is_about_future(detail: str, request_id: str) -> bool:
    """Whether a 404 means the future itself, and not something that its request named."""
    reason = _PREFACE.sub("", detail, count=1)
    return request_id in reason or _FUTURE.search(reason) is not None


def _expired(status: int, body: Mapping[str, Any], request_id: str) -> FutureExpiredError:
    detail = _text(body, "detail")
    said = "" if detail is None else f": {detail}"
    what = "no longer has" if status == statuses.GONE else "does not know"
    error = FutureExpiredError(f"The server {what} the result of this request ({status}{said}).")
    return error.with_context(request_id=request_id)


def _mapping(content: bytes) -> Mapping[str, Any] | None:
    """The JSON object of an error; None for anything else, which no Tinker server writes."""
    try:
        body = orjson.loads(content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


_NOT_ABOUT_THE_FUTURE = statuses.FAILED | statuses.REFUSED_FOR_NOW | {statuses.CONFLICT}

FIRST_PACE_SECONDS = 0.01
LONGEST_PACE_SECONDS = 1.0
BROKEN_POLLS = 3
"""An unreadable reply is asked for again this often: results can be fetched more than once."""


@functools.cache
def _headers(kind: str, accept: str) -> tuple[tuple[str, str], ...]:
    own = (("X-Tinker-Request-Type", kind),)
    return (*own, ("Accept", accept)) if accept else own


async def wait_for(
    server: Server,
    entry: Entry,
    op: Operation[Any, Any],
    request_id: str,
    *,
    roundtrip: float | None = None,
    metadata_only: bool = False,
) -> Any:
    """Poll until the result of a request is there, or the deadline of its entry passes.

    The first poll reports `roundtrip`, the seconds the accepted request took. With `metadata_only`
    the server may announce a large result before it sends it.

    Raises:
        RequestFailedError: The request failed on the server.
        FutureExpiredError: The server does not have the result.
        DeadlineExceededError: The deadline of the entry passed.
        APIError: The server cannot be asked, or its reply cannot be read.
    """
    poll = _Poll(server, entry, op, request_id, roundtrip, metadata_only)
    try:
        await poll.connection.send(poll, poll.make)
    finally:
        if poll.held:
            server.response_bytes.release(poll.held)
    if poll.verdict is ACCEPT:
        return poll.value
    raise poll.failure()


class _Poll(Attempts):
    """One wait: how often it asked, what it heard, how long to pause."""

    held = 0
    value: Any = None
    _broken = 0
    _pace = FIRST_PACE_SECONDS
    _told_size = False
    _failure: TinkerError | None = None

    def __init__(
        self,
        server: Server,
        entry: Entry,
        op: Operation[Any, Any],
        request_id: str,
        roundtrip: float | None,
        metadata_only: bool,
    ) -> None:
        self.connection = connection = server.connection
        super().__init__(
            api.RETRIEVE_FUTURE.name,
            api.RETRIEVE_FUTURE.lane,
            RetryRule.POLL,
            entry.deadline,
            server.poll_timing,
            server.rng,
            connection.loop,
        )
        self.owner = self._entry = entry
        self._server = server
        self._op = op
        self._request_id = request_id
        self._roundtrip = roundtrip
        dialect = server.dialect
        self._metadata_only = (
            metadata_only and dialect is not None and Ability.RESULT_SIZES in dialect.abilities
        )
        binary = dialect is not None and dialect.wire is Wire.PROTO
        self._headers = _headers(op.request_type, op.accept if binary else "")
        entry.stage = "waiting"
        entry.attempt = 0
        entry.request_id = request_id
        entry.moved = self.began

    async def enter(self) -> None:
        """Wait for a turn where the last answer came at once: many polls would be a storm."""
        self.enters = False
        await self._server.poll_pace.turn(self.deadline)

    def make(self) -> Call:
        """The next poll."""
        entry = self._entry
        left = entry.deadline - self.loop.time()
        if left <= 0:
            raise self._late()
        attempt = entry.attempt = entry.attempt + 1
        numbers = f"X-Tinker-Request-Iteration: {attempt - 1}\r\n"
        if self._roundtrip is not None and attempt == 1:
            numbers += f"X-Tinker-Create-Promise-Roundtrip-Time: {self._roundtrip:.6f}\r\n"
        return Call(
            self.operation,
            "POST",
            api.RETRIEVE_FUTURE.path,
            # Written for each poll: what orjson gives back keeps 4 KB, and thousands wait here.
            (ASK_SIZE if self._metadata_only else ASK) % orjson.dumps(self._request_id),
            self._headers,
            numbers,
            self.lane,
            min(self._server.config.poll_timeout, left),
            self.rule,
        )

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one poll."""
        if reply is None:
            if (
                isinstance(error, APITimeoutError)
                and not isinstance(error, LaneBusyError)
                and sent_of(error) is not False
            ):
                # Some servers hold a poll for minutes; hanging up is how one looks again.
                return Retry(0.0, "pending")
            return self.by_table(None, error)
        status = reply.status
        if status in _NOT_ABOUT_THE_FUTURE:
            return self.by_table(reply, None)
        self._failures = self._conflicts = 0
        if reply.elapsed >= HELD_SECONDS:
            self._pace = FIRST_PACE_SECONDS
        elif self._entry.attempt > 1:
            self._pace = min(LONGEST_PACE_SECONDS, self._pace * 1.5)
        answer = await self._server.runtime.offload(
            len(reply.content), parse, self._op, reply, self._request_id
        )
        if isinstance(answer, Ready):
            self.value = answer.value
            self._server.poll_pace.got_result()
            return ACCEPT
        return await self._not_ready(answer)

    async def _not_ready(self, answer: Outcome) -> Verdict:
        if isinstance(answer, FromElsewhere):
            self._failures = 1
            return self.after_page()
        self._paged_since = None
        if isinstance(answer, Pending):
            now = self.loop.time()
            self._server.in_flight.report(self._entry, answer.queue_state, answer.reason, now)
            self.enters = self.reply is not None and self.reply.elapsed < HELD_SECONDS
            if self._pace > FIRST_PACE_SECONDS or answer.immediate:
                return Retry(self._pace * (0.5 + self.rng.random() / 2), "pending")
            return Retry(0.0, "pending")
        if isinstance(answer, MetadataOnly):
            if self._told_size:
                said = "The server announced the result again where it was asked to send it."
                self._failure = APIResponseValidationError(
                    ReplyParts(200, {}, b"", None), None, said
                )
                return Fail("final")
            self._told_size = True
            await self._server.response_bytes.acquire(answer.size)
            self.held = answer.size
            self._metadata_only = False
            return Retry(0.0, "pending")
        if isinstance(answer, Failed):
            self._failure = answer.error
            return Fail("final")
        assert isinstance(answer, Broken)
        self._broken += 1
        self._failure = answer.error
        if self._broken >= BROKEN_POLLS:
            return Fail("final")
        return back_off(self._broken, self.rng.random(), self.timing, unhealthy=False)

    def failure(self) -> BaseException:
        """What a wait came to that ended without a result."""
        if isinstance(self.verdict, Retry) and not self.out_of_funds():
            return self._late()
        error: BaseException | None = self._failure or self.error
        if error is None:
            reply = self.reply
            assert reply is not None
            error = error_for_status(reply.status, reply.content, reply.headers)
        if isinstance(error, TinkerError):
            error.with_context(
                operation=self._op.name,
                request_id=self._request_id,
                attempts=self._entry.attempt,
                elapsed=self.loop.time() - self._entry.started,
            )
        return error

    def _late(self) -> TinkerError:
        stall = self._server.in_flight.stall_seconds
        return self._entry.late(self.loop.time(), stall, self.told_to_wait())
