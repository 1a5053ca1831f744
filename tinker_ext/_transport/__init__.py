"""The way to a server: connections, lanes, retries, limits and what can be observed of them."""

from __future__ import annotations

import tinker_ext._statuses as statuses
from tinker_ext._transport.connection import Connection
from tinker_ext._transport.events import LoggingObserver, Observer, Observers
from tinker_ext._transport.limits import (
    AdaptiveLimit,
    Alarms,
    ByteBudget,
    Cancellable,
    FairQueue,
    PollPace,
    SampleLimit,
    SharedBackoff,
    shared_backoff,
)
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeError,
    ExchangeTimeoutError,
    Lane,
    LaneBusyError,
    MalformedReplyError,
    RedirectRefusedError,
    Reply,
    ReplyTooLargeError,
    RetryRule,
    UnreadableReplyError,
    sent_of,
)
from tinker_ext._transport.pool import LaneSettings, Pool
from tinker_ext._transport.retry import (
    Accept,
    Attempts,
    Fail,
    Retry,
    RetryTokens,
    Timing,
    Verdict,
    is_passing,
    may_have_acted,
    shared_tokens,
    verdict,
)
from tinker_ext.auth import Credentials

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
    "PollPace",
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
