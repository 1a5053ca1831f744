"""The virtual clock: time jumps, order is kept, threads are waited for, deadlocks are found."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from virtual_clock import DeadlockError, run_virtual


def test_hours_pass_at_once() -> None:
    """M24: sleeping costs no real time and wakes in the order of the timers."""

    async def main() -> list[tuple[float, int]]:
        loop = asyncio.get_running_loop()
        woken: list[tuple[float, int]] = []

        async def nap(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append((loop.time(), seconds))

        await asyncio.gather(*(nap(s) for s in (7200, 1, 3600, 60)))
        return woken

    assert run_virtual(main()) == [(1.0, 1), (60.0, 60), (3600.0, 3600), (7200.0, 7200)]


def test_timeouts_use_the_virtual_time() -> None:
    """M22: asyncio.timeout and wait_for follow the clock."""

    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 500)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(500.0)


def test_threads_hold_the_clock() -> None:
    """M24: work in a thread finishes before any timer fires."""

    async def main() -> tuple[str, float]:
        async with asyncio.timeout(0.001):
            text = await asyncio.to_thread(lambda: (time.sleep(0.05), "done")[1])
        return text, asyncio.get_running_loop().time()

    assert run_virtual(main()) == ("done", 0.0)


def test_deadlock_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """M22: a wait that nobody can end is reported instead of hanging the suite."""
    monkeypatch.setattr("virtual_clock._JumpingSelector.patience", 0.01)

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError):
        run_virtual(main())


def test_seed_reaches_the_global_generator() -> None:
    """M24: code without a generator of its own repeats itself too."""

    async def draw() -> float:
        return random.random()

    assert run_virtual(draw(), 1) == run_virtual(draw(), 1) != run_virtual(draw(), 2)
