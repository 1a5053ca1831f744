"""Limits at their margins: the last one that fits, the first that does not, what comes back when.

M19 M24 M42: every number here is one that a user sees as a delay, a rate or a count of requests.
"""

from __future__ import annotations

import asyncio
import itertools
import math

import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.limits import (
    HELD_SECONDS,
    AdaptiveLimit,
    ByteBudget,
    Deadlines,
    FairQueue,
    PollPace,
    RetryTokens,
    SharedBackoff,
    shared_backoff,
    shared_tokens,
)
from tinker_ext._transport.messages import LaneBusyError, Reply
from tinker_ext.errors import APIConnectionError


def now() -> float:
    return round(asyncio.get_running_loop().time(), 6)


def timers() -> int:
    """Timers of the running loop that would still ring."""
    loop = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def started(*waits):
    return [asyncio.ensure_future(wait) for wait in waits]


# -- deadlines ---------------------------------------------------------------------------------


def test_deadlines_are_kept_in_whatever_order_they_come_with_one_timer():
    """M24: a timeout comes when it is due, also one that is asked for after a later one."""

    async def scenario():
        loop, left, met = asyncio.get_running_loop(), [], []

        def expire(when):
            met.extend((each, now()) for each in sorted(left) if each <= when)
            left[:] = [each for each in left if each > when]
            return min(left, default=math.inf)

        deadlines = Deadlines(expire)
        for delay in (3.0, 5.0, 4.0, 1.0, 5.0, 9.0):
            left.append(delay)
            deadlines.watch(loop, delay)
            assert timers() == 1
        left.remove(4.0)  # it was met: the timer rings all the same, and nothing is late
        assert deadlines.rings == 1.0
        await asyncio.sleep(8.0)
        assert timers() == 1
        await asyncio.sleep(8.0)
        assert met == [(1.0, 1.0), (3.0, 3.0), (5.0, 5.0), (5.0, 5.0), (9.0, 9.0)]
        assert (timers(), deadlines.rings) == (0, math.inf)
        left.append(20.0)
        deadlines.watch(loop, 20.0)
        await asyncio.sleep(8.0)
        assert met[-1] == (20.0, 20.0)

    run_virtual(scenario())


def test_deadlines_that_were_closed_are_watched_again():
    """M24: the timer that was taken back is not taken for one that is set."""

    async def scenario():
        loop, rung = asyncio.get_running_loop(), []

        def expire(when):
            rung.append(when)
            return math.inf

        deadlines = Deadlines(expire)
        deadlines.watch(loop, math.inf)  # never
        assert timers() == 0
        deadlines.watch(loop, 10.0)
        deadlines.close()
        deadlines.close()
        assert timers() == 0
        deadlines.watch(loop, 20.0)
        await asyncio.sleep(30.0)
        assert rung == [20.0]

    run_virtual(scenario())


def test_who_waits_for_a_slot_gives_up_at_their_own_deadline():
    """M24: neither those before nor those behind in line change when somebody gives up."""

    async def scenario():
        queue, ended = FairQueue(1), []
        assert queue.try_acquire()

        async def wait(name, deadline):
            try:
                await queue.acquire(deadline=deadline)
            except TimeoutError:
                ended.append((name, now()))
            else:
                ended.append((name, "slot"))
                queue.release()

        tasks = started(wait("a", 30.0), wait("b", 10.0), wait("c", 20.0), wait("d", math.inf))
        await asyncio.sleep(15.0)
        assert (queue.waiting, timers()) == (3, 1)
        queue.close()
        assert timers() == 1  # somebody still waits
        await asyncio.sleep(10.0)
        assert ended == [("b", 10.0), ("c", 20.0)]
        queue.release()
        await asyncio.gather(*tasks)
        assert ended[2:] == [("a", "slot"), ("d", "slot")]
        assert timers() == 1
        queue.close()
        assert timers() == 0

    run_virtual(scenario())


def test_thousands_who_give_up_one_after_the_other_are_not_looked_at_for_each():
    """M23 M24: that would keep the loop busy with nothing else; nobody is late for it."""

    async def scenario():
        queue, late, looks = FairQueue(1), [], 0
        assert queue.try_acquire()
        expire = queue._deadlines._expire

        def look(when):
            nonlocal looks
            looks += 1
            return expire(when)

        queue._deadlines._expire = look

        async def wait(deadline):
            with pytest.raises(TimeoutError):
                await queue.acquire(deadline=deadline)
            late.append(now() - deadline)

        await asyncio.gather(*(wait(1.0 + place / 2_000) for place in range(2_000)))
        queue.release()
        assert looks < 600
        assert -1e-9 < min(late) <= max(late) < 0.003

    run_virtual(scenario())


