"""The one retry loop, and the table it obeys: what may be sent again, when, and after how long.

`verdict` is a pure function of what happened to one attempt. `Attempts` is one request from its
first attempt to its end; a kind of request with rules of its own (a poll, a numbered training
request, a sample) is a subclass that judges differently. `run` is the loop, on tenacity, and
`_pause` is the only place where anything waits between two attempts.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Protocol

import attrs
import tenacity
from tenacity.stop import stop_base
from tenacity.wait import wait_base

import tinker_ext._statuses as statuses
from tinker_ext._transport.limits import RetryTokens
from tinker_ext._transport.messages import (
    Owner,
    RedirectRefusedError,
    Reply,
    RetryRule,
    UnreadableReplyError,
    sent_of,
)
from tinker_ext.errors import (
    APIConnectionError,
    APIStatusError,
    TinkerError,
    error_for_status,
    is_page,
)

# As the official clients wait: back-off of 0.5 s doubling to 10 s, delays named by the server up to
# 60 s, 5 s per 402. The first retry after a lost connection or a 5xx is nearly immediate.
FIRST_RETRY_SPREAD = 0.05
SHORTEST_NAMED = 0.05
"""A server that names less than this is asked again no sooner, and ever later while it refuses."""
TINY_DOUBLINGS = 3
NAMED_SPREAD = 0.2
"""Part of a named delay that is added at random, so that clients do not come back in step."""
BILLING_PAUSE = 5.0
CONFLICTS = 4
"""So many 409 to one request are the server's answer, and not a gateway in the way."""
UNREADABLE_ATTEMPTS = 3
"""A reply that cannot be unpacked this often will not be better the next time."""


@attrs.frozen
class Timing:
    """Seconds the table works with, and how often one request may be sent at most.

    Attributes:
        base: First ceiling of the exponential back-off.
        cap: Highest ceiling.
        server_cap: Longest delay accepted from a server.
        window: No attempt starts later than this after the first, unless the caller says so.
        first_window: When a server that has never answered is given up.
        billing: How long 402 is waited out.
        attempts: Most attempts; None leaves it to the window.
    """

    base: float = 0.5
    cap: float = 10.0
    server_cap: float = 60.0
    window: float = 300.0
    first_window: float = 6.0
    billing: float = 3600.0
    attempts: int | None = None


DEFAULT_TIMING = Timing()


@attrs.frozen
class Rule:
    """One row of the table.

    Attributes:
        statuses: Statuses below 500 that are tried again.
        repeats: Whether what may have taken effect is: a status of 500 and above, a lost answer.
        answers: Statuses outside 2xx that are a normal answer.
        never: Nothing is tried again, whatever the server says.
    """

    statuses: frozenset[int] = frozenset()
    repeats: bool = True
    answers: frozenset[int] = frozenset()
    never: bool = False


RULES: Mapping[RetryRule, Rule] = {
    RetryRule.READ: Rule(frozenset({402, 408, 409, 429})),
    RetryRule.DEDUPE: Rule(frozenset({402, 408, 409, 429})),
    # 402 and 429 are refusals, so the work was not begun; a 5xx or 408 may come after the effect.
    RetryRule.UNSAFE: Rule(statuses.REFUSED_FOR_NOW, repeats=False),
    RetryRule.FINAL409: Rule(frozenset({402, 408, 429})),
    # A 409 to a poll that stays is the server's answer: it refused what the poll asks about.
    RetryRule.POLL: Rule(frozenset({402, 409, 429}), answers=frozenset({408})),
    RetryRule.ONCE: Rule(repeats=False, never=True),
}


@attrs.frozen
class Accept:
    """The reply is the answer."""


@attrs.frozen
class Fail:
    """Trying again is of no use, not allowed, or not safe.

    Attributes:
        reason: `final` for this status or error, `forbidden` by x-should-retry, `unsafe` because
            the work may have been done.
    """

    reason: str


@attrs.frozen
class Retry:
    """Send the same request again.

    Attributes:
        delay: Seconds to wait first.
        source: Who chose the delay: `retry-after-ms`, `retry-after`, `date`, `billing`,
            `immediate`, `backoff`, `pending` for a poll that was answered "not yet", or
            `resubmit` for a sample that failed; the last two have a pace of their own.
        unhealthy: The failure speaks of an unwell server, so only probes may leave.
    """

    delay: float
    source: str
    unhealthy: bool = False

    @property
    def ours(self) -> bool:
        """Whether the delay is our own choice, and may be cut short."""
        return self.source in ("immediate", "backoff", "pending", "resubmit")

    @property
    def named(self) -> bool:
        """Whether the server named the delay."""
        return self.source in ("retry-after-ms", "retry-after", "date")


Verdict = Accept | Fail | Retry

ACCEPT = Accept()
_NO_HEADERS: Mapping[str, str] = {}


