"""Retry tokens under outages, on the virtual clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import httpx
import pytest
from virtual_clock import run_virtual

from tinker_ext._transport.connection import Connection
from tinker_ext._transport.limits import RetryTokens
from tinker_ext._transport.messages import Call, Lane, Reply, RetryRule
from tinker_ext.config import Config
from tinker_ext.errors import APIConnectionError, InternalServerError

POLL = Call(
    "retrieve_future",
    "POST",
    "/api/v1/retrieve_future",
    b"{}",
    lane=Lane.POLL,
    timeout=45.0,
    retry=RetryRule.POLL,
)
ASAMPLE = Call(
    "asample", "POST", "/asample", b"{}", lane=Lane.SAMPLE, timeout=60.0, retry=RetryRule.DEDUPE
)


class Scripted(httpx.AsyncBaseTransport):
    """Answers each request with the status that `status_at(path, time)` gives; keeps a log."""

    def __init__(self, status_at: Callable[[str, float], int], latency: float = 0.002) -> None:
        self.status_at = status_at
        self.latency = latency
        self.log: list[tuple[float, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        self.log.append((now, request.url.path))
        await asyncio.sleep(self.latency)
        status = self.status_at(request.url.path, now)
        if status == 0:
            raise httpx.ReadError("reset")
        return httpx.Response(status, json={})

    def busiest_second(self, after: float, before: float) -> int:
        times = [moment for moment, _ in self.log if after <= moment < before]
        return max((sum(t <= u < t + 1.0 for u in times) for t in times), default=0)


@pytest.fixture(autouse=True)
def known_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests have answered before: the whole retry window applies."""
    monkeypatch.setattr("tinker_ext._transport.connection._answered", {"http://server"})


def connect(server: Scripted, seed: int = 0) -> Connection:
    return Connection(
        "http://server", None, config=Config(), transport=server, rng=random.Random(seed)
    )


@pytest.mark.parametrize(("pending", "failure"), [(1, 503), (7, 0), (300, 500)])
def test_outage_of_a_minute(pending: int, failure: int) -> None:
    """M24: 60 s of failure cost at most 3 requests a second; all finish 2 s after recovery."""

    async def main() -> None:
        server = Scripted(lambda _, now: failure if now < 60.0 else 200)
        connection = connect(server)
        loop = asyncio.get_running_loop()
        finished: list[float] = []

        async def wait() -> None:
            await connection.exchange(POLL, deadline=1000.0)
            finished.append(loop.time())

        await asyncio.gather(*(wait() for _ in range(pending)))
        assert len(finished) == pending
        assert max(finished) <= 62.0
        assert server.busiest_second(after=2.0, before=60.0) <= 3
        assert len(server.log) <= 2 * pending + 200 + 20

    run_virtual(main())


def test_recovery_is_staggered() -> None:
    """M24: those who wait are not released in one instant."""

    async def main() -> None:
        server = Scripted(lambda _, now: 503 if now < 30.0 else 200)
        connection = connect(server)
        await asyncio.gather(*(connection.exchange(POLL, deadline=1000.0) for _ in range(400)))
        after = [moment for moment, _ in server.log if moment >= 30.0]
        in_one_step = max(sum(t <= u < t + 0.005 for u in after) for t in after)
        assert in_one_step <= 24
        assert max(after) <= 32.0

    run_virtual(main())


def test_one_unhealthy_lane_leaves_the_others_alone() -> None:
    """M24, M25: polls that fail delay no sample, and a working sampler does not unleash them."""

    async def main() -> None:
        server = Scripted(lambda path, now: 503 if "future" in path and now < 60 else 200)
        connection = connect(server)
        loop = asyncio.get_running_loop()
        polls = [
            asyncio.ensure_future(connection.exchange(POLL, deadline=500.0)) for _ in range(50)
        ]
        for _ in range(100):
            began = loop.time()
            await connection.exchange(ASAMPLE)
            assert loop.time() - began < 0.01
            await asyncio.sleep(0.5)
        poll_times = [moment for moment, path in server.log if "future" in path]
        assert len([t for t in poll_times if 2.0 <= t < 50.0]) <= 3 * 48
        replies: list[Reply] = await asyncio.gather(*polls)
        assert {reply.status for reply in replies} == {200}

    run_virtual(main())