# -- slots and bytes -----------------------------------------------------------------------------


def test_a_queue_of_none_is_refused_and_resized_to_one():
    """M25: a limit of 0 would let nobody through."""
    with pytest.raises(ValueError, match="at least 1"):
        FairQueue(0)
    assert FairQueue(1).limit == 1

    async def scenario():
        queue = FairQueue(3)
        queue.resize(0)
        assert queue.limit == 1
        assert queue.try_acquire()
        assert not queue.try_acquire()
        queue.release()

    run_virtual(scenario())


def test_a_larger_limit_lets_waiters_go_at_once_and_a_smaller_one_as_slots_come_back():
    """M25 M42: nobody waits for a slot that is there, nobody gets one that is not."""

    async def scenario():
        queue = FairQueue(2)
        waits = started(*(queue.acquire() for _ in range(6)))
        await settled()
        assert (queue.held, queue.waiting) == (2, 4)
        queue.resize(4)
        await settled()
        assert (queue.held, queue.waiting) == (4, 2)
        queue.resize(2)
        queue.release()
        queue.release()
        await settled()
        assert (queue.held, queue.waiting) == (2, 2)
        queue.release()
        await settled()
        assert (queue.held, queue.waiting) == (2, 1)
        assert not queue.try_acquire()
        for _ in range(3):
            queue.release()
        await settled()
        assert all(wait.done() for wait in waits)
        assert (queue.held, queue.waiting) == (0, 0)

    run_virtual(scenario())


def test_nobody_overtakes_who_waits():
    """M25: a free slot belongs to the first in line, also before it has woken up."""

    async def scenario():
        queue = FairQueue(1)
        assert queue.try_acquire()
        waits = started(queue.acquire(), queue.acquire())
        await settled()
        queue.release()
        assert not queue.try_acquire()
        await settled()
        assert [wait.done() for wait in waits] == [True, False]
        queue.release()
        await settled()
        queue.release()
        assert queue.try_acquire()
        queue.release()

    run_virtual(scenario())


def test_a_waiter_gives_up_at_its_deadline_and_leaves_nothing():
    """M24 M19: not before, not after; no slot, no waiter and no timer stay behind."""

    async def scenario():
        queue = FairQueue(1)
        assert queue.try_acquire()
        with pytest.raises(TimeoutError):
            await queue.acquire(deadline=7.0)
        assert now() == 7.0
        assert (queue.held, queue.waiting) == (1, 0)
        (wait,) = started(queue.acquire(deadline=30.0))
        await asyncio.sleep(1.0)
        queue.release()
        await wait
        assert queue.held == 1
        queue.release()
        queue.close()
        assert timers() == 0
        assert (queue.held, queue.waiting) == (0, 0)

    run_virtual(scenario())


def test_bytes_are_admitted_while_any_are_left():
    """M42: at exactly nothing left one more leaves, below that nobody does."""

    async def scenario():
        budget = ByteBudget(10)
        assert (budget.size, budget.left) == (10, 10)
        assert budget.try_acquire(10)
        assert budget.left == 0
        assert budget.try_acquire(1)
        assert budget.left == -1
        assert not budget.try_acquire(1)
        (wait,) = started(budget.acquire(3))
        await settled()
        assert not budget.try_acquire(0)
        budget.release(1)
        await wait
        assert budget.left == -3
        budget.release(10)
        budget.release(3)
        assert budget.left == 10

    run_virtual(scenario())


def test_a_budget_that_grows_lets_waiters_go_and_one_that_shrinks_holds_them():
    """M42: the server may change the size while requests are under way."""

    async def scenario():
        budget = ByteBudget(10)
        assert budget.try_acquire(15)
        (wait,) = started(budget.acquire(4))
        await settled()
        budget.resize(14)
        await settled()
        assert not wait.done()
        budget.resize(15)
        await settled()
        assert wait.done()
        assert (budget.size, budget.left) == (15, -4)
        budget.resize(15)
        assert budget.left == -4
        budget.resize(5)
        budget.release(15)
        budget.release(4)
        assert budget.left == 5

    run_virtual(scenario())


