"""The one retry table: whether a failed attempt may be sent again, and after how long.

`verdict` is a pure function of what happened; `run` is the loop (tenacity) that obeys it within a
deadline and under the shared budget of `gate.py`. Nothing else in the package retries a request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import attrs
import tenacity

from tinker_ext._transport.faults import RedirectRefusedError, UnreadableReplyError, sent_of
from tinker_ext._transport.messages import Lane, Reply, RetryRule
from tinker_ext.errors import APIConnectionError

if TYPE_CHECKING:
    from tinker_ext._transport.gate import RetryBudget

# As the official clients wait: back-off of 0.5 s doubling to 10 s, delays named by the server up to
# 60 s, 5 s per 402. The first retry after a lost connection or a 5xx is nearly immediate.
FIRST_RETRY_SPREAD = 0.05
BILLING_PAUSE = 5.0
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
        billing: How long 402 is waited out.
        attempts: Most attempts; None leaves it to the window. Probes of a sick server (`gate.py`)
            are rationed already and do not count, or a short outage would use them all up.
    """

    base: float = 0.5
    cap: float = 10.0
    server_cap: float = 60.0
    window: float = 300.0
    billing: float = 3600.0
    attempts: int | None = None


DEFAULT_TIMING = Timing()


@attrs.frozen
class Rule:
    """One row of the table.

    Attributes:
        statuses: Statuses below 500 that are tried again.
        server_errors: Whether every status of 500 and above is.
        lost: Whether a failure that may have reached the server is.
        answers: Statuses outside 2xx that are a normal answer.
        never: Nothing is tried again, whatever the server says.
    """

    statuses: frozenset[int] = frozenset()
    server_errors: bool = True
    lost: bool = True
    answers: frozenset[int] = frozenset()
    never: bool = False


