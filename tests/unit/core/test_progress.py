"""Whether samples move: who has none under way is not stuck, however long ago the last one was."""

from __future__ import annotations

import asyncio
from typing import Any

from virtual_clock import run_virtual

from tinker_ext.core.sample_pool import Progress


def timers() -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


def test_only_samples_that_stand_still_are_given_up():
    """M24: ten seconds without movement, counted from the last; none when nobody waits."""
    stuck: list[tuple[float, float]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        progress = Progress(10.0, lambda _, patience: stuck.append((loop.time(), patience)))
        for _ in range(3):
            progress.began(loop)
        assert timers() == 1
        for _ in range(3):
            progress.ended()
        await asyncio.sleep(30.0)
        assert (stuck, timers()) == ([], 0)  # nobody waits
        progress.began(loop)
        await asyncio.sleep(6.0)
        progress.moved = loop.time()
        await asyncio.sleep(9.5)
        assert stuck == []
        await asyncio.sleep(1.0)
        assert stuck == [(46.0, 10.0)]
        assert timers() == 0
        progress.began(loop)
        assert timers() == 1
        progress.close()
        progress.close()
        assert timers() == 0

    run_virtual(scenario())


def test_without_patience_nobody_looks():
    """M24: a client that waits as long as it takes sets no timer."""

    async def scenario() -> None:
        progress = Progress(None, lambda *_: None)
        progress.began(asyncio.get_running_loop())
        assert timers() == 0

    run_virtual(scenario())
