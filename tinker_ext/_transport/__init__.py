"""The way to a server: connections, lanes, retries, limits and what can be observed of them."""

from __future__ import annotations

from tinker_ext._transport.alarms import Alarms, Cancellable
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
from tinker_ext._transport.gate import RetryBudget, shared_budget
from tinker_ext._transport.headers import Credentials
from tinker_ext._transport.http import HttpTransport
from tinker_ext._transport.lanes import Connection
from tinker_ext._transport.limits import (
    AdaptiveLimit,
    ByteBudget,
    FairQueue,
    SampleLimit,
    SharedBackoff,
    shared_backoff,
)
from tinker_ext._transport.messages import Call, Lane, Reply, RetryRule
from tinker_ext._transport.observe import LoggingObserver, Observer, Observers
from tinker_ext._transport.ports import LaneSettings
from tinker_ext._transport.retry import Accept, Fail, Retry, verdict

__all__ = [
    "Accept",
    "AdaptiveLimit",
    "Alarms",
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
    "HttpTransport",
    "Lane",
    "LaneBusyError",
    "LaneSettings",
    "LoggingObserver",
    "MalformedReplyError",
    "Observer",
    "Observers",
    "RedirectRefusedError",
    "Reply",
    "ReplyTooLargeError",
    "Retry",
    "RetryBudget",
    "RetryRule",
    "SampleLimit",
    "SharedBackoff",
    "UnreadableReplyError",
    "sent_of",
    "shared_backoff",
    "shared_budget",
    "verdict",
]