def test_bytes_held_for_a_block_come_back_after_an_error():
    """M19: also when the block fails or is cancelled while it waits."""

    async def scenario():
        budget = ByteBudget(10)

        async def fails():
            async with budget.held(12):
                assert budget.left == -2
                (wait,) = started(budget.acquire(1))
                await settled()
                wait.cancel()
                raise KeyError

        with pytest.raises(KeyError):
            await fails()
        await settled()
        assert budget.left == 10

    run_virtual(scenario())


# -- the pace of polls ---------------------------------------------------------------------------


def test_polls_leave_in_a_burst_and_then_at_their_rate():
    """M42: 20 at once, then 15 a second, then none is left waiting."""

    async def scenario():
        pace, left = PollPace(), []

        async def poll():
            await pace.turn(5000.0)
            left.append(now())

        await asyncio.gather(*(poll() for _ in range(50)))
        assert left[:20] == [0.0] * 20
        # 15 a second, from the moment the burst was used up.
        assert left[20:] == [pytest.approx((i + 1) / 15, abs=1e-5) for i in range(30)]
        assert pace.waiting == 0
        assert timers() == 0
        await asyncio.sleep(1000.0)
        left.clear()
        start = now()
        await asyncio.gather(*(poll() for _ in range(21)))
        # However long nothing happened, the burst is as large as it was.
        assert left[:20] == [start] * 20
        assert left[20] == pytest.approx(start + 1 / 15, abs=1e-5)

    run_virtual(scenario())


@pytest.mark.parametrize(("results", "go"), [(0, 0), (1, 2), (2, 4), (5, 6)])
def test_a_result_lets_two_polls_ask_at_once(results, go):
    """M42: where one is done others may be; who is not there yet finds the place free."""

    async def scenario():
        pace = PollPace()
        for _ in range(20):
            await pace.turn(1000.0)
        waits = started(*(pace.turn(1000.0) for _ in range(6)))
        await settled()
        assert pace.waiting == 6
        for _ in range(results):
            pace.got_result()
        await settled()
        assert sum(wait.done() for wait in waits) == go
        assert pace.waiting == 6 - go
        spare = 2 * results - go
        if spare > 0:
            for _ in range(spare):
                await pace.turn(1000.0)
            assert now() == 0.0
        await asyncio.gather(*waits)

    run_virtual(scenario())


def test_a_poll_waits_for_its_turn_at_most_until_its_deadline():
    """M24: whoever asks then sees that the time is over; the timer is taken back."""

    async def scenario():
        pace = PollPace()
        for _ in range(20):
            await pace.turn(1000.0)
        first, second, third = started(pace.turn(900.0), pace.turn(900.0), pace.turn(0.1))
        await third
        assert now() == pytest.approx(0.1)
        assert first.done()
        await second
        # The one that gave up has not used up a turn.
        assert now() == pytest.approx(2 / 15, abs=1e-5)
        await asyncio.sleep(1 / 15)
        assert pace.waiting == 0
        await asyncio.sleep(1.0)
        assert timers() == 0

    run_virtual(scenario())


# -- the pause after a refusal -------------------------------------------------------------------


def test_a_pause_is_as_long_as_the_longest_and_remembered_for_ten_seconds():
    """M24: nobody sends during it, everybody is careful for a while after it."""

    async def scenario():
        backoff = SharedBackoff()
        assert (backoff.remaining(), backoff.recent()) == (0.0, False)
        await asyncio.sleep(3.0)
        assert not backoff.recent()
        backoff.pause(5.0)
        backoff.pause(2.0)
        assert backoff.remaining() == 5.0
        assert backoff.recent()
        await backoff.wait()
        assert now() == 8.0
        assert backoff.remaining() == 0.0
        await asyncio.sleep(9.9)
        assert backoff.recent()
        await asyncio.sleep(0.1)
        assert not backoff.recent()
        assert backoff.remaining() == 0.0

    run_virtual(scenario())


def test_backoffs_and_tokens_belong_to_one_server_and_one_key():
    """M24: what one server refuses says nothing about another, nor about another account."""

    async def scenario():
        one = shared_backoff("http://a", "k")
        assert shared_backoff("http://a", "k") is one
        assert shared_backoff("http://a", "other") is not one
        assert shared_backoff("http://b", "k") is not one
        assert shared_backoff("k", "http://a") is not one
        tokens = shared_tokens("http://a", 0.5)
        assert tokens.refund == 0.5
        assert shared_tokens("http://a") is tokens
        assert shared_tokens("http://b").refund == 0.2

    run_virtual(scenario())


