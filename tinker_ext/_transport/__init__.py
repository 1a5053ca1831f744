"""The way to a server: connections, lanes, retries, limits and what can be observed of them."""

from __future__ import annotations

from tinker_ext._transport import statuses
from tinker_ext._transport.connection import Connection
from tinker_ext._transport.events import LoggingObserver, Observer, Observers
from tinker_ext._transport.faults import (
    ConnectError,
    ConnectionLostError,
    ExchangeError,
    ExchangeTimeoutError,
    LaneBusyError,
    MalformedReplyError,
    RedirectRefusedError,
    ReplyTooLargeError,
    UnreadableReplyError,
    sent_of,
)
from tinker_ext._transport.headers import Credentials
from tinker_ext._transport.limits import (
    AdaptiveLimit,
    Alarms,
    ByteBudget,
    Cancellable,
    FairQueue,
    SampleLimit,
    SharedBackoff,
    shared_backoff,
)
from tinker_ext._transport.messages import Call, Lane, Reply, RetryRule
from tinker_ext._transport.pool import LaneSettings, Pool
from tinker_ext._transport.retry import (
    Accept,
    Attempts,
    Fail,
    Retry,
    Timing,
    Verdict,
    is_passing,
    may_have_acted,
    verdict,
)
from tinker_ext._transport.tokens import RetryTokens, shared_tokens

__all__ = [
    "Accept",
    "AdaptiveLimit",
    "Alarms",
    "Attempts",
    "ByteBudget",
    "Call",
    "Cancellable",
    "ConnectError",
    "Connection",
    "ConnectionLostError",
    "Credentials",
    "ExchangeError",
    "ExchangeTimeoutError",
    "Fail",
    "FairQueue",
    "Lane",
    "LaneBusyError",
    "LaneSettings",
    "LoggingObserver",
    "MalformedReplyError",
    "Observer",
    "Observers",
    "Pool",
    "RedirectRefusedError",
    "Reply",
    "ReplyTooLargeError",
    "Retry",
    "RetryRule",
    "RetryTokens",
    "SampleLimit",
    "SharedBackoff",
    "Timing",
    "UnreadableReplyError",
    "Verdict",
    "is_passing",
    "may_have_acted",
    "sent_of",
    "shared_backoff",
    "shared_tokens",
    "statuses",
    "verdict",
]
