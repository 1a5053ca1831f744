"""What crosses the transport: the lanes, a call, a reply, and how an exchange can fail."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import attrs

from tinker_ext._wire.payload import Body
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    APITimeoutError,
    ReplyParts,
)


class Lane(StrEnum):
    """A group of calls with connections of its own, so that no group starves another."""

    SESSION = "session"
    TRAIN = "train"
    SAMPLE = "sample"
    POLL = "poll"
    TELEMETRY = "telemetry"
    REST = "rest"


class RetryRule(StrEnum):
    """Row of the retry table (`retry.RULES`): what may be sent again, and when."""

    READ = "read"
    """Has no effect on the server: anything that may pass is tried again."""
    DEDUPE = "dedupe"
    """Has an effect, and the server recognises a repeated number or key."""
    UNSAFE = "unsafe"
    """Has an effect, and a repeat would have it twice: sent again only if it surely did nothing."""
    FINAL409 = "final409"
    """Like DEDUPE, but a conflict is the answer (publish, unpublish, a name already taken)."""
    POLL = "poll"
    """Waits for a future: 408 is an answer ("not yet"), everything else as READ."""
    ONCE = "once"
    """Never sent again (heartbeat, telemetry)."""


class Owner(Protocol):
    """A call of the user in flight; see `tinker_ext.core.in_flight.Entry`."""

    number: int

    def retried(self, cause: str) -> None:
        """Note that a request is to be sent again."""


@attrs.define
class Call:
    """One operation as it goes out; made by position where there is one for every sample.

    Attributes:
        operation: Name used in errors and events, for example `forward_backward`.
        method: HTTP method.
        path: Path below the base URL, with its query.
        content: Encoded body, or None.
        headers: Headers of this call only; they replace common ones of the same name.
        numbers: Header lines that differ with every attempt, each ending in CRLF; their values are
            numbers of ours, so nothing in them needs a check.
        lane: Which connections carry it.
        timeout: Seconds one attempt may take once it has a connection.
        retry: Row of the retry table.
        idempotency_key: Sent as X-Idempotency-Key on every attempt; made up when None.
        redirect_is_answer: Hand a 3xx back as the reply (checkpoint archive) instead of failing.
        max_reply_bytes: Most bytes the reply may have, when the lane's limit does not fit.
    """

    operation: str
    method: str
    path: str
    content: bytes | Body | None = attrs.field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    numbers: str = ""
    lane: str = Lane.REST
    timeout: float = 60.0
    retry: RetryRule = RetryRule.READ
    idempotency_key: str | None = None
    redirect_is_answer: bool = False
    max_reply_bytes: int | None = None


@attrs.define
class Reply:
    """What the server answered.

    Attributes:
        status: HTTP status.
        headers: Lower-case names; a repeated header is joined with ", ".
        content: The body, unpacked.
        elapsed: Seconds from the start of the attempt to the last byte.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(repr=False)
    content: bytes = attrs.field(repr=False)
    elapsed: float = 0.0


Sent = bool | None


class ExchangeError(APIConnectionError):
    """No usable reply came back.

    Attributes:
        sent: Whether the request reached the server: False no, True yes, None unknown.
    """

    def __init__(self, message: str, sent: Sent = None) -> None:
        super().__init__(None, message)
        self.sent = sent


class ConnectError(ExchangeError):
    """No connection could be opened (name, network, refusal or TLS); nothing was sent."""

    def __init__(self, message: str, sent: Sent = False) -> None:
        super().__init__(message, sent)


class ConnectionLostError(ExchangeError):
    """The connection ended before any byte of the answer."""


class MalformedReplyError(ExchangeError):
    """What came back is not a complete HTTP reply: garbage, cut short, or of another length."""

    def __init__(self, message: str, sent: Sent = True) -> None:
        super().__init__(message, sent)


class UnreadableReplyError(MalformedReplyError):
    """A reply came, but cannot be unpacked: damaged, or packed in a way nobody asked for."""

    default_hint = "Something on the way (a proxy?) changes replies; look at its settings."


class ExchangeTimeoutError(APITimeoutError):
    """The exchange did not finish within its time.

    Attributes:
        sent: Whether the request reached the server: False no, True yes, None unknown.
    """

    def __init__(self, message: str = "Request timed out.", sent: Sent = None) -> None:
        super().__init__(None, message)
        self.sent = sent


class LaneBusyError(ExchangeTimeoutError):
    """All connections of the lane stayed busy until the deadline; nothing was sent."""

    default_hint = "Send less at once, or allow the lane more connections."

    def __init__(self, message: str, sent: Sent = False) -> None:
        super().__init__(message, sent)


class ReplyTooLargeError(APIResponseValidationError):
    """The reply, or what it unpacks to, exceeds the allowed size; it was not kept."""

    default_hint = "If the reply is honest, raise the size limit of the configuration."

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(ReplyParts(status, {}, b"", None), None, message)


class RedirectRefusedError(APIConnectionError):
    """The server answered with a redirect that must not be followed.

    The API key belongs to one origin, and a request with a body is never sent elsewhere.
    """

    default_hint = "Set the base URL to the final address of the server."

    def __init__(self, message: str, status: int = 302) -> None:
        super().__init__(None, message)
        self.status_code = status
        self.sent: Sent = True


def sent_of(error: BaseException) -> Sent:
    """Tell whether the failed request reached the server; unknown unless the error says so."""
    value = getattr(error, "sent", None)
    return value if isinstance(value, bool) else None