# -- the limit that is found ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "in_flight", "after"),
    [(64, 64, 65), (64, 32, 65), (64, 31, 64), (10, 5, 11), (10, 4, 10), (9, 4, 9), (9, 5, 10)],
)
def test_only_a_client_that_uses_half_its_limit_learns(start, in_flight, after):
    """M42: an idle client knows nothing about what the server admits."""
    limit = AdaptiveLimit(start)
    limit.accepted(in_flight=in_flight)
    assert limit.value == after


def test_a_limit_doubles_then_grows_by_one_a_round_and_loses_a_third():
    """M42: the cap holds, refusals from before the last cut count once, it never falls below 1."""

    async def scenario():
        seen = []
        limit = AdaptiveLimit(8, cap=20, on_change=seen.append)
        assert AdaptiveLimit(50, cap=20).value == 20
        assert (AdaptiveLimit().value, AdaptiveLimit()._cap) == (64, 2000)
        for _ in range(8):
            limit.accepted(in_flight=8)
        assert limit.value == 16
        assert seen == list(range(9, 17))
        for _ in range(10):
            limit.accepted(in_flight=20)
        assert limit.value == 20
        assert seen[-1] == 20
        await asyncio.sleep(5.0)
        limit.refused(started=4.0, pause=0.0, full=True)
        assert limit.value == 13
        limit.refused(started=4.9, pause=0.0, full=True)
        limit.refused(started=5.0, pause=0.0, full=True)
        assert limit.value == 13  # they left before the cut
        for _ in range(13):
            limit.accepted(in_flight=13)
        assert limit.value == 14
        for _ in range(5):
            limit.accepted(in_flight=14)
        assert limit.value == 14  # a round of 14 has not passed
        for moment in range(6, 30):
            await asyncio.sleep(1.0)
            limit.refused(started=moment - 0.5, pause=0.0, full=True)
        assert limit.value == 1
        assert seen[-1] == 1

    run_virtual(scenario())


def test_a_refused_sample_waits_for_the_shared_pause():
    """M24: the pause of one is the pause of all."""

    async def scenario():
        backoff = SharedBackoff()
        backoff.pause(4.0)
        await AdaptiveLimit().after_refusal(backoff)
        assert now() == 4.0

    run_virtual(scenario())


# -- when a retry may leave ------------------------------------------------------------------------


def reply(status, elapsed=0.0, content_type="application/json"):
    return Reply(status, {"content-type": content_type}, b"{}", elapsed)


def test_retries_after_refusals_leave_in_fours_and_then_eight_a_second():
    """M42: places are one step apart after a small burst, and each success gives one back."""

    async def scenario():
        tokens = RetryTokens()
        assert [tokens.reserve() for _ in range(8)] == [
            0.0, 0.0, 0.0, 0.0, 0.125, 0.25, 0.375, 0.5,
        ]  # fmt: skip
        tokens.note_outcome("sample", reply(200), None, 0.0)
        assert tokens.reserve() == 0.5
        tokens.note_outcome("sample", reply(200, content_type="text/html"), None, 0.0)
        assert tokens.reserve() == 0.625  # a gateway's page is not a success
        await asyncio.sleep(100.0)
        assert [tokens.reserve() for _ in range(5)] == [0.0, 0.0, 0.0, 0.0, 0.125]

    run_virtual(scenario())


OUTCOMES = [
    # what an attempt came to, and whether three of it make a lane unhealthy
    (reply(503), None, True),
    (reply(500), None, True),
    (None, APIConnectionError("lost"), True),
    (None, LaneBusyError("busy"), False),
    (None, ValueError("ours"), False),
    (reply(200), None, False),
    (reply(400), None, False),
    (reply(429), None, False),
    (reply(408), None, False),
    (reply(408, HELD_SECONDS), None, False),
]


@pytest.mark.parametrize(("answer", "error", "unhealthy"), OUTCOMES)
def test_three_failures_of_the_server_in_a_row_hold_retries_back(answer, error, unhealthy):
    """M24: two do not, and what failed on our own side says nothing about the server."""

    async def scenario():
        tokens = RetryTokens()
        for count in range(1, 4):
            assert not tokens.unhealthy("train")
            tokens.note_outcome("train", answer, error, now())
            assert tokens.unhealthy("train") is (unhealthy and count == 3)
        assert not tokens.unhealthy("sample")
        assert not tokens.unhealthy("nobody")
        assert tokens.waiting("nobody") == 0

    run_virtual(scenario())


