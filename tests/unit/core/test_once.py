"""Work that is shared: one attempt for everybody, whoever gives up, ends or forks meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from tinker_ext.core.future import AwaitableConcurrentFuture
from tinker_ext.core.loop import Shared
from tinker_ext.errors import ClientClosedError


class Work:
    """Counts its starts and waits to be let go."""

    def __init__(self):
        self.started = 0
        self.gate = asyncio.Event()
        self.error = None

    async def __call__(self):
        self.started += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.started


async def waiting(*awaitables):
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_who_gives_up_leaves_the_work_to_the_others():
    """M19: a cancelled caller does not cancel what others wait for, nor start it twice."""

    async def scenario():
        work = Work()
        shared = Shared(work)
        first, second = await waiting(shared.get(), shared.get())
        first.cancel()
        await asyncio.sleep(0)
        work.gate.set()
        assert await second == 1
        assert await shared.get() == 1 == work.started
        assert first.cancelled()
        assert shared.peek() == 1

    asyncio.run(scenario())


def test_a_failure_is_told_to_all_and_tried_again():
    """M19: the next caller after a failure starts anew."""

    async def scenario():
        work = Work()
        shared = Shared(work)
        work.error = ValueError("once")
        callers = await waiting(shared.get(), shared.get())
        work.gate.set()
        ends = await asyncio.gather(*callers, return_exceptions=True)
        assert [str(end) for end in ends] == ["once", "once"]
        assert shared.peek() is None
        work.error = None
        assert await shared.get() == 2

    asyncio.run(scenario())


def test_dropped_work_says_why():
    """F20: a waiter gets the reason; one that was cancelled itself stays cancelled."""

    async def scenario():
        shared = Shared(Work())
        told, cancelled = await waiting(shared.get(), shared.get())
        cancelled.cancel()
        shared.forget(ClientClosedError("closed"))
        with pytest.raises(ClientClosedError, match="closed"):
            await told
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        silent = Shared(Work())
        (caller,) = await waiting(silent.get())
        silent.forget()
        with pytest.raises(asyncio.CancelledError):
            await caller

    asyncio.run(scenario())


def test_work_of_another_loop_is_not_waited_for():
    """F19: a forked child has a copy of its parent's task, which will never end there."""
    started = []

    async def work():
        started.append(asyncio.get_running_loop())
        if len(started) == 1:
            await asyncio.sleep(600)
        return len(started)

    shared = Shared(work)
    parent, child = asyncio.new_event_loop(), asyncio.new_event_loop()
    caller = parent.create_task(shared.get())
    parent.run_until_complete(asyncio.sleep(0.01))
    assert child.run_until_complete(asyncio.wait_for(shared.get(), 300)) == 2
    caller.cancel()
    for task in asyncio.all_tasks(parent):
        task.cancel()
    parent.run_until_complete(asyncio.gather(caller, return_exceptions=True))
    parent.close()
    child.close()


def test_who_stops_waiting_does_not_cancel_the_operation():
    """M19: an ordinary future under an APIFuture stays as it is when an await is cancelled."""

    async def scenario():
        beneath = concurrent.futures.Future()
        future = AwaitableConcurrentFuture(beneath)
        first, second, third = await waiting(future, future.result_async(), future.result_async(99))
        first.cancel()
        with pytest.raises(TimeoutError):
            await future.result_async(0.01)
        await asyncio.sleep(0)
        assert not beneath.cancelled()
        beneath.set_result(5)
        assert await asyncio.gather(second, third) == [5, 5]

    asyncio.run(scenario())
