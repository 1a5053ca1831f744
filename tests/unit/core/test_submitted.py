"""Coroutines handed to the loop: each runs to its end or is closed, and its future says which."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
from in_process import InlineRuntime
from virtual_clock import run_virtual


def played(scenario):
    """Run a scenario with a runtime on a virtual clock; tells of coroutines nobody closed."""

    async def main():
        return await scenario(InlineRuntime(asyncio.get_running_loop()))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = run_virtual(main())
        gc.collect()
    assert [str(each.message) for each in seen if "never awaited" in str(each.message)] == []
    return result


def test_what_is_cancelled_before_it_starts_is_never_run():
    """M16: and leaves no coroutine behind that Python complains about."""

    async def scenario(runtime):
        ran = []

        async def work():
            ran.append(1)

        future = runtime.submit(work())
        future.cancel()
        await asyncio.sleep(1)
        return ran, future.cancelled()

    assert played(scenario) == ([], True)


def test_what_cannot_be_handed_over_is_closed():
    """M16: the error is the caller's, and no coroutine is left."""

    async def scenario(runtime):
        def refuse(*_):
            raise RuntimeError("no loop")

        runtime.call = refuse
        with pytest.raises(RuntimeError, match="no loop"):
            runtime.submit(asyncio.sleep(0))

    played(scenario)


@pytest.mark.parametrize("how", ["result", "error", "cancelled inside", "cancelled outside"])
def test_the_future_ends_as_the_coroutine_does(how):
    """M16: with its value, its error or a cancellation; a cancelled future cancels the work."""

    async def scenario(runtime):
        ends = []

        async def work():
            try:
                await asyncio.sleep(5)
                if how == "error":
                    raise ValueError("x")
                if how == "cancelled inside":
                    raise asyncio.CancelledError
                return 7
            finally:
                ends.append(asyncio.get_running_loop().time())

        future = runtime.submit(work())
        await asyncio.sleep(1)
        assert not future.done()
        if how == "cancelled outside":
            future.cancel()
        await asyncio.sleep(9)
        assert future.done()
        if future.cancelled():
            return ends, "cancelled"
        return ends, future.exception() or future.result()

    ends, outcome = played(scenario)
    wanted = {"result": 7, "cancelled inside": "cancelled", "cancelled outside": "cancelled"}
    assert ends == [1.0 if how == "cancelled outside" else 5.0]
    assert wanted.get(how, outcome) == outcome
    assert how != "error" or isinstance(outcome, ValueError)