def test_a_success_between_failures_begins_the_count_anew():
    """M24: also one on a lane whose tokens are all there."""

    async def scenario():
        tokens = RetryTokens()
        for answer in (503, 503, 200, 503, 503, 200, 503, 503):
            tokens.note_outcome("train", reply(answer), None, now())
        assert not tokens.unhealthy("train")
        tokens.note_outcome("train", reply(503), None, now())
        assert tokens.unhealthy("train")

    run_virtual(scenario())


@pytest.mark.parametrize(("given", "more"), [(0, 0), (4, 0), (5, 1), (14, 2), (15, 3), (99, 10)])
def test_five_successes_give_one_retry_back(given, more):
    """M42: a fifth of a retry each, at most the burst of ten."""

    async def scenario():
        tokens = RetryTokens()
        for _ in range(10):
            await tokens.probe("train", 100.0)
        assert now() == 0.0
        for number in range(given):
            if number % 2:
                tokens.note("train", ok=True, started=0.0)
            else:  # as it is told of every reply
                tokens.note_outcome("train", reply(200), None, 0.0)
        for _ in range(more):
            await asyncio.wait_for(tokens.probe("train", 100.0), 0.0001)
        assert not tokens.unhealthy("train")
        (wait,) = started(tokens.probe("train", 100.0))
        await asyncio.sleep(0)
        assert tokens.unhealthy("train")
        await wait

    run_virtual(scenario())


def retries_in_an_outage(tokens, lane, count, left):
    """Have a lane fail and start retries that wait for its recovery; `left` gets their times."""
    for _ in range(3):
        tokens.note(lane, ok=False, started=now())

    async def retry():
        await tokens.probe(lane, 10_000.0)
        left.append(now())

    return started(*(retry() for _ in range(count)))


