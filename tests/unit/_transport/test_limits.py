"""Limits: fairness, O(1) cost, byte budget, shared back-off and convergence."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_clock import run_virtual

from tinker_ext._transport.limits import AdaptiveLimit, ByteBudget, FairQueue, shared_backoff


@asynccontextmanager
async def slot(queue: FairQueue) -> AsyncIterator[None]:
    await queue.acquire()
    try:
        yield
    finally:
        queue.release()


def test_waiters_are_served_in_order() -> None:
    """M23: whoever came first is served first."""

    async def main() -> None:
        queue = FairQueue(3)
        served: list[int] = []

        async def work(number: int) -> None:
            async with slot(queue):
                served.append(number)
                await asyncio.sleep(0.01)

        await asyncio.gather(*(work(n) for n in range(200)))
        assert served == sorted(served)

    run_virtual(main())


@given(
    limit=st.integers(1, 5),
    works=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans(), st.integers(0, 6)),
        max_size=40,
    ),
    resizes=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6)), max_size=4),
)
def test_slots_are_never_lost(
    limit: int,
    works: list[tuple[int, int, bool, int]],
    resizes: list[tuple[int, int]],
) -> None:
    """M19, M23: whatever is cancelled or resized, the limit holds and every slot comes back."""

    async def main() -> None:
        queue = FairQueue(limit)
        highest = limit
        held = 0

        async def work(key: int, seconds: int) -> None:
            nonlocal held
            async with slot(queue):
                held += 1
                try:
                    assert held <= highest
                    await asyncio.sleep(seconds)
                finally:
                    held -= 1

        async def resize(when: int, size: int) -> None:
            nonlocal highest
            await asyncio.sleep(when)
            highest = max(highest, size)
            queue.resize(size)

        loop = asyncio.get_running_loop()
        tasks = []
        for key, seconds, cancelled, when in works:
            task = asyncio.ensure_future(work(key, seconds))
            if cancelled:
                loop.call_later(when, task.cancel)
            tasks.append(task)
        changes = [asyncio.ensure_future(resize(*each)) for each in resizes]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*changes)
        assert not [r for r in results if isinstance(r, AssertionError)]
        assert (queue.held, queue.waiting) == (0, 0)
        await asyncio.wait_for(queue.acquire(), 1)

    run_virtual(main())


def test_memory_of_waiters() -> None:
    """M23: a waiter costs less than 2 KB with its task, and dead ones do not pile up."""

    async def main() -> None:
        queue = FairQueue(1)
        await queue.acquire()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        waiters = [asyncio.ensure_future(queue.acquire()) for n in range(1_000)]
        await asyncio.sleep(0)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert queue.waiting == 1_000
        assert grown / 1_000 < 2048
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        assert queue.waiting == 0
        assert not queue._line

    run_virtual(main())


def test_work_per_request_does_not_grow_with_the_queue() -> None:
    """M23: the number of steps per hand-over is the same with 200 and with 3,000 waiting."""

    async def steps(count: int) -> float:
        queue = FairQueue(1)
        await queue.acquire()
        for _ in range(count):
            task = asyncio.ensure_future(queue.acquire())
            task.add_done_callback(lambda _: None)
        await asyncio.sleep(0)
        executed = 0

        def trace(*_: object) -> object:
            nonlocal executed
            executed += 1
            return trace

        others = sys.gettrace()  # coverage counts by the same means
        sys.settrace(trace)
        try:
            for _ in range(50):
                queue.release()
        finally:
            sys.settrace(others)
        return executed / 50

    few, many = run_virtual(steps(200)), run_virtual(steps(3_000))
    assert many <= few * 1.5


def test_byte_budget_overdraws_by_one_request() -> None:
    """M23: admits while the rest is not negative, so one request may overdraw."""

    async def main() -> None:
        budget = ByteBudget(100)
        await asyncio.wait_for(budget.acquire(90), 1)
        await asyncio.wait_for(budget.acquire(500), 1)
        assert budget.left == -490
        third = asyncio.ensure_future(budget.acquire(1))
        await asyncio.sleep(1)
        assert not third.done()
        budget.release(500)
        await asyncio.wait_for(third, 1)
        assert budget.left == 9
        budget.release(90)
        budget.release(1)
        assert budget.left == 100

    run_virtual(main())


@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.integers(0, 3), st.booleans(), st.integers(0, 5)),
        max_size=30,
    )
)
def test_byte_budget_comes_back_whole(works: list[tuple[int, int, bool, int]]) -> None:
    """M19, M23: cancellation loses no byte and order is kept."""

    async def main() -> None:
        budget = ByteBudget(200)
        admitted: list[int] = []

        async def work(number: int, size: int, seconds: int) -> None:
            async with budget.held(size):
                admitted.append(number)
                await asyncio.sleep(seconds)

        loop = asyncio.get_running_loop()
        tasks = []
        for number, (size, seconds, cancelled, when) in enumerate(works):
            task = asyncio.ensure_future(work(number, size, seconds))
            if cancelled:
                loop.call_later(when, task.cancel)
            tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.left == 200
        assert admitted == sorted(admitted)

    run_virtual(main())


def test_backoff_is_shared_by_server_and_key() -> None:
    """M23: a 429 makes every sampler with this server and key wait, and nobody else."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        shared_backoff("http://a", "k").pause(5.0)
        shared_backoff("http://a", "k").pause(1.0)  # a shorter pause changes nothing
        await shared_backoff("http://a", "other").wait()
        await shared_backoff("http://b", "k").wait()
        assert loop.time() == 0.0
        await shared_backoff("http://a", "k").wait()
        assert loop.time() == pytest.approx(5.0)
        assert shared_backoff("http://a", "k").recent()
        await asyncio.sleep(10.0)
        assert not shared_backoff("http://a", "k").recent()

    run_virtual(main())