def verdict(
    rule: RetryRule,
    *,
    status: int | None = None,
    error: BaseException | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    attempt: int = 1,
    sent: bool | None = None,
    jitter: float = 0.5,
    now: datetime | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> Verdict:
    """Decide what follows an attempt.

    Args:
        rule: Row of the table.
        status: Status of the reply, or None without one.
        error: The failure when there was no reply.
        headers: Headers of the reply, lower case.
        attempt: How many times the request has failed in a row, this time included.
        sent: For a failure without a reply: False only when surely nothing left this machine.
        jitter: A random number in [0, 1).
        now: Present time for a Retry-After date, when the reply has no Date header.
        timing: Base and caps of the delays.

    Example:
        >>> verdict(RetryRule.READ, status=429, headers={"retry-after-ms": "500"}, jitter=0.0)
        Retry(delay=0.5, source='retry-after-ms', unhealthy=False)
    """
    row = RULES[rule]
    if status is None:
        passing = isinstance(error, APIConnectionError | TimeoutError | OSError)
        if row.never or not passing or isinstance(error, RedirectRefusedError):
            return Fail("final")
        if isinstance(error, UnreadableReplyError) and attempt >= UNREADABLE_ATTEMPTS:
            return Fail("final")
        if not row.repeats and sent is not False:
            return Fail("unsafe")
        return back_off(attempt, jitter, timing, unhealthy=True)
    if status in statuses.ACCEPTED or status in row.answers:
        return ACCEPT
    if row.never:
        return Fail("final")
    wish = headers.get("x-should-retry")
    if wish == "false":
        return Fail("forbidden")
    unhealthy = status in statuses.FAILED
    allowed = row.repeats if unhealthy else status in row.statuses
    # Where a repeat would have its effect twice, a server may forbid one and never allow it.
    if not allowed and (wish != "true" or not row.repeats):
        return Fail("unsafe" if status in statuses.MAY_HAVE_ACTED else "final")
    named = server_delay(headers, now, timing.server_cap)
    if named is not None:
        delay = min(named[0] * (1.0 + NAMED_SPREAD * jitter), timing.server_cap)
        shortest = SHORTEST_NAMED
        if named[0] < shortest:
            shortest *= 2 ** min(attempt - 1, TINY_DOUBLINGS)
        return Retry(max(delay, shortest * (1.0 + jitter)), named[1], unhealthy)
    if status == statuses.UNPAID:
        return Retry(BILLING_PAUSE, "billing")
    return back_off(attempt, jitter, timing, unhealthy=unhealthy)


def back_off(attempt: int, jitter: float, timing: Timing, *, unhealthy: bool) -> Retry:
    """Full jitter: anything between nothing and an exponentially growing ceiling."""
    if unhealthy and attempt == 1:
        return Retry(FIRST_RETRY_SPREAD * jitter, "immediate", unhealthy)
    exponent = min(attempt - (2 if unhealthy else 1), 16)
    return Retry(jitter * min(timing.cap, timing.base * 2**exponent), "backoff", unhealthy)


def server_delay(
    headers: Mapping[str, str], now: datetime | None = None, cap: float = 60.0
) -> tuple[float, str] | None:
    """Return the delay the server names, at most `cap`, and where it was read; None without one."""
    milliseconds = _positive(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000.0, cap), "retry-after-ms"
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _positive(text)
    if seconds is not None:
        return min(seconds, cap), "retry-after"
    when = _date(text)
    if when is None:
        return None
    # The server's own clock, where it shows it, makes both sides mean the same instant.
    present = _date(headers.get("date", "")) or now or datetime.now(UTC)
    try:
        seconds = (when - present).total_seconds()
    except (OverflowError, TypeError):
        return None
    return (min(seconds, cap), "date") if seconds > 0 else None


def _positive(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else 0.0
    except ValueError:
        return None
    return value if value > 0 else None  # also refuses NaN


def _date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
        return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None  # a year or an offset that no calendar has, among others


def is_gateway_page(reply: Reply) -> bool:
    """Whether "no such endpoint" was said by a gateway and not by the server."""
    return (
        reply.status in statuses.MISSING
        and is_page(reply.content)
        and reply.headers.get("x-should-retry") != "false"
    )


def may_have_acted(error: BaseException) -> bool:
    """Whether a request may have had its effect although it failed: the one answer to that.

    An error whose `in_doubt` is set tells about an earlier attempt, whatever the last one came to.
    Anything that is not an error of the exchange counts as sent, unless it says that it was not.
    """
    if isinstance(error, TinkerError) and error.in_doubt and is_passing(error):
        return True
    if isinstance(error, RedirectRefusedError):
        return False  # a server that sends elsewhere does not do the work itself
    if isinstance(error, APIStatusError):
        return error.status_code in statuses.MAY_HAVE_ACTED
    return sent_of(error) is not False


def is_passing(error: BaseException) -> bool:
    """Whether the same request may well succeed later."""
    if isinstance(error, APIStatusError):
        status = error.status_code
        return status in statuses.PASSING or (status in statuses.MISSING and is_page(error.body))
    return isinstance(error, APIConnectionError) and not isinstance(error, RedirectRefusedError)


class Judged(Protocol):
    """What the loop asks about something that is tried more than once."""

    verdict: Verdict

    def delay(self) -> float | None:
        """How long to wait now, or None when waiting is of no use."""

    def exhausted(self) -> bool:
        """Whether it was tried as often as allowed."""


class Attempts:
    """One request from its first attempt to its end; this one obeys its row of the table."""

    # What most requests never change stands here alone: two of these are made for every sample.

    passing_pages = False
    """Whether "no such endpoint" on a web page is a gateway's passing error, because the server is
    known to have the endpoint."""
    reply: Reply | None = None
    """What the last attempt brought, if anything."""
    error: Exception | None = None
    """What the last attempt failed with."""
    verdict: Verdict = ACCEPT
    """What follows from it."""
    in_doubt = False
    """Whether an attempt before the last one may have taken effect."""
    enters = False
    """Whether an attempt needs more than a connection, for which `enter` waits."""
    sent = False
    """Whether a byte of it may have left this machine."""
    owner: Owner | None = None
    """The call in flight that it is sent for; told when it is sent again."""
    ask_unpaid: Callable[[], Awaitable[Timing]] | None = None
    """Asked at the first 402 how long the server lets clients wait for money."""
    pending: Callable[[Reply], float | None] | None = None
    """Says in how many seconds to ask again, when a reply is not the answer yet."""
    _failures = 0
    _conflicts = 0
    _billed_until: float | None = None
    _paged_since: float | None = None

    def __init__(
        self,
        operation: str,
        lane: str,
        rule: RetryRule,
        deadline: float,
        timing: Timing,
        rng: random.Random,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.operation = operation
        """Name for errors, logs and events."""
        self.lane = lane
        self.rule = rule
        self.deadline = deadline
        """Loop time after which nothing is sent and nobody waits."""
        self.timing = timing
        self.rng = rng
        self.loop = loop = loop or asyncio.get_running_loop()
        self.began = loop.time()
        self.give_up_by = math.inf
        """Loop time when the request ends at a server that has never answered."""
        self.count = 0
        """How often the request was sent."""
        self.taken = False
        """Whether `enter` took something that `leave` gives back."""

    # -- what a kind of request may do differently -----------------------------------------

    async def enter(self) -> None:
        """Wait for whatever an attempt needs beside a connection."""

    def leave(self) -> None:
        """Give back what `enter` took."""

    async def judge(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """Decide what follows from one attempt."""
        if self.ask_unpaid and reply is not None and reply.status == statuses.UNPAID:
            ask, self.ask_unpaid = self.ask_unpaid, None
            self.timing = await ask()
        told = self.by_table(reply, error)
        if self.pending is None or reply is None or told is not ACCEPT:
            return told
        pause = self.pending(reply)
        return told if pause is None else Retry(pause, "pending")

    # -- the table -------------------------------------------------------------------------

    def by_table(self, reply: Reply | None, error: Exception | None) -> Verdict:
        """What the row of the table says about one attempt."""
        if reply is not None and reply.status in statuses.ACCEPTED:
            self._failures = 0
            return ACCEPT
        self._failures += 1
        if reply is not None and self.passing_pages and is_gateway_page(reply):
            return self.after_page()
        self._paged_since = None
        failures = self._failures
        if reply is not None and reply.status == statuses.CONFLICT:
            # An answer of a server that is well: a loss after it is the first in a row.
            self._failures = 0
            failures = self._conflicts = self._conflicts + 1
            if failures >= CONFLICTS:
                return Fail("final")
        return verdict(
            self.rule,
            status=None if reply is None else reply.status,
            error=error,
            headers=_NO_HEADERS if reply is None else reply.headers,
            attempt=failures,
            sent=None if error is None else sent_of(error),
            jitter=self.rng.random(),
            timing=self.timing,
        )

    def after_page(self) -> Verdict:
        """A gateway's page says nothing about the request; it is sent again for a while."""
        now = self.loop.time()
        if self._paged_since is None:
            self._paged_since = now
        if now - self._paged_since >= self.timing.window:
            return Fail("final")
        return back_off(self._failures, self.rng.random(), self.timing, unhealthy=False)

    def take(self, reply: Reply | None, error: Exception | None) -> Awaitable[Verdict]:
        """Note what an attempt came to; gives the judgement on it, which becomes `verdict`."""
        if self.reply is not None:  # that of the attempt before this one
            self.in_doubt = self.in_doubt or self.reply.status in statuses.MAY_HAVE_ACTED
        elif self.error is not None:
            self.in_doubt = self.in_doubt or may_have_acted(self.error)
        self.count += 1
        self.reply, self.error = reply, error
        return self.judge(reply, error)

    @property
    def end(self) -> float:
        """Loop time after which nothing is sent and nobody waits."""
        return min(self.deadline, self.give_up_by)

    @property
    def elapsed(self) -> float:
        """Seconds since the first attempt was asked for."""
        return self.loop.time() - self.began

    def delay(self) -> float | None:
        """How long to wait now, or None when waiting is of no use."""
        last = self.verdict
        left = self.end - self.loop.time()
        if not isinstance(last, Retry) or left <= 0.0:
            return None
        if last.delay < left:
            return last.delay
        # A delay of our own choice may shrink to leave time for one more attempt; a named one not.
        return left / 2 if last.ours and left > 2 * FIRST_RETRY_SPREAD else None

    def told_to_wait(self) -> str:
        """What the server said when it asked for more time than is left; empty if it did not."""
        reply, last = self.reply, self.verdict
        if reply is None or not isinstance(last, Retry) or last.source == "pending":
            return ""
        return error_for_status(reply.status, reply.content, reply.headers).message

    def exhausted(self) -> bool:
        """Whether it was sent as often as allowed, or 402 was waited out for long enough."""
        most = self.timing.attempts
        return (most is not None and self.count >= most) or self.out_of_funds()

    def out_of_funds(self) -> bool:
        """Whether 402 was waited out for as long as that is worth."""
        if not (isinstance(self.verdict, Retry) and self.verdict.source == "billing"):
            return False
        now = self.loop.time()
        if self._billed_until is None:
            self._billed_until = now + self.timing.billing
        return now >= self._billed_until


class retry_if_passing(tenacity.retry_base):
    """Goes on as long as the verdict on the last attempt says so."""

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        """Look at the attempts that the loop carries."""
        return isinstance(_carried(state).verdict, Retry)


class stop_at_limits(stop_base):
    """Stops at the deadline, at the most attempts, and when a bill stays unpaid for too long."""

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        """Look at the attempts that the loop carries."""
        return _carried(state).exhausted() or _carried(state).delay() is None


class wait_as_judged(wait_base):
    """Waits as long as the verdict says: the server's delay, or jittered exponential back-off."""

    def __call__(self, state: tenacity.RetryCallState) -> float:
        """Look at the attempts that the loop carries."""
        return _carried(state).delay() or 0.0


def _carried(state: tenacity.RetryCallState) -> Judged:
    assert state.outcome is not None
    attempts: Judged = state.outcome.result()
    return attempts


_POLICY: Any = {
    "retry": retry_if_passing(),
    "stop": stop_at_limits(),
    "wait": wait_as_judged(),
    "retry_error_callback": _carried,
}


def run_blocking(judged: Judged, step: Callable[[], None]) -> None:
    """Make attempts in the caller's thread, until the verdict is final or a limit is reached."""

    def once() -> Judged:
        step()
        return judged

    tenacity.Retrying(**_POLICY)(once)


async def run(
    attempts: Attempts,
    again: Callable[[], Awaitable[None]],
    *,
    tokens: RetryTokens | None = None,
    on_retry: Callable[[Attempts], None] | None = None,
) -> None:
    """Go on after a first attempt, until the verdict is final or a limit is reached.

    `again` makes one more and has `attempts` take note of it; `on_retry` is told before each wait.
    `tokens` are shared by everybody who talks to this server; None where the verdicts alone say
    when to go on.
    """
    first = True

    async def step() -> Attempts:
        nonlocal first
        if first:
            first = False
        elif attempts.loop.time() < attempts.end:
            await again()
        return attempts

    await tenacity.AsyncRetrying(**_POLICY, sleep=partial(_pause, attempts, tokens, on_retry))(step)


async def _pause(
    attempts: Attempts,
    tokens: RetryTokens | None,
    on_retry: Callable[[Attempts], None] | None,
    delay: float,
) -> None:
    """Wait between two attempts; nothing else in the package does."""
    last: Any = attempts.verdict
    if on_retry is not None:
        on_retry(attempts)
    if tokens is None:
        await asyncio.sleep(delay)
        return
    # On an unhealthy lane the line of probes replaces a delay of our own; a named one is kept.
    if not (last.unhealthy and last.ours and tokens.unhealthy(attempts.lane)):
        await asyncio.sleep(delay)
    if last.unhealthy:
        await tokens.probe(attempts.lane, attempts.deadline)
    elif last.source not in ("pending", "resubmit"):
        left = max(0.0, attempts.end - attempts.loop.time())
        await asyncio.sleep(min(tokens.reserve(), left))
