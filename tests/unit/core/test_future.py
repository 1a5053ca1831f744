"""The light future: a concurrent future that any thread or loop may wait for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import get_type_hints

import pytest

from tinker_ext.core.future import APIFuture, AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.loop import shared_loop
from tinker_ext.core.workspace import chosen_seconds, deadline
from tinker_ext.errors import DeadlockError


def later(future, value, seconds=0.02):
    threading.Timer(seconds, future.settle, [value]).start()
    return future


def test_threads_and_loops_wait_for_the_same_future():
    """M16: result(), await and result_async() give the same, as often as asked."""
    light = later(LightFuture(), 5)
    future = AwaitableConcurrentFuture(light)

    async def wait():
        return await future, await future.result_async(), await light

    assert asyncio.run(wait()) == (5, 5, 5)
    assert asyncio.run(wait()) == (5, 5, 5)
    assert future.result() == light.result(0) == 5
    assert future.future() is light
    assert future.done()
    assert future.exception() is None


def test_a_timeout_leaves_the_future_alive():
    """M22: a result after a timeout still arrives, in either style."""
    light = LightFuture()
    future = AwaitableConcurrentFuture(light)
    with pytest.raises(TimeoutError):
        future.result(0.01)

    async def twice():
        with pytest.raises(TimeoutError):
            await future.result_async(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(future, 0.01)
        later(light, 1)
        return await future

    assert asyncio.run(twice()) == 1


@pytest.mark.parametrize("endless", [float("inf"), 1e30, threading.TIMEOUT_MAX * 2])
def test_an_endless_timeout_is_none(endless):
    """F31: a timeout that no lock can count waits for ever, in every style."""
    for light in (LightFuture(), concurrent.futures.Future()):
        future = AwaitableConcurrentFuture(light)
        threading.Timer(0.02, light.set_result, [5]).start()
        assert future.result(endless) == 5
        assert future.exception(endless) is None
        assert asyncio.run(future.result_async(endless)) == 5
    light = later(LightFuture(), 5)
    assert light.exception(endless) is None
    assert later(LightFuture(), 6).result(endless) == 6


def test_the_standard_library_accepts_it():
    """M16: concurrent.futures.wait and as_completed work on mixed futures."""
    ours = [LightFuture() for _ in range(3)]
    theirs = concurrent.futures.Future()
    for i, future in enumerate(ours):
        later(future, i, 0.01 * (i + 1))
    threading.Timer(0.01, theirs.set_result, [9]).start()
    done, pending = concurrent.futures.wait([*ours, theirs], timeout=300)
    assert len(done) == 4
    assert not pending
    assert {f.result() for f in concurrent.futures.as_completed(ours, timeout=300)} == {0, 1, 2}


@pytest.mark.parametrize("end", ["fails", "is cancelled"])
def test_who_waits_for_the_first_end_is_told_of_it(end):
    """M16: concurrent.futures.wait ends with an error or a cancellation as with a result."""
    ended, other = LightFuture(), LightFuture()

    def strike():
        while not ended._waiters:  # from here on somebody waits
            time.sleep(0.001)
        if end == "fails":
            ended.fail(ValueError("x"))
        else:
            ended.cancel()

    threading.Thread(target=strike, daemon=True).start()
    when = concurrent.futures.FIRST_COMPLETED
    done, left = concurrent.futures.wait([ended, other], timeout=60, return_when=when)
    assert (done, left) == ({ended}, {other})


def test_errors_and_cancelling():
    """M19: errors and cancellation reach every waiter; a settled future stays as it is."""
    failed = LightFuture()
    assert failed.fail(ValueError("x"))
    assert not failed.settle(1)
    with pytest.raises(ValueError, match="x"):
        failed.result()
    with pytest.raises(concurrent.futures.InvalidStateError):
        failed.set_result(1)
    assert (failed.cancel(), failed.cancelled()) == (False, False)

    called = []
    cancelled = LightFuture()
    cancelled.on_cancel = lambda: called.append(1)
    assert cancelled.cancel()
    assert cancelled.cancel()
    assert called == [1]
    assert cancelled.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        cancelled.result()

    async def wait():
        await cancelled

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(wait())


def test_a_future_is_settled_once():
    """M22: as those of the standard library, which other code expects."""
    future = LightFuture()
    assert not future.running()
    assert future.set_running_or_notify_cancel()
    future.set_exception(ValueError("x"))
    assert not future.running()
    for again in (lambda: future.set_exception(KeyError("y")), lambda: future.set_result(1)):
        with pytest.raises(concurrent.futures.InvalidStateError):
            again()
    assert isinstance(future.exception(), ValueError)
    given_up = LightFuture()
    given_up.cancel()
    assert not given_up.set_running_or_notify_cancel()


def test_callbacks_run_once_and_may_fail(caplog):
    """M16: a failing callback hurts nobody."""
    seen = []
    light = LightFuture()
    light.add_done_callback(lambda f: 1 / 0)
    light.add_done_callback(lambda f: seen.append(f.result()))
    light.settle(3)
    light.add_done_callback(lambda f: seen.append("late"))
    assert seen == [3, "late"]


def test_who_gives_up_waiting_is_forgotten():
    """M48: a program that looks for a result now and then keeps nothing of each look."""
    light = LightFuture()

    async def look():
        for _ in range(5):
            waiting = asyncio.ensure_future(_value(light))
            await asyncio.sleep(0)
            assert len(light._callbacks) == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert light._callbacks == []

    asyncio.run(look())


def test_a_dead_loop_does_not_disturb_the_core():
    """M16: a loop that ended while it waited is left alone."""
    light = LightFuture()

    async def give_up():
        waiting = asyncio.ensure_future(_value(light))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(give_up())
    loop = asyncio.new_event_loop()
    task = loop.create_task(_value(light))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert light.settle(1)


async def _value(future):
    return await future


@pytest.mark.parametrize("way", ["result", "exception"])
def test_waiting_on_the_loop_thread_is_refused(way):
    """M16: a blocking wait that could never end raises at once."""
    loop = shared_loop()
    loop.retain()
    try:

        async def wait_for_itself():
            return getattr(LightFuture(), way)(60)

        with pytest.raises(DeadlockError, match="wait for itself"):
            loop.submit(wait_for_itself()).result(300)
    finally:
        loop.release()
        loop.join()


def test_a_light_future_is_light():
    """M23: most futures never get a condition."""
    waiting = LightFuture()
    assert waiting._light_condition is None
    assert waiting.done() is False
    assert waiting._light_condition is None


def test_deadlines_nest():
    """M22: the innermost deadline counts, and ends with its block."""
    with deadline(9.0):
        with deadline(3.0):
            assert chosen_seconds() == 3.0
        assert chosen_seconds() == 9.0
    assert chosen_seconds() is None
    with pytest.raises(ValueError, match="more than 0"), deadline(0):
        pass


def test_api_future_is_generic():
    """M16: annotations such as APIFuture[int] work at import time."""

    def annotated() -> APIFuture[int]:
        return AwaitableConcurrentFuture(LightFuture())

    assert get_type_hints(annotated, localns={"APIFuture": APIFuture})["return"] == APIFuture[int]
    with pytest.raises(TypeError):
        APIFuture().result()


def test_a_removed_callback_is_not_called():
    """M27: `remove_done_callback` forgets one callback and leaves the others."""
    future = LightFuture()
    called = []
    future.remove_done_callback(called.append)  # none is there yet
    future.add_done_callback(called.append)
    future.add_done_callback(lambda done: called.append("kept"))
    future.remove_done_callback(called.append)
    future.settle(1)
    assert called == ["kept"]


def test_who_gives_up_waiting_leaves_an_ordinary_future_alone():
    """M19: a cancelled task does not cancel the work that others wait for."""
    inner: concurrent.futures.Future[int] = concurrent.futures.Future()
    ours = AwaitableConcurrentFuture(inner)

    async def wait():
        return await ours

    async def scenario():
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not inner.cancelled()
        inner.set_result(3)
        return await ours

    assert asyncio.run(scenario()) == 3
