"""Clients on an in-process server and a virtual clock, for tests that must repeat themselves."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
from given_back import watched
from virtual_clock import VirtualClockLoop, run_virtual

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient
from tinker_ext.core.loop import Runtime
from tinker_ext.core.workspace import deadline as deadline
from tinker_ext.mock import App, Settings, create_app
from tinker_ext.mock.in_process import InProcessTransport

T = TypeVar("T")

MODEL = "tinker-ext/tiny"
WIRES = ("json", "proto")
SHARED_TIMERS = tuple(
    f"tinker_ext._transport.limits.{name}" for name in ("RetryTokens.", "PollPace._next")
)


class InlineRuntime(Runtime):
    """Runs the core on a loop that the caller drives, for example one with a virtual clock.

    Only the `*_async` methods may be used with it: a blocking call would stop the loop.
    """

    generation = 0

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        super().__init__()

    def time(self) -> float:
        """The loop's time."""
        return self._loop.time()

    def retain(self) -> None:
        """Do nothing: the caller owns the loop."""

    def release(self) -> None:
        """Do nothing: the caller owns the loop."""

    def call(self, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` on the loop soon."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(fn, *args)
        else:
            self._loop.call_soon_threadsafe(fn, *args)

    async def offload(self, size: int, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(*args)` here, so that one seed stays one execution."""
        return fn(*args)


def datum(length: int = 4, first: int = 1) -> Datum:
    """A small training example."""
    tokens = [first + i for i in range(length)]
    return Datum(
        ModelInput.from_ints(tokens),
        {"target_tokens": [t + 1 for t in tokens], "weights": [1.0] * length},
    )


def adam(rate: float = 1e-2) -> AdamParams:
    """Parameters of one step."""
    return AdamParams(learning_rate=rate)


def server(**settings: Any) -> App:
    """An application that computes inside the request, so that one seed is one execution.

    TINKER_EXT_PROFILE=hosted makes it as strict as production where a test does not say otherwise.
    """
    profile = os.environ.get("TINKER_EXT_PROFILE", "default")
    return create_app(Settings.of_profile(profile, inline_engine=True, **settings))


def client(app: Any, **options: Any) -> ServiceClient:
    """A client of an application, on the running loop."""
    options.setdefault("api_key", "tml-test")
    options.setdefault("base_url", "http://server.test")
    options.setdefault("rng", random.Random(7))
    return ServiceClient(
        transport=app if isinstance(app, httpx.AsyncBaseTransport) else InProcessTransport(app),
        _runtime=InlineRuntime(asyncio.get_running_loop()),
        **options,
    )


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    """Run a scenario on a fresh virtual clock; what its clients took they must have given back."""

    tasks: set[asyncio.Task[Any]] = set()
    timers: list[str] = []

    async def main() -> T:
        result = await scenario()
        for _ in range(3):
            await asyncio.sleep(0)  # what was cancelled last ends
        tasks.update(asyncio.all_tasks() - {asyncio.current_task()})
        timers.extend(_timers_left())
        return result

    with watched() as taken:
        result = run_virtual(main())
    assert taken.left() == []
    assert tasks == set()
    assert timers == []
    return result


def _timers_left() -> list[str]:
    """Timers of clients that would still ring; those of what clients share end by themselves."""
    handles: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    calls = [handle._callback for handle in handles if not handle.cancelled()]  # type: ignore[attr-defined]
    names = [f"{getattr(call, '__module__', '')}.{call.__qualname__}" for call in calls]
    ours = [name for name in names if name.startswith("tinker_ext.")]
    return [name for name in ours if not name.startswith(("tinker_ext.mock.", *SHARED_TIMERS))]


def seqs(app: App, model_id: str) -> list[int | None]:
    """The seq ids that took effect on a model, in the order they did."""
    return [effect.seq for effect in app.log.training(model_id)]


class SteppingLoop(VirtualClockLoop):
    """Counts its iterations and cancels a task at a chosen one: every await point, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.cancel_at: int | None = None
        self.victim: asyncio.Task[Any] | None = None

    def _run_once(self) -> None:
        if self.victim is not None and not self.victim.done():
            self.steps += 1
            if self.steps == self.cancel_at:
                self.victim.cancel()
        super()._run_once()
