"""What one reply of retrieve_future means: a pure decision from status, type and body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
import orjson
from tinker_api.errors import ApiError
from tinker_api.models import FutureMetadataOnly, RequestFailedResponse, TryAgainResponse
from tinker_api.operations import Operation

from tinker_ext._transport import Reply, statuses
from tinker_ext._wire import results
from tinker_ext.core.server import unreadable
from tinker_ext.errors import (
    APIResponseValidationError,
    FutureExpiredError,
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


@attrs.frozen
class Ready:
    """Done; here is the result."""

    value: Any


@attrs.frozen
class Failed:
    """Done; the request failed, and asking again will not help."""

    error: TinkerError


@attrs.frozen
class Expired:
    """The server does not have the result any more."""

    error: FutureExpiredError


@attrs.frozen
class FromElsewhere:
    """The reply was not written by the server: a gateway's page, or nothing at all."""

    status: int


@attrs.frozen
class Broken:
    """The reply cannot be read as what was asked for."""

    error: APIResponseValidationError


Outcome = Pending | MetadataOnly | Ready | Failed | Expired | FromElsewhere | Broken

_FUTURE = re.compile(r"\b(future|promise|request)s?\b", re.IGNORECASE)
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
    """Decide what a reply to retrieve_future means, when the poll itself did not fail.

    Args:
        op: The operation whose result is awaited.
        reply: A reply with a status below 500 that is not a refusal for now (402, 429).
        request_id: The future asked for.

    Returns:
        One of the outcomes of this module; never raises for anything a server can send.
    """
    status = reply.status
    if statuses.accepted(status):
        return _success(op, reply, request_id)
    body = _mapping(reply.content)
    if status == statuses.NOT_YET:
        return _pending(body or {})
    if status == statuses.GONE:
        return Expired(_expired(status, body or {}, request_id))
    if body is None:
        return FromElsewhere(status)
    detail = body.get("detail", body.get("error"))
    if status == 404 and isinstance(detail, str) and _is_about_future(detail, request_id):
        return Expired(_expired(status, body, request_id))
    if status == 400 and isinstance(detail, str):
        # SkyRL reports a failed request this way; the message is all it says.
        return Failed(RequestFailedError(detail, request_id, str(body.get("category", "unknown"))))
    return Failed(
        error_for_status(
            status,
            reply.content,
            reply.headers,
            operation="retrieve_future",
            request_id=request_id,
        )
    )


def _success(op: Operation[Any, Any], reply: Reply, request_id: str) -> Outcome:
    kind = reply.headers.get("content-type", "")
    try:
        if _PROTOBUF in kind:
            return Ready(results.read_proto(op, reply.content))
        if "html" in kind:
            return FromElsewhere(reply.status)
        value = results.read_json(op, orjson.loads(reply.content))
    except _BAD_BODY as error:
        return Broken(unreadable(reply, op.result or op.name, request_id, error))
    if isinstance(value, TryAgainResponse):
        return _pending(value.to_dict(), immediate=True)
    if isinstance(value, FutureMetadataOnly):
        size: Any = value.response_payload_size
        return MetadataOnly(size if type(size) is int and 0 <= size < 1 << 40 else 0)
    if isinstance(value, RequestFailedResponse):
        return Failed(_failure(value.to_dict(), request_id))
    return Ready(value)


def _pending(body: Mapping[str, Any], *, immediate: bool = False) -> Pending:
    state = body.get("queue_state")
    reason = body.get("queue_state_reason")
    return Pending(
        state if isinstance(state, str) else None,
        reason if isinstance(reason, str) else None,
        immediate,
    )


def _failure(body: Mapping[str, Any], request_id: str) -> RequestFailedError:
    said = body.get("error")
    category = body.get("category")
    return RequestFailedError(
        said if isinstance(said, str) else "the server gave no reason",
        request_id,
        category if isinstance(category, str) else "unknown",
    )


def _is_about_future(detail: str, request_id: str) -> bool:
    """Whether a 404 means the future itself, and not something that its request named."""
    return request_id in detail or _FUTURE.search(detail) is not None


def _expired(status: int, body: Mapping[str, Any], request_id: str) -> FutureExpiredError:
    detail = body.get("detail")
    said = f": {detail}" if isinstance(detail, str) else ""
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