def test_pause_made_longer_while_waiting() -> None:
    """M23: whoever waits already waits for the longer pause too."""

    async def main() -> None:
        backoff = shared_backoff("http://a", "k")
        backoff.pause(2.0)
        asyncio.get_running_loop().call_later(1.0, backoff.pause, 3.0)
        await backoff.wait()
        assert asyncio.get_running_loop().time() == pytest.approx(4.0)

    run_virtual(main())


@pytest.mark.parametrize("admits", [3, 40, 5000])
def test_limit_converges_to_what_the_server_admits(admits: int) -> None:
    """M23: additive increase, multiplicative decrease, settles at the server's own limit."""

    async def main() -> None:
        queue = FairQueue(32)
        limit = AdaptiveLimit(32, cap=100, on_change=queue.resize)
        loop = asyncio.get_running_loop()
        inside = 0
        refused = 0
        stop = False
        seen: list[int] = []

        async def worker() -> None:
            nonlocal inside, refused
            while not stop:
                async with slot(queue):
                    started = loop.time()
                    if inside >= admits:
                        refused += 1
                        limit.refused(started=started, pause=0.0, full=True)
                        await asyncio.sleep(0.01)
                        continue
                    inside += 1
                    try:
                        await asyncio.sleep(0.1)
                    finally:
                        inside -= 1
                    limit.accepted(in_flight=queue.held)

        workers = [asyncio.ensure_future(worker()) for _ in range(130)]
        await asyncio.sleep(8)
        for _ in range(20):
            await asyncio.sleep(0.5)
            seen.append(limit.value)
        stop = True
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        middle = sorted(seen)[len(seen) // 2]
        assert min(admits, 100) * 0.6 <= middle <= min(admits + 2, 100)

    run_virtual(main())


def test_idle_client_does_not_grow_its_limit() -> None:
    """M23: success with few in flight says nothing about the limit."""
    limit = AdaptiveLimit(64)
    for _ in range(1000):
        limit.accepted(in_flight=3)
    assert limit.value == 64


def test_a_slot_that_comes_with_the_cancellation_is_given_back_once():
    """M19 M23: cancelled at the moment of the hand-over, a waiter leaves neither more nor less."""

    async def scenario():
        queue = FairQueue(1)
        await queue.acquire()
        waiter = asyncio.create_task(queue.acquire())
        await asyncio.sleep(0)
        queue.release()
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert (queue.held, queue.waiting) == (0, 0)
        assert [queue.try_acquire(), queue.try_acquire()] == [True, False]

    asyncio.run(scenario())


def test_bytes_that_come_with_the_cancellation_are_given_back_once():
    """M19 M23: the same for a budget of bytes."""

    async def scenario():
        budget = ByteBudget(10)
        await budget.acquire(20)
        waiter = asyncio.create_task(budget.acquire(5))
        await asyncio.sleep(0)
        budget.release(20)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        assert budget.left == 10

    asyncio.run(scenario())


@pytest.mark.parametrize("leaves", ["cancelled", "late"])
def test_a_slot_that_comes_back_as_a_waiter_leaves_goes_to_whoever_asks_then(leaves: str) -> None:
    """M19 M23: one who asks before the waiter has noticed does not wait for a free slot."""

    async def scenario() -> None:
        queue = FairQueue(1)
        await queue.acquire()
        late = asyncio.get_running_loop().time() + 5
        waiter = asyncio.create_task(queue.acquire(deadline=late))
        await asyncio.sleep(0)
        if leaves == "cancelled":
            waiter.cancel()
        else:
            queue._deadlines._expire(late)
        queue.release()
        async with asyncio.timeout(60):
            await queue.acquire()
        await asyncio.gather(waiter, return_exceptions=True)
        assert (queue.held, queue.waiting) == (1, 0)

    run_virtual(scenario())
