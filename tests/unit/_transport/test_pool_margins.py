"""The connections of a lane on a virtual clock: when one is taken, kept, renewed or given up.

M24 M25: channels are stand-ins without sockets, so that every second can be counted.
"""

from __future__ import annotations

import asyncio

import httpx
import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.messages import (
    Call,
    ConnectionLostError,
    ExchangeTimeoutError,
    Lane,
    RetryRule,
)
from tinker_ext._transport.origin import split_base_url
from tinker_ext._transport.pool import LANE_SETTINGS, LaneSettings, Pool
from tinker_ext.errors import ClientClosedError

DONE = (200, {}, b"")


class StandIn:
    """A connection that answers as its pool's script says."""

    def __init__(self, script):
        self.script = script
        self.alive = True
        self.idle_since = 0.0
        self.heads = []
        self.limits = []
        self.expired = None
        self.waiter = None

    def start(self, head, body, limit, *, head_only=False):
        self.heads.append(head)
        self.limits.append(limit)
        self.waiter = asyncio.get_running_loop().create_future()
        self.script(self)
        return self.waiter

    def expire(self, seconds):
        self.expired = seconds
        self.abort()
        if not self.waiter.done():
            self.waiter.set_exception(ExchangeTimeoutError(f"{seconds:g} s", sent=None))

    def abort(self):
        self.alive = False

    async def wait_closed(self):
        pass


def pool(script, connections=4, **options):
    made = Pool(split_base_url("http://127.0.0.1:9")[0], LaneSettings(connections, 1000), **options)
    made.opened = []

    async def connect(timeout):
        made.opened.append(StandIn(script))
        made.asked = timeout
        return made.opened[-1]

    made._connect = connect
    return made


def after(seconds, answer=DONE):
    """Answer so many seconds later, or fail with an error."""

    def script(channel):
        loop = asyncio.get_running_loop()

        def end():
            if channel.waiter.done():
                return
            if isinstance(answer, Exception):
                channel.alive = False
                channel.waiter.set_exception(answer)
            else:
                channel.waiter.set_result(answer)

        loop.call_later(seconds, end)

    return script


def never(channel):
    pass


def call(rule=RetryRule.READ, method="GET", timeout=60.0, content=None, limit=None):
    return Call(
        "x", method, "/x", content, lane=Lane.REST, timeout=timeout, retry=rule,
        max_reply_bytes=limit,
    )  # fmt: skip


async def sent(lane, request, deadline=1e6):
    """Send with a slot, as connections do; what came, and when."""
    await lane.queue.acquire()
    try:
        return await lane.send(request, "/x", "", deadline)
    except Exception as error:
        return error
    finally:
        lane.queue.release()


def now():
    return round(asyncio.get_running_loop().time(), 6)


@pytest.mark.parametrize(
    "seconds", [(10, 30, 20), (30, 20, 10), (10, 20, 30), (20, 10, 30, 15, 25), (5, 5, 5), (9,)]
)
def test_every_exchange_ends_at_its_own_time(seconds):
    """M24: in whatever order the time-outs were set, none is early and none waits for another."""

    async def scenario():
        lane = pool(never, connections=8)

        async def one(limit):
            end = await sent(lane, call(timeout=limit))
            assert isinstance(end, ExchangeTimeoutError)
            return now()

        ends = await asyncio.gather(*(one(float(limit)) for limit in seconds))
        assert ends == [float(limit) for limit in seconds]
        assert [channel.expired for channel in lane.opened] == [float(s) for s in seconds]
        assert not lane._busy
        await lane.aclose()

    run_virtual(scenario())


def test_an_exchange_that_is_answered_leaves_the_times_of_the_others():
    """M22: those begun before it and after it end when they are due."""

    async def scenario():
        lane = pool(never, connections=8)

        async def one(limit):
            return await sent(lane, call(timeout=limit)), now()

        waits = [asyncio.ensure_future(one(limit)) for limit in (20.0, 10.0, 4.0, 25.0, 15.0)]
        await asyncio.sleep(1)
        lane.opened[2].waiter.set_result(DONE)
        ends = await asyncio.gather(*waits)
        assert ends[2] == (DONE, 1.0)
        assert [when for _, when in ends] == [20.0, 10.0, 1.0, 25.0, 15.0]
        assert [channel.expired for channel in lane.opened] == [20.0, 10.0, None, 25.0, 15.0]
        await lane.aclose()

    run_virtual(scenario())


def test_a_later_exchange_with_less_time_ends_first_and_one_with_more_stays():
    """M24: the one timer is moved forward, and set again for the rest."""

    async def scenario():
        lane = pool(never)
        ends = {}

        async def one(name, wait, limit):
            await asyncio.sleep(wait)
            await sent(lane, call(timeout=limit))
            ends[name] = now()

        jobs = [("long", 0.0, 50.0), ("short", 5.0, 10.0), ("between", 20.0, 20.0)]
        await asyncio.gather(*(one(*job) for job in jobs))
        assert ends == {"short": 15.0, "between": 40.0, "long": 50.0}
        await lane.aclose()

    run_virtual(scenario())


