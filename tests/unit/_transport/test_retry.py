"""The retry table against a plain second reading of the rules, and the loop that obeys it."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise, product
from typing import Any

import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.limits import RetryTokens
from tinker_ext._transport.messages import (
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    Lane,
    MalformedReplyError,
    RedirectRefusedError,
    Reply,
    ReplyTooLargeError,
    RetryRule,
    UnreadableReplyError,
)
from tinker_ext._transport.retry import (
    Accept,
    Attempts,
    Fail,
    Retry,
    Timing,
    back_off,
    run,
    server_delay,
    verdict,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STATUSES = [200, 201, 204, 299, 300, 302, 400, 401, 402, 403, 404, 408, 409, 410, 413, 422, 429]
STATUSES += [500, 501, 502, 503, 504, 520, 599]


def at(seconds: float) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


HEADERS: dict[str, dict[str, str]] = {
    "none": {},
    "ms": {"retry-after-ms": "50"},
    "ms fraction": {"retry-after-ms": "12.5"},
    "ms wins": {"retry-after-ms": "250", "retry-after": "9"},
    "ms zero, seconds": {"retry-after-ms": "0", "retry-after": "3"},
    "ms negative": {"retry-after-ms": "-5"},
    "ms garbage, seconds": {"retry-after-ms": "soon", "retry-after": "2"},
    "ms too long": {"retry-after-ms": "600000"},
    "ms nan": {"retry-after-ms": "nan"},
    "ms inf": {"retry-after-ms": "inf"},
    "seconds": {"retry-after": "7"},
    "seconds fraction": {"retry-after": "0.25"},
    "seconds zero": {"retry-after": "0"},
    "seconds too long": {"retry-after": "3600"},
    "date": {"retry-after": at(30)},
    "date too far": {"retry-after": at(86_400)},
    "date past": {"retry-after": at(-30)},
    "date by the server's clock": {"retry-after": at(100), "date": at(90)},
    "date garbage": {"retry-after": "next week"},
    "yes": {"x-should-retry": "true"},
    "yes after": {"x-should-retry": "true", "retry-after": "4"},
    "no": {"x-should-retry": "false"},
    "no after": {"x-should-retry": "false", "retry-after-ms": "10"},
    "shout": {"x-should-retry": "TRUE"},
}
NAMED = {
    "ms": (0.05, "retry-after-ms"),
    "ms fraction": (0.0125, "retry-after-ms"),
    "ms wins": (0.25, "retry-after-ms"),
    "ms zero, seconds": (3.0, "retry-after"),
    "ms garbage, seconds": (2.0, "retry-after"),
    "ms too long": (60.0, "retry-after-ms"),
    "ms inf": (60.0, "retry-after-ms"),
    "seconds": (7.0, "retry-after"),
    "seconds fraction": (0.25, "retry-after"),
    "seconds too long": (60.0, "retry-after"),
    "date": (30.0, "date"),
    "date too far": (60.0, "date"),
    "date by the server's clock": (10.0, "date"),
    "yes after": (4.0, "retry-after"),
}
ATTEMPTS = [1, 2, 3, 4, 5, 6, 7, 12, 40]
JITTERS = [0.0, 0.25, 0.999]
CEILING_AFTER_REFUSAL = [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
CEILING_AFTER_FAILURE = [0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]


def expected(rule: RetryRule, status: int, kind: str, attempt: int, jitter: float) -> Any:
    """Say in the plainest words what the rules promise for a reply."""
    if status in range(200, 300) or (rule == "poll" and status == 408):
        return "accept"
    if rule == "once" or kind.startswith("no "):
        return "fail"
    if kind == "no":
        return "fail"
    ill = status >= 500 and status != 501  # 501: well, and will not do it later
    # A server may not allow what would take effect twice.
    if kind not in ("yes", "yes after") or rule == "unsafe":
        passing = {
            "read": {402, 408, 409, 429},
            "dedupe": {402, 408, 409, 429},
            "unsafe": {402, 429},
            "final409": {402, 408, 429},
            "poll": {402, 409, 429},
        }[rule.value]
        if ill and rule == "unsafe":
            return "fail"
        if not ill and status not in passing:
            return "fail"
    if kind in NAMED:
        seconds, source = NAMED[kind]
        spread = min(seconds * (1 + 0.2 * jitter), 60.0)
        shortest = 0.05 if seconds >= 0.05 else 0.05 * 2 ** min(attempt - 1, 3)
        return max(spread, shortest * (1 + jitter)), source
    if status == 402:
        return 5.0, "billing"
    if ill:
        ceilings = CEILING_AFTER_FAILURE
        source = "immediate" if attempt == 1 else "backoff"
    else:
        ceilings, source = CEILING_AFTER_REFUSAL, "backoff"
    return jitter * ceilings[min(attempt, len(ceilings)) - 1], source


@pytest.mark.parametrize(("seconds", "wanted"), [(1, (1.0, "date")), (0, None), (-1, None)])
def test_a_date_that_is_not_ahead_names_no_delay(seconds: int, wanted: object) -> None:
    """M24: the pause is then ours, which grows; by the clock of the server or by our own."""
    assert server_delay({"retry-after": at(seconds)}, NOW) == wanted
    assert server_delay({"retry-after": at(seconds), "date": at(0)}) == wanted


def test_pauses_stop_doubling() -> None:
    """M24: 16 times; a server that is down for days does not make a number too large."""
    timing = Timing(base=0.0001, cap=1e9)
    pauses = [back_off(n, 1.0, timing, unhealthy=False).delay for n in (1, 2, 17, 18, 10**6)]
    assert pauses == [0.0001 * 2**times for times in (0, 1, 16, 16, 16)]


def test_table_over_the_full_cross_product() -> None:
    """M24: status × header × operation × attempt × jitter agree with the plain reading."""
    seen: set[str] = set()
    for rule, status, kind, attempt, jitter in product(
        RetryRule, STATUSES, HEADERS, ATTEMPTS, JITTERS
    ):
        got = verdict(
            rule, status=status, headers=HEADERS[kind], attempt=attempt, jitter=jitter, now=NOW
        )
        wanted = expected(rule, status, kind, attempt, jitter)
        where = (rule, status, kind, attempt, jitter)
        if wanted == "accept":
            assert got == Accept(), where
        elif wanted == "fail":
            assert isinstance(got, Fail), where
        else:
            assert isinstance(got, Retry), where
            # pytest.approx would take half of the time of this test.
            assert math.isclose(got.delay, wanted[0], rel_tol=1e-6, abs_tol=1e-12), where
            assert got.source == wanted[1], where
            assert got.unhealthy == (status >= 500 and status != 501), where
            assert 0 <= got.delay <= 60, where
            seen.add(got.source)
    assert seen == {"retry-after-ms", "retry-after", "date", "billing", "immediate", "backoff"}


FAILURES = [
    ConnectError("no route"),
    ConnectionLostError("reset"),
    ConnectionLostError("never left", sent=False),
    MalformedReplyError("garbage"),
    ExchangeTimeoutError("slow"),
    ExchangeTimeoutError("no connection", sent=False),
]


@pytest.mark.parametrize("status", [400, 402, 408, 429, 500, 503])
@pytest.mark.parametrize("wish", ["true", "false", None])
def test_what_is_sent_once_ends_with_its_first_answer(status: int, wish: str | None) -> None:
    """M24: a heartbeat or a report is over, whatever the server wishes; nothing is in doubt."""
    headers = {} if wish is None else {"x-should-retry": wish}
    assert verdict(RetryRule.ONCE, status=status, headers=headers) == Fail("final")


def test_failures_without_a_reply() -> None:
    """M20, M24: a training step goes out again only when it surely never left."""
    for rule, error, attempt in product(RetryRule, FAILURES, ATTEMPTS):
        got = verdict(rule, error=error, sent=error.sent, attempt=attempt, jitter=0.5)
        if rule is RetryRule.ONCE:
            assert got == Fail("final")
        elif rule is RetryRule.UNSAFE and error.sent is not False:
            assert got == Fail("unsafe")
        else:
            ceilings = CEILING_AFTER_FAILURE
            assert isinstance(got, Retry)
            assert got.delay == pytest.approx(0.5 * ceilings[min(attempt, len(ceilings)) - 1])
            assert got.unhealthy


@pytest.mark.parametrize(
    "error",
    [
        ReplyTooLargeError("bomb"),
        RedirectRefusedError("elsewhere"),
        ValueError("bug"),
        KeyError("bug"),
    ],
)
def test_errors_that_repeat_are_final(error: Exception) -> None:
    """M24: what would fail the same way again is not tried again."""
    for rule in RetryRule:
        assert verdict(rule, error=error) == Fail("final")


def test_a_reply_that_cannot_be_unpacked_is_asked_for_three_times() -> None:
    """M24: it will not be better the next time."""
    error = UnreadableReplyError("the reply cannot be unpacked")
    found = [verdict(RetryRule.READ, error=error, attempt=attempt) for attempt in (1, 2, 3, 4)]
    assert [isinstance(each, Retry) for each in found] == [True, True, False, False]
    assert found[2:] == [Fail("final")] * 2


def test_unsafe_failures_say_so() -> None:
    """M20: the caller can tell "not safe" from "of no use"."""
    assert verdict(RetryRule.UNSAFE, status=503) == Fail("unsafe")
    assert verdict(RetryRule.UNSAFE, status=408) == Fail("unsafe")
    assert verdict(RetryRule.UNSAFE, status=400) == Fail("final")
    assert verdict(RetryRule.READ, status=503, headers={"x-should-retry": "false"}) == Fail(
        "forbidden"
    )


class Script:
    """Plays replies and errors in order, the last one for ever; notes when."""

    def __init__(self, *plays: int | Exception | tuple[int, dict[str, str]]) -> None:
        self.plays = list(plays)
        self.times: list[float] = []

    async def attempt(self, attempts: Attempts) -> None:
        assert attempts.count == len(self.times)
        play = self.plays[min(attempts.count, len(self.plays) - 1)]
        self.times.append(asyncio.get_running_loop().time())
        if isinstance(play, Exception):
            attempts.verdict = await attempts.take(None, play)
        else:
            status, headers = play if isinstance(play, tuple) else (play, {})
            attempts.verdict = await attempts.take(Reply(status, headers, b""), None)

    async def play(
        self,
        rule: RetryRule,
        deadline: float = 300.0,
        timing: Timing | None = None,
        heard: list[int] | None = None,
    ) -> Attempts:
        rng, tokens = random.Random(3), RetryTokens()
        attempts = Attempts("x", Lane.TRAIN, rule, deadline, timing or Timing(), rng)
        await self.attempt(attempts)
        if isinstance(attempts.verdict, Retry):
            await run(
                attempts,
                lambda: self.attempt(attempts),
                tokens=tokens,
                on_retry=None if heard is None else lambda each: heard.append(each.count),
            )
        return attempts


def go(
    script: Script,
    rule: RetryRule,
    *,
    deadline: float = 300.0,
    timing: Timing | None = None,
    heard: list[int] | None = None,
) -> tuple[Attempts, int, float]:
    async def main() -> tuple[Attempts, int, float]:
        ended = await script.play(rule, deadline, timing, heard)
        return ended, ended.count, ended.elapsed

    return run_virtual(main())


def test_loop_returns_the_first_answer() -> None:
    """M24: one attempt when it works."""
    outcome, attempts, elapsed = go(Script(200), RetryRule.READ)
    assert outcome.reply is not None
    assert (outcome.reply.status, attempts, elapsed) == (200, 1, 0.0)


def test_loop_obeys_the_server_delay() -> None:
    """F28 M24: a delay the server names is waited for, with a little jitter on top."""
    script = Script((429, {"retry-after-ms": "50"}), (503, {"retry-after": "2"}), 200)
    heard: list[int] = []
    _, attempts, _ = go(script, RetryRule.DEDUPE, heard=heard)
    assert attempts == 3
    first, second = (after - before for before, after in pairwise(script.times))
    assert 0.05 <= first <= 0.1  # never at once, and not all clients at the same moment
    assert 2.0 <= second <= 2.0 * (1 + 0.2)
    assert heard == [1, 2]


def test_loop_stops_at_the_deadline() -> None:
    """M24: nothing starts after the deadline and a server delay beyond it ends the loop at once."""
    script = Script((503, {"retry-after": "30"}))
    outcome, attempts, elapsed = go(script, RetryRule.DEDUPE, deadline=10.0)
    assert (attempts, elapsed) == (1, 0.0)
    assert outcome.reply is not None
    script = Script(503)
    _, attempts, elapsed = go(script, RetryRule.DEDUPE, deadline=10.0)
    assert attempts == len(script.times) > 3
    assert elapsed <= 10.0
    script = Script(429)
    _, attempts, elapsed = go(script, RetryRule.DEDUPE, deadline=10.0)
    assert 9.0 < elapsed <= 10.0


def test_loop_keeps_the_most_attempts() -> None:
    """M24: a limit on attempts holds for a server that answers."""
    script = Script(429)
    _, attempts, _ = go(script, RetryRule.DEDUPE, timing=Timing(attempts=4))
    assert attempts == len(script.times) == 4


def test_billing_pause_ends() -> None:
    """M22: 402 is waited out every 5 s, and becomes an error after the configured time."""
    script = Script(402, 402, 402, 200)
    outcome, _, _ = go(script, RetryRule.DEDUPE)
    assert outcome.verdict == Accept()
    assert script.times == pytest.approx([0.0, 5.0, 10.0, 15.0])
    script = Script(402)
    outcome, _, elapsed = go(script, RetryRule.DEDUPE, timing=Timing(billing=60.0), deadline=1e6)
    assert outcome.reply is not None
    assert outcome.reply.status == 402
    assert elapsed == pytest.approx(60.0)
    # Other failures are gone on with for as long as there is time.
    script = Script(*[503] * 40, 200)
    outcome, _, elapsed = go(script, RetryRule.DEDUPE, timing=Timing(billing=5.0), deadline=1e6)
    assert outcome.verdict == Accept()
    assert elapsed > 20.0


def test_an_answer_between_failures_begins_their_count_anew() -> None:
    """M24: a call that asks until something is ready comes back at once after its next failure."""

    async def main() -> list[str]:
        attempts = Attempts("x", Lane.REST, RetryRule.READ, 300.0, Timing(), random.Random(3))
        attempts.pending = lambda reply: 7.0
        said = []
        for status in (503, 503, 200, 503, 503):
            told = await attempts.take(Reply(status, {}, b""), None)
            assert isinstance(told, Retry)
            said.append(told.source)
        return said

    wanted = ["immediate", "backoff", "pending", "immediate", "backoff"]
    assert run_virtual(main()) == wanted


@pytest.mark.parametrize("status", [408, 500, 503])
def test_unsafe_operation_is_sent_once(status: int) -> None:
    """M20: on a server that ignores seq ids a doubtful failure is never repeated."""
    script = Script(status, 200)
    outcome, attempts, _ = go(script, RetryRule.UNSAFE)
    assert attempts == 1
    assert outcome.verdict == Fail("unsafe")
    script = Script(ConnectionLostError("reset"), 200)
    assert go(script, RetryRule.UNSAFE)[1] == 1
    script = Script(ConnectError("refused"), 200)
    assert go(script, RetryRule.UNSAFE)[1] == 2


def test_publish_conflict_is_final() -> None:
    """M24: publishing what is public already surfaces at once."""
    script = Script(409)
    assert go(script, RetryRule.FINAL409)[1] == 1
    script = Script(409, 409, 200)
    assert go(script, RetryRule.DEDUPE)[1] == 3


def test_cancellation_passes_through() -> None:
    """M19: cancelling during a back-off ends the loop with CancelledError, nothing else."""

    async def main() -> None:
        script = Script((503, {"retry-after": "50"}))
        task = asyncio.ensure_future(script.play(RetryRule.READ))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(script.times) == 1

    run_virtual(main())


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"},
        {"retry-after": "Fri, 31 Dec 9999 23:59:59 -9999"},
        {
            "retry-after": "Mon, 01 Jan 0001 00:00:00 +2359",
            "date": "Fri, 31 Dec 9999 00:00:00 -2359",
        },
        {"retry-after": "1e400"},
        {"retry-after-ms": "nan", "retry-after": "-inf"},
    ],
)
def test_absurd_dates_and_delays(headers: dict[str, str]) -> None:
    """F7: whatever a header says, the verdict is one, and its delay is within the cap."""
    decided = verdict(RetryRule.READ, status=429, headers=headers)
    assert isinstance(decided, Retry)
    assert 0.0 <= decided.delay <= Timing().server_cap