def test_probes_of_an_outage_come_at_first_every_third_of_a_second_and_then_every_second():
    """M24 M42: the pauses grow by a tenth each; recovery lets the rest go within half a second."""

    async def scenario():
        tokens, left = RetryTokens(), []
        waits = retries_in_an_outage(tokens, "train", 120, left)
        await asyncio.sleep(30.0)
        assert left[0] == 0.0
        pauses = [b - a for a, b in itertools.pairwise(left)]
        assert pauses[0] == pytest.approx(0.35)
        assert pauses[1] == pytest.approx(0.385)
        assert pauses[-1] == pytest.approx(1.0)
        assert max(pauses) <= 1.0 + 1e-6
        assert tokens.waiting("train") == 120 - len(left)
        count = len(left)
        began = now()
        tokens.note("train", ok=True, started=began)
        await asyncio.gather(*waits)
        rest = left[count:]
        # In portions of a fiftieth, one every hundredth of a second.
        portion = round((120 - count) / 50)
        assert rest[0] == began
        assert rest.count(began) == portion
        assert now() - began == pytest.approx(0.01 * ((120 - count - 1) // portion), abs=0.011)
        assert not tokens.unhealthy("train")
        # The next outage begins with short pauses again.
        await asyncio.sleep(5.0)
        left.clear()
        waits = retries_in_an_outage(tokens, "train", 3, left)
        await asyncio.gather(*waits)
        assert left[1] - left[0] == pytest.approx(0.35)
        assert left[0] >= began + 5.0

    run_virtual(scenario())


def test_few_who_wait_are_let_go_one_by_one():
    """M42: one every hundredth of a second, the first at once."""

    async def scenario():
        tokens, left = RetryTokens(), []
        waits = retries_in_an_outage(tokens, "train", 6, left)
        await asyncio.sleep(0.1)  # one of them has left as a probe
        began = now()
        tokens.note("train", ok=True, started=began)
        await asyncio.gather(*waits)
        assert left[1:] == [pytest.approx(began + 0.01 * i) for i in range(5)]

    run_virtual(scenario())


def test_lanes_in_trouble_probe_in_turn():
    """M25: one line of probes for a server, fair between its lanes."""

    async def scenario():
        tokens, left = RetryTokens(), []
        for lane in ("train", "poll"):
            for _ in range(3):
                tokens.note(lane, ok=False, started=now())

        async def retry(lane):
            await tokens.probe(lane, 10_000.0)
            left.append((lane, now()))

        waits = started(*(retry(lane) for lane in ("train", "train", "train", "poll", "poll")))
        await asyncio.gather(*waits)
        assert [lane for lane, _ in left] == ["train", "poll", "train", "poll", "train"]
        moments = [moment for _, moment in left]
        assert len(set(moments)) == 5
        await asyncio.sleep(10.0)
        assert timers() == 0

    run_virtual(scenario())


def test_a_lane_that_fails_again_while_its_line_is_let_go_keeps_the_rest():
    """M24: those who have not left yet wait for the next probe."""

    async def scenario():
        tokens, left = RetryTokens(), []
        waits = retries_in_an_outage(tokens, "train", 500, left)
        await asyncio.sleep(0.1)
        tokens.note("train", ok=True, started=now())
        await asyncio.sleep(0.105)
        gone = len(left)
        assert 100 <= gone <= 125
        for _ in range(3):
            tokens.note("train", ok=False, started=now())
        await asyncio.sleep(0.3)
        assert len(left) - gone <= 2
        tokens.note("train", ok=True, started=now())
        await asyncio.gather(*waits)

    run_virtual(scenario())


def test_a_probe_ends_at_its_deadline():
    """M24: the retry then sees that its time is over, and its place in line is passed over."""

    async def scenario():
        tokens = RetryTokens()
        for _ in range(3):
            tokens.note("train", ok=False, started=now())
        await tokens.probe("train", 50.0)
        first, second = started(tokens.probe("train", 0.2), tokens.probe("train", 50.0))
        await first
        assert now() == 0.2
        await second
        assert now() == pytest.approx(0.35)
        await asyncio.sleep(5.0)
        assert tokens.waiting("train") == 0
        assert timers() == 0

    run_virtual(scenario())


def test_a_not_yet_that_comes_at_once_lets_probes_go_faster_but_not_all():
    """F8 M42: eight a second while polls are answered at once; a failure slows them again."""

    async def scenario():
        tokens, left = RetryTokens(), []
        waits = retries_in_an_outage(tokens, "poll", 200, left)
        await asyncio.sleep(10.0)
        count = len(left)
        # One to a question from before the outage says nothing.
        tokens.note_outcome("poll", reply(408, 0.1), None, -1.0)
        await asyncio.sleep(0.5)
        assert len(left) - count <= 1
        count, began = len(left), now()
        tokens.note_outcome("poll", reply(408, 0.1), None, now())
        await asyncio.sleep(0.13)
        assert len(left) - count == 1
        await asyncio.sleep(1.9)
        assert len(left) - count == 16
        assert tokens.unhealthy("poll")
        # One that the server held is a success like any other.
        tokens.note("poll", ok=False, started=now())
        count = len(left)
        await asyncio.sleep(3.0)
        assert len(left) - count <= 4
        tokens.note_outcome("poll", reply(408, HELD_SECONDS), None, now())
        await asyncio.gather(*waits)
        assert now() - began < 7.0

    run_virtual(scenario())


def test_a_not_yet_on_a_lane_nobody_knows_changes_nothing():
    """M24: nor does one on a lane that is well."""

    async def scenario():
        tokens = RetryTokens()
        tokens.note_outcome("poll", reply(408, 0.1), None, now())
        assert not tokens.unhealthy("poll")
        tokens.note("poll", ok=False, started=now())
        tokens.note("poll", ok=False, started=now())
        tokens.note_outcome("poll", reply(408, 0.1), None, now())
        tokens.note("poll", ok=False, started=now())
        assert not tokens.unhealthy("poll")  # the answer began the count anew
        assert timers() == 0

    run_virtual(scenario())


def test_what_was_known_of_one_outage_is_forgotten_in_the_next():
    """M42: a lane that runs out of retries is probed as slowly as any, answered at once or not."""

    async def scenario():
        tokens, left = RetryTokens(), []
        waits = retries_in_an_outage(tokens, "poll", 3, left)
        tokens.note_outcome("poll", reply(408, 0.1), None, now())
        await asyncio.gather(*waits)
        assert left == [0.0, 0.125, 0.25]
        tokens.note("poll", ok=True, started=now())
        await asyncio.sleep(5.0)
        left.clear()

        async def retry():
            await tokens.probe("poll", 10_000.0)
            left.append(now())

        await asyncio.gather(*(retry() for _ in range(13)))
        assert left[:11] == [5.25] * 11
        assert [b - a for a, b in itertools.pairwise(left[10:])] == [
            pytest.approx(0.35),
            pytest.approx(0.385),
        ]

    run_virtual(scenario())