@pytest.mark.parametrize(("timeout", "deadline", "end"), [(60.0, 7.0, 7.0), (5.0, 70.0, 5.0)])
def test_the_nearer_of_timeout_and_deadline_ends_an_exchange(timeout, deadline, end):
    """M24: a call has its own time, and never more than is left of it."""

    async def scenario():
        lane = pool(never)
        assert isinstance(await sent(lane, call(timeout=timeout), deadline), ExchangeTimeoutError)
        assert now() == end
        await lane.aclose()

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("rule", "idle", "opened"),
    [
        (RetryRule.READ, 30.0, 1),
        (RetryRule.READ, 30.1, 2),
        (RetryRule.UNSAFE, 1.0, 1),
        (RetryRule.UNSAFE, 1.1, 2),
        (RetryRule.DEDUPE, 1.1, 1),
        (RetryRule.POLL, 29.0, 1),
    ],
)
def test_a_kept_connection_is_used_while_it_is_young_enough(rule, idle, opened):
    """M19: what cannot be sent twice takes only a connection that was used just now."""

    async def scenario():
        lane = pool(after(0.0))
        lane._sweep = lambda: None  # at the same moment it would close it first
        await sent(lane, call())
        lane.opened[0].idle_since = now()
        await asyncio.sleep(idle)
        assert await sent(lane, call(rule, "POST")) == DONE
        assert len(lane.opened) == opened
        await lane.aclose()

    run_virtual(scenario())


def test_an_idle_connection_is_closed_after_half_a_minute():
    """M25: the oldest first, each at its own time, and no timer stays when none is left."""

    async def scenario():
        lane = pool(after(0.0))
        loop = asyncio.get_running_loop()
        await asyncio.gather(sent(lane, call()), sent(lane, call()))
        assert len(lane.opened) == 2
        await asyncio.sleep(10.0)
        await sent(lane, call())
        young = max(lane.opened, key=lambda channel: channel.idle_since)
        (old,) = [channel for channel in lane.opened if channel is not young]
        await asyncio.sleep(20.5)
        assert (old.alive, young.alive) == (False, True)
        await asyncio.sleep(9.0)
        assert young.alive
        await asyncio.sleep(1.0)
        assert not young.alive
        assert not [h for h in loop._scheduled if not h.cancelled() and h.when() < 60.0]
        await sent(lane, call())
        assert len(lane.opened) == 3
        await lane.aclose()

    run_virtual(scenario())


LOST = ConnectionLostError("closed")


def dying(channel):
    """Answers once, then is found closed at the next request."""
    if len(channel.heads) == 1:
        after(0.0)(channel)
    else:
        after(0.0, LOST)(channel)


@pytest.mark.parametrize(
    ("rule", "method", "again"),
    [
        (RetryRule.READ, "GET", True),
        (RetryRule.POLL, "POST", True),
        (RetryRule.READ, "POST", True),
        (RetryRule.UNSAFE, "POST", False),
        (RetryRule.DEDUPE, "POST", False),
        (RetryRule.UNSAFE, "GET", True),
    ],
)
def test_a_safe_request_on_a_connection_that_was_just_closed_is_sent_anew(rule, method, again):
    """M24: at once and once; whatever may have an effect is left to the retry table."""

    async def scenario():
        lane = pool(dying)
        await sent(lane, call())
        end = await sent(lane, call(rule, method))
        assert (end == DONE) is again
        assert len(lane.opened) == 1 + again
        await lane.aclose()

    run_virtual(scenario())


def test_a_fresh_connection_that_is_lost_is_not_tried_again():
    """M24: only one that was kept may have been closed in the same moment."""

    async def scenario():
        lane = pool(after(0.0, LOST))
        assert await sent(lane, call()) is LOST
        assert len(lane.opened) == 1
        await lane.aclose()

    run_virtual(scenario())


def test_so_many_are_sent_anew_at_once_and_then_one_a_second():
    """M24 M42: after five such moments the server is not well."""

    async def scenario():
        lane = pool(dying)
        outcomes = []
        for _ in range(8):
            lane._idle.append(kept := StandIn(after(0.0, LOST)))
            kept.idle_since = now()
            outcomes.append(await sent(lane, call()) == DONE)
            for channel in lane._idle:
                channel.abort()
            lane._idle.clear()
        assert outcomes == [True] * 5 + [False] * 3
        await asyncio.sleep(1.0)
        for wanted in (True, False):
            lane._idle.append(kept := StandIn(after(0.0, LOST)))
            kept.idle_since = now()
            assert (await sent(lane, call()) == DONE) is wanted
            lane._idle.clear()
        await lane.aclose()

    run_virtual(scenario())


