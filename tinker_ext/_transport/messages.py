"""What crosses the transport: the lanes, a call going out and a reply coming back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import attrs

from tinker_ext._wire.payload import Body


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


@attrs.frozen(slots=True)
class Call:
    """One operation as it goes out.

    Attributes:
        operation: Name used in errors and events, for example `forward_backward`.
        method: HTTP method.
        path: Path below the base URL, with its query.
        content: Encoded body, or None.
        headers: Headers of this call only; they replace common ones of the same name.
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
    lane: str = Lane.REST
    timeout: float = 60.0
    retry: RetryRule = RetryRule.READ
    idempotency_key: str | None = None
    redirect_is_answer: bool = False
    max_reply_bytes: int | None = None


@attrs.frozen(slots=True)
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
