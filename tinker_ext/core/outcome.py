"""What one reply of retrieve_future means: a pure decision from status, type and body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import orjson

from tinker_ext._reply_parts import ReplyParts
from tinker_ext.errors import (
    APIResponseValidationError,
    FutureExpiredError,
    RequestFailedError,
    TinkerError,
    error_for_status,
)


class Decoder(Protocol):
    """Reads the result that the caller expects."""

    name: str

    def from_json(self, body: Any) -> Any:
        """Build the result from decoded JSON; raises ValueError, KeyError or TypeError."""

    def from_proto(self, content: bytes) -> Any:
        """Build the result from protobuf bytes; raises ValueError."""


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
    """The server does not have the result (any more)."""

    error: FutureExpiredError


@attrs.frozen
class BillingPause:
    """The account cannot pay now; ask again in a while."""


@attrs.frozen
class RetryLater:
    """The poll itself failed; ask again after a pause."""

    status: int


@attrs.frozen
class Broken:
    """The reply cannot be read as what was asked for."""

    error: APIResponseValidationError


Outcome = Pending | MetadataOnly | Ready | Failed | Expired | BillingPause | RetryLater | Broken

_PROTOBUF = "application/x-protobuf"
_BAD_BODY = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


def parse(
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    decoder: Decoder,
    request_id: str,
) -> Outcome:
    """Decide what a reply to retrieve_future means.

    Args:
        status: HTTP status.
        headers: Response headers with lower-case names.
        content: Body, decompressed.
        decoder: Reader of the result the caller expects.
        request_id: The future asked for.

    Returns:
        One of the outcomes of this module; never raises for anything a server can send.
    """
    if 200 <= status < 300:
        return _success(status, headers, content, decoder, request_id)
    if status == 408:
        return _pending(_mapping(content))
    if status in (404, 410):
        return Expired(_expired(status, content, request_id))
    if status == 402:
        return BillingPause()
    if status == 400:
        return _refused(headers, content, request_id)
    if status == 429 or status >= 500:
        return RetryLater(status)
    return Failed(
        error_for_status(
            status, content, headers, operation="retrieve_future", request_id=request_id
        )
    )


def _success(
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    decoder: Decoder,
    request_id: str,
) -> Outcome:
    try:
        if _PROTOBUF in headers.get("content-type", ""):
            return Ready(decoder.from_proto(content))
        body = orjson.loads(content)
        if isinstance(body, dict):
            if body.get("type") == "try_again":
                return _pending(body, immediate=True)
            if body.get("status") == "complete_metadata":
                return MetadataOnly(_size(body))
            if "error" in body:
                return Failed(_failure(body, request_id))
        return Ready(decoder.from_json(body))
    except _BAD_BODY as error:
        return Broken(broken(status, headers, content, decoder.name, request_id, error))


def broken(
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    expected: str,
    request_id: str | None,
    cause: Exception,
) -> APIResponseValidationError:
    """The error for a reply that cannot be read, with the start of its body."""
    said = content[:200].decode("utf-8", "replace")
    why = str(cause)[:300]
    error = APIResponseValidationError(
        ReplyParts.of(status, headers, content[:2000], None),
        said,
        f"The reply does not read as {expected}: {type(cause).__name__}: {why}. "
        f"It starts with {said!r}.",
    )
    error.__cause__ = cause
    return error.with_context(request_id=request_id)


def _pending(body: Mapping[str, Any], *, immediate: bool = False) -> Pending:
    state = body.get("queue_state")
    reason = body.get("queue_state_reason")
    return Pending(
        state if isinstance(state, str) else None,
        reason if isinstance(reason, str) else None,
        immediate,
    )


def _size(body: Mapping[str, Any]) -> int:
    size = body.get("response_payload_size")
    return size if type(size) is int and 0 <= size < 1 << 40 else 0


def _failure(body: Mapping[str, Any], request_id: str) -> RequestFailedError:
    said = body["error"]
    category = body.get("category")
    return RequestFailedError(
        said if isinstance(said, str) else "the server gave no reason",
        request_id,
        category if isinstance(category, str) else "unknown",
    )


def _refused(headers: Mapping[str, str], content: bytes, request_id: str) -> Outcome:
    if not content:
        # A 400 without a body comes from a proxy in between, not from the API.
        return RetryLater(400)
    body = _mapping(content)
    detail = body.get("detail", body.get("error"))
    if isinstance(detail, str):
        # SkyRL reports a failed request this way; the message is all it says.
        return Failed(RequestFailedError(detail, request_id, str(body.get("category", "unknown"))))
    return Failed(
        error_for_status(400, content, headers, operation="retrieve_future", request_id=request_id)
    )


def _expired(status: int, content: bytes, request_id: str) -> FutureExpiredError:
    detail = _mapping(content).get("detail")
    said = f": {detail}" if isinstance(detail, str) else ""
    what = "no longer has" if status == 410 else "does not know"
    error = FutureExpiredError(f"The server {what} the result of this request ({status}{said}).")
    return error.with_context(request_id=request_id)


def _mapping(content: bytes) -> Mapping[str, Any]:
    try:
        body = orjson.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