def test_a_cancelled_exchange_closes_its_connection():
    """M19: its answer must not become that of the next request."""

    async def scenario():
        lane = pool(never)
        job = asyncio.ensure_future(sent(lane, call()))
        await asyncio.sleep(1.0)
        job.cancel()
        await asyncio.wait([job])
        assert not lane.opened[0].alive
        assert not lane._idle
        assert (lane.queue.held, len(lane._busy)) == (0, 0)
        await lane.aclose()

    run_virtual(scenario())


def test_a_closed_pool_refuses_and_leaves_nothing():
    """M19: connections, timers and exchanges under way end with it."""

    async def scenario():
        lane = pool(after(0.0))
        await asyncio.gather(sent(lane, call()), sent(lane, call()))
        for channel in lane.opened:
            channel.script = never
        job = asyncio.ensure_future(sent(lane, call()))
        await asyncio.sleep(1.0)
        await lane.aclose()
        assert [channel.alive for channel in lane.opened] == [False, False]
        loop = asyncio.get_running_loop()
        assert not [handle for handle in loop._scheduled if not handle.cancelled()]
        assert isinstance(await sent(lane, call()), ClientClosedError)
        lane.opened[0].waiter.cancel()
        lane.opened[1].waiter.cancel()
        job.cancel()
        await asyncio.wait([job])

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("method", "content", "line"),
    [
        ("GET", None, b""),
        ("POST", None, b"Content-Length: 0\r\n"),
        ("PUT", None, b"Content-Length: 0\r\n"),
        ("PATCH", b"", b"Content-Length: 0\r\n"),
        ("DELETE", None, b""),
        ("DELETE", b"abc", b"Content-Length: 3\r\n"),
    ],
)
def test_a_request_says_how_long_its_body_is(method, content, line):
    """M23: also when there is no body where one is usual (RFC 9110 §8.6)."""

    async def scenario():
        lane = pool(after(0.0))
        await sent(lane, call(method=method, content=content))
        wanted = f"{method} /x HTTP/1.1\r\nHost: 127.0.0.1:9\r\n".encode() + line + b"\r\n"
        assert lane.opened[0].heads == [wanted]
        await lane.aclose()

    run_virtual(scenario())


@pytest.mark.parametrize(("own", "limit"), [(None, 1000), (7, 7)])
def test_a_reply_may_be_as_large_as_the_call_or_else_the_lane_says(own, limit):
    """M24: results come on the lane of polls, which takes more than the others."""

    async def scenario():
        lane = pool(after(0.0))
        await sent(lane, call(limit=own))
        assert lane.opened[0].limits == [limit]
        await lane.aclose()

    run_virtual(scenario())


def test_a_connection_is_waited_for_at_most_as_long_as_the_exchange():
    """M24: half a minute, or what is left."""

    async def scenario():
        lane = pool(after(0.0))
        await sent(lane, call(timeout=60.0))
        assert lane.asked == 30.0
        lane = pool(after(0.0), connect_timeout=3.0)
        await sent(lane, call(timeout=60.0))
        assert lane.asked == 3.0
        lane = pool(after(0.0))
        await sent(lane, call(timeout=2.0))
        assert lane.asked == 2.0

    run_virtual(scenario())


@pytest.mark.parametrize("given", [True, False])
def test_a_pool_closes_the_transport_it_made_and_not_the_one_it_was_given(given, monkeypatch):
    """M25: several clients may share a transport of the user."""
    closed = []

    class Transport(httpx.AsyncBaseTransport):
        async def aclose(self):
            closed.append(self)

    monkeypatch.setattr("tinker_ext._transport.bridge.proxy_transport", lambda proxy: Transport())

    async def scenario():
        options = {"given": Transport()} if given else {"proxy": "http://proxy.test"}
        await pool(after(0.0), **options).aclose()

    run_virtual(scenario())
    assert len(closed) == (not given)


def test_all_lanes_together_fit_into_the_smallest_usual_limit_of_descriptors():
    """M25: 256 on some systems; only polls may carry results of hundreds of megabytes."""
    assert sum(lane.connections for lane in LANE_SETTINGS.values()) < 256
    sizes = {name: lane.max_reply_bytes for name, lane in LANE_SETTINGS.items()}
    assert max(sizes, key=lambda name: sizes[name]) == Lane.POLL
    assert {name: size >> 20 for name, size in sizes.items()} == {
        Lane.SESSION: 32, Lane.TRAIN: 32, Lane.SAMPLE: 32, Lane.POLL: 512, Lane.TELEMETRY: 1,
        Lane.REST: 64,
    }  # fmt: skip
    assert all(size % (1 << 20) == 0 for size in sizes.values())