RULES: Mapping[RetryRule, Rule] = {
    RetryRule.READ: Rule(frozenset({402, 408, 409, 429})),
    RetryRule.DEDUPE: Rule(frozenset({402, 408, 409, 429})),
    # 402 and 429 are refusals, so the work was not begun; a 5xx or 408 may come after the effect.
    RetryRule.UNSAFE: Rule(frozenset({402, 429}), server_errors=False, lost=False),
    RetryRule.FINAL409: Rule(frozenset({402, 408, 429})),
    RetryRule.POLL: Rule(frozenset({402, 409, 429}), answers=frozenset({408})),
    RetryRule.ONCE: Rule(server_errors=False, lost=False, never=True),
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
            `immediate` or `backoff`.
        sick: The failure speaks of an unwell server, so the shared budget applies.
    """

    delay: float
    source: str
    sick: bool = False


Verdict = Accept | Fail | Retry

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
        status: Status of the reply, or None when there was none.
        error: The failure when there was no reply.
        headers: Headers of the reply, lower case.
        attempt: How many times the request has been sent, this time included.
        sent: For a failure without a reply: False only when surely nothing left this machine.
        jitter: A random number in [0, 1).
        now: Present time for a Retry-After date, when the reply has no Date header.
        timing: Base and caps of the delays.

    Returns:
        Accept, Fail or Retry.

    Example:
        >>> verdict(RetryRule.READ, status=429, headers={"retry-after-ms": "50"})
        Retry(delay=0.05, source='retry-after-ms', sick=False)
    """
    row = RULES[rule]
    if status is None:
        if row.never or not isinstance(error, APIConnectionError | TimeoutError | OSError):
            return Fail("final")
        if isinstance(error, RedirectRefusedError):
            return Fail("final")
        if isinstance(error, UnreadableReplyError) and attempt >= UNREADABLE_ATTEMPTS:
            return Fail("final")
        if not row.lost and sent is not False:
            return Fail("unsafe")
        return _wait(attempt, jitter, timing, quick=True, sick=True)
    if 200 <= status < 300 or status in row.answers:
        return Accept()
    if row.never:
        return Fail("final")
    wish = headers.get("x-should-retry")
    if wish == "false":
        return Fail("forbidden")
    if wish != "true":
        if status >= 500:
            if not row.server_errors:
                return Fail("unsafe")
        elif status not in row.statuses:
            return Fail("unsafe" if status == 408 else "final")
    sick = status >= 500
    named = server_delay(headers, now, timing.server_cap)
    if named is not None:
        return Retry(named[0], named[1], sick)
    if status == 402:
        return Retry(BILLING_PAUSE, "billing")
    return _wait(attempt, jitter, timing, quick=sick, sick=sick)


def _wait(attempt: int, jitter: float, timing: Timing, *, quick: bool, sick: bool) -> Retry:
    """Full jitter: anything between nothing and an exponentially growing ceiling."""
    if quick and attempt == 1:
        return Retry(FIRST_RETRY_SPREAD * jitter, "immediate", sick)
    exponent = min(attempt - (2 if quick else 1), 16)
    return Retry(jitter * min(timing.cap, timing.base * 2**exponent), "backoff", sick)


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
    seconds = (when - present).total_seconds()
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
    except (TypeError, ValueError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


@attrs.frozen
class Outcome:
    """What one attempt came to: a reply or an error, and the verdict on it."""

    reply: Reply | None
    error: Exception | None
    verdict: Verdict


@attrs.define
class Ended:
    """How a loop ended: the last outcome, how often the request was sent, over how long.

    Attributes:
        in_doubt: An attempt before the last one may have taken effect.
    """

    last: Outcome
    attempts: int
    elapsed: float
    in_doubt: bool = False


def judge(
    rule: RetryRule,
    reply: Reply | None,
    error: Exception | None,
    attempt: int,
    rng: random.Random,
    timing: Timing = DEFAULT_TIMING,
) -> Outcome:
    """Return what an attempt came to, with the verdict on it."""
    if reply is not None:
        decision = verdict(
            rule,
            status=reply.status,
            headers=reply.headers,
            attempt=attempt,
            jitter=rng.random(),
            timing=timing,
        )
    else:
        assert error is not None
        decision = verdict(
            rule,
            error=error,
            attempt=attempt,
            sent=sent_of(error),
            jitter=rng.random(),
            timing=timing,
        )
    return Outcome(reply, error, decision)


async def run(
    attempt: Callable[[int], Awaitable[Reply]],
    rule: RetryRule,
    *,
    first: Outcome,
    began: float,
    lane: Lane,
    deadline: float,
    rng: random.Random,
    budget: RetryBudget,
    timing: Timing = DEFAULT_TIMING,
    on_retry: Callable[[int, Outcome], None] | None = None,
) -> Ended:
    """Attempt until the verdict is final, the deadline has passed or billing paused too long.

    Args:
        attempt: Sends the request; gets the number of earlier attempts.
        rule: Row of the table.
        first: What the first attempt came to.
        began: Loop time at which the call began.
        lane: Which lane's health the budget looks at.
        deadline: Loop time after which nothing is sent and nobody sleeps.
        rng: Source of jitter.
        budget: Shared by everybody who talks to this server.
        timing: Delays, most attempts, and how long 402 is waited out.
        on_retry: Told before each wait.

    Returns:
        The last outcome; the caller turns it into a reply or an error.
    """
    loop = asyncio.get_running_loop()
    outcome = first
    played = in_doubt = False
    count = counted = 1
    paid_until: float | None = None

    async def step() -> Outcome:
        nonlocal outcome, played, count, counted, in_doubt
        if not played:
            played = True
            return first
        started = loop.time()
        if started >= deadline:
            return outcome
        counted += not budget.sick(lane)
        in_doubt = in_doubt or _may_have_acted(outcome)
        reply: Reply | None = None
        error: Exception | None = None
        try:
            reply = await attempt(count)
        except Exception as caught:
            error = caught
        count += 1
        outcome = judge(rule, reply, error, count, rng, timing)
        budget.note_outcome(lane, reply, error, started)
        return outcome

    def stop(_: tenacity.RetryCallState) -> bool:
        nonlocal paid_until
        last = outcome.verdict
        if timing.attempts is not None and counted >= timing.attempts:
            return True
        if isinstance(last, Retry) and last.source == "billing":
            paid_until = paid_until or loop.time() + timing.billing
            if loop.time() >= paid_until:
                return True
        return _delay(last, deadline - loop.time()) is None

    def wait(_: tenacity.RetryCallState) -> float:
        return _delay(outcome.verdict, deadline - loop.time()) or 0.0

    async def sleep(delay: float) -> None:
        last = outcome.verdict
        assert isinstance(last, Retry)
        if on_retry is not None:
            on_retry(count, outcome)
        if last.sick:
            await budget.wait_turn(lane, delay, chosen_by_us=_ours(last), deadline=deadline)
        else:
            await asyncio.sleep(delay)

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda seen: isinstance(seen.verdict, Retry)),
        stop=stop,
        wait=wait,
        sleep=sleep,
        retry_error_callback=lambda _: outcome,
    )
    outcome = await retrying(step)
    return Ended(outcome, count, loop.time() - began, in_doubt)


def _may_have_acted(outcome: Outcome) -> bool:
    """Whether the server may have done the work although the attempt failed."""
    if outcome.reply is not None:
        return outcome.reply.status >= 500 or outcome.reply.status == 408
    return outcome.error is not None and sent_of(outcome.error) is not False


def _ours(last: Retry) -> bool:
    return last.source in ("immediate", "backoff")


def _delay(last: Verdict, left: float) -> float | None:
    """Return how long to wait with `left` seconds to go, or None when waiting is of no use."""
    if not isinstance(last, Retry) or left <= 0.0:
        return None
    if last.delay < left:
        return last.delay
    # A delay of our own choosing may shrink to leave time for one more attempt; the server's not.
    return left / 2 if _ours(last) and left > 2 * FIRST_RETRY_SPREAD else None
