"""Everything a client takes it gives back: slots of lanes, bytes of budgets, places in lists.

`watched` notes every such thing that is made while it is in force; `left` says what of it is still
taken. Whatever a test did to its clients, nothing may be: a slot given back twice shows too, as a
negative number.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

# Class → what is wrong with one of it, None when nothing is.
Check = Callable[[Any, int], str | None]


def _lane(queue: Any, _: int) -> str | None:
    if queue.held or queue.waiting:
        return f"a lane holds {queue.held} slots, {queue.waiting} wait for one"
    return None


def _bytes(budget: Any, size: int) -> str | None:
    size = getattr(budget, "size", size)  # a server may have changed it meanwhile
    if waiting := sum(not waiter.done() for _, waiter in budget._line):
        return f"{waiting} wait for bytes"
    return None if budget.left == size else f"a budget of {size} bytes has {budget.left} left"


def _in_flight(entries: Any, _: int) -> str | None:
    if count := len(entries._entries):
        return f"{count} operations are noted as in flight"
    return "a watchdog is left that watches nothing" if entries._timer is not None else None


def _samples(pool: Any, _: int) -> str | None:
    if pool.in_flight or pool.queued:
        return f"{pool.in_flight} samples in flight, {pool.queued} queued"
    if pool._sending:
        return f"{pool._sending} samples that have ended still count as being sent"
    if pool._closed is not None and any(each._timer is not None for each in pool._progresses):
        return "a closed pool still watches whether its samples move"
    if pool._closed is not None and pool._deadlines.rings < math.inf:
        return "a closed pool still watches deadlines"
    return None


def _completions(poller: Any, _: int) -> str | None:
    waiting = getattr(poller, "waiting", getattr(poller, "_waiting", ()))
    if waiting or poller._task is not None:
        return f"{len(waiting)} wait for batched completion, task {poller._task}"
    return None


def _polls(pace: Any, _: int) -> str | None:
    return f"{pace.waiting} polls wait for their turn" if pace.waiting else None


def _retries(tokens: Any, _: int) -> str | None:
    waiting = sum(not w.done() for health in tokens._lanes.values() for w in health.line)
    return f"{waiting} retries wait for their turn" if waiting else None


def _waits(account: Any, _: int) -> str | None:
    timer = account._timer
    if account._closed and timer is not None and not timer.cancelled():
        return "an account of waits that is closed still ticks"
    return f"{len(account._pending)} calls are noted as waiting" if account._pending else None


def _watchers(watchers: Any, _: int) -> str | None:
    return f"{len(watchers.live)} calls are noted as live" if watchers.live else None


def _training(queue: Any, _: int) -> str | None:
    # A task that is cancelled before its first step takes nothing back; its queue has ended.
    carried = sum(not task.done() for task in queue._carried.values())
    if queue._queue or carried:
        return f"{len(queue._queue)} training calls queued, {carried} requests carried"
    return None


def _recorder(recorder: Any, _: int) -> str | None:
    return f"{len(recorder._live)} calls of a step are not over" if recorder._live else None


def _workspace(workspace: Any, _: int) -> str | None:
    if workspace._calls or workspace._to_cancel:
        return f"{len(workspace._calls)} calls, {len(workspace._to_cancel)} cancellations are left"
    return None


CHECKS: dict[str, Check] = {
    "FairQueue": _lane,
    "ByteBudget": _bytes,
    "InFlight": _in_flight,
    "SamplePool": _samples,
    "Completions": _completions,
    "PollPace": _polls,
    "RetryTokens": _retries,
    "Waits": _waits,
    "Watchers": _watchers,
    "TrainingQueue": _training,
    "Recorder": _recorder,
    "Workspace": _workspace,
}
PLACES = {
    "FairQueue": "tinker_ext._transport.limits",
    "ByteBudget": "tinker_ext._transport.limits",
    "InFlight": "tinker_ext.core.in_flight",
    "SamplePool": "tinker_ext.core.sample_pool",
    "Completions": "tinker_ext.core.completions",
    "PollPace": "tinker_ext._transport.limits",
    "RetryTokens": "tinker_ext._transport.limits",
    "Waits": "tinker_ext.observe.run_log",
    "Watchers": "tinker_ext.observe.watchers",
    "TrainingQueue": "tinker_ext.core.training_queue",
    "Recorder": "tinker_ext.journal.recorder",
    "Workspace": "tinker_ext.core.workspace",
}
# What knows nobody above it; the others would keep clients alive that a test has let go of.
LEAVES = frozenset({"FairQueue", "ByteBudget", "PollPace", "RetryTokens"})
PATIENCE = 60.0
"""Seconds a loop thread of a busy machine has to give back what a test that ended had taken."""


class Taken:
    """What was made, and what of it is still taken."""

    def __init__(self, *, weak: bool = False) -> None:
        self._made: list[tuple[str, Callable[[], Any], int]] = []
        self._weak = weak

    def note(self, name: str, thing: Any, size: int) -> None:
        """Remember one."""
        weak = self._weak and name not in LEAVES
        self._made.append((name, weakref.ref(thing) if weak else lambda: thing, size))

    def left(self) -> list[str]:
        """What is still taken, in words."""
        things = [(name, get(), size) for name, get, size in self._made]
        found = [CHECKS[name](thing, size) for name, thing, size in things if thing is not None]
        return [text for text in found if text is not None]

    def left_by_threads(self) -> list[str]:
        """The same where loops have threads of their own, which need a moment to give back."""
        until = time.monotonic() + PATIENCE
        while (left := [*self.left(), *_tasks()]) and time.monotonic() < until:
            time.sleep(0.02)
        return left


def _tasks() -> list[str]:
    """Tasks of the shared loop that nobody uses any more."""
    loops = sys.modules.get("tinker_ext.core.loop")
    if loops is None:
        return []
    shared: Any = loops.shared_loop()
    return [] if shared._users else [f"a task is left: {task}" for task in set(shared._running)]


_watching: list[Taken] = []
_classes: list[type] = []


@contextlib.contextmanager
def watched(*, weak: bool = False) -> Iterator[Taken]:
    """Note everything that is made inside the block.

    Args:
        weak: Keep nothing alive by it that knows a client.
    """
    if not _classes:
        _classes.extend(map(_noted, PLACES))
    taken = Taken(weak=weak)
    _watching.append(taken)
    try:
        yield taken
    finally:
        _watching.remove(taken)


def _noted(name: str) -> type:
    """Have every new one of a class noted, from now on: thousands of tests watch them in turn."""
    cls: type = getattr(importlib.import_module(PLACES[name]), name)
    original: Any = cls.__init__

    @functools.wraps(original)
    def made(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        size = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        for taken in _watching:
            taken.note(name, self, size)

    cls.__init__ = made  # type: ignore[misc]
    return cls