def test_scattered_failures_stay_fast() -> None:
    """M24: one failure in ten costs each call milliseconds, not a place in the probe line."""

    async def main() -> None:
        chance = random.Random(5)
        server = Scripted(lambda *_: 500 if chance.random() < 0.1 else 200)
        connection = connect(server)
        loop = asyncio.get_running_loop()
        took: list[float] = []
        for _ in range(600):
            began = loop.time()
            await connection.exchange(ASAMPLE)
            took.append(loop.time() - began)
        assert sorted(took)[int(0.95 * len(took))] < 0.1
        assert max(took) < 2.0

    run_virtual(main())


@pytest.mark.parametrize("failure", [503, 0])
def test_first_retry_is_nearly_immediate(failure: int) -> None:
    """M24: a single reset or 5xx costs at most 50 ms."""

    async def main() -> None:
        server = Scripted(lambda *_: failure if len(server.log) == 1 else 200)
        connection = connect(server)
        await connection.exchange(ASAMPLE)
        assert len(server.log) == 2
        assert server.log[1][0] - server.log[0][0] <= 0.06

    run_virtual(main())


@pytest.mark.parametrize("failure", [503, 0])
def test_deadline_is_kept_and_told(failure: int) -> None:
    """M24: nothing sleeps past the deadline; the error says attempts and elapsed time."""

    async def main() -> None:
        server = Scripted(lambda *_: failure)
        connection = connect(server)
        kind = InternalServerError if failure else APIConnectionError
        with pytest.raises(kind) as caught:
            await connection.exchange(ASAMPLE, deadline=20.0)
        assert asyncio.get_running_loop().time() <= 20.0
        assert caught.value.attempts == len(server.log)
        assert caught.value.elapsed == pytest.approx(asyncio.get_running_loop().time())
        assert "asample" in str(caught.value)

    run_virtual(main())


def test_answer_from_before_the_outage_heals_nothing() -> None:
    """M24: a slow success that began before the lane became unhealthy does not open the gate."""

    async def main() -> None:
        server = Scripted(lambda *_: 503)
        connection = connect(server)
        budget = connection.tokens
        for moment in range(3):
            budget.note(Lane.POLL, ok=False, started=float(moment))
        await asyncio.sleep(5.0)
        assert budget.unhealthy(Lane.POLL)
        budget.note(Lane.POLL, ok=True, started=-1.0)
        assert budget.unhealthy(Lane.POLL)
        budget.note(Lane.POLL, ok=True, started=4.0)
        assert not budget.unhealthy(Lane.POLL)

    run_virtual(main())


def test_cancelled_waiters_leave_the_line() -> None:
    """M19: cancelling calls that wait in the gate neither blocks the others nor leaks tasks."""

    async def main() -> None:
        server = Scripted(lambda _, now: 503 if now < 20.0 else 200)
        connection = connect(server)
        calls = [
            asyncio.ensure_future(connection.exchange(POLL, deadline=300.0)) for _ in range(200)
        ]
        await asyncio.sleep(10.0)
        for call in calls[:150]:
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(each, Reply) for each in done) == 50
        assert asyncio.get_running_loop().time() <= 22.0
        assert connection.tokens.waiting(Lane.POLL) == 0

    run_virtual(main())


def test_same_seed_same_execution() -> None:
    """M24: the virtual clock makes one seed one execution."""

    def log_of(seed: int) -> list[tuple[float, str]]:
        server = Scripted(lambda _, now: 503 if now < 5.0 else 200)

        async def main() -> None:
            connection = connect(server, seed)
            await asyncio.gather(*(connection.exchange(POLL) for _ in range(2)))

        run_virtual(main(), seed)
        return server.log

    assert log_of(1) == log_of(1)
    assert log_of(1) != log_of(2)


def test_a_healthy_lane_has_so_many_retries_and_no_more() -> None:
    """M42: the burst leaves at once; who comes after it waits in line with the probes."""

    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        tokens = RetryTokens()
        left = []
        for _ in range(int(tokens.burst) + 2):
            await tokens.probe("train", loop.time() + 60.0)
            left.append(loop.time())
        return left

    left = run_virtual(scenario())
    assert left[:10] == [left[0]] * 10
    assert left[11] > left[10] >= left[0]
