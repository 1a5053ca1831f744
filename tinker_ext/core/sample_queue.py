"""Samples that wait: one line per sampling client, served in turn.

A queued sample is a small record, not a task, so 100,000 of them cost a few hundred bytes each and
nothing per request depends on how many wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from tinker_ext._transport import Cancellable
from tinker_ext._wire.sample_body import SampleOptions
from tinker_ext.core.future import LightFuture
from tinker_ext.core.in_flight import Entry
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SampleResponse, SamplingParams

if TYPE_CHECKING:
    from tinker_ext.core.completions import Completions


_FEW = 64


class Progress:
    """The last movement of a group of samples; on the loop.

    Args:
        patience: Seconds without movement after which the group is given up; None never does.
        give_up: Called with the group and its patience.
    """

    __slots__ = ("__weakref__", "_active", "_give_up", "_moved", "_patience", "_timer")

    def __init__(
        self, patience: float | None, give_up: Callable[[Progress, float], object]
    ) -> None:
        self._patience = patience
        self._give_up = give_up
        self._active = 0
        self._moved = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def began(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that a sample was started."""
        self._active += 1
        if self._timer is None and self._patience is not None:
            self._moved = loop.time()
            self._timer = loop.call_later(self._patience, self._look, loop, self._patience)

    def ended(self) -> None:
        """Note that a sample is over, however it ended."""
        self._active -= 1

    def moved(self, now: float) -> None:
        """Note that a sample was accepted or finished."""
        self._moved = now

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._timer = None
        if not self._active:
            return
        if loop.time() - self._moved >= patience:
            self._give_up(self, patience)
            return
        self._timer = loop.call_at(self._moved + patience, self._look, loop, patience)


@attrs.define(eq=False)
class Source:
    """What samples are drawn from: one sampling client.

    Attributes:
        key: Name of the sampler in lists of pending work.
        address: Sampling session, base model or model path, as in the request.
        next_seq_id: Gives the number of a new request; None for addresses without numbers.
        retry: How this client retries; None follows the package.
        completions: Batched completion, where the server offers it.
        prepare: Awaited before the first request, for what must be known to number it.
        in_flight: Samples taken from the queue and not finished.
        progress: Whether its samples move; set by the pool.
    """

    key: str
    address: Mapping[str, str]
    next_seq_id: Callable[[], int] | None
    retry: RetryConfig | None = None
    completions: Completions | None = None
    prepare: Callable[[], Awaitable[None]] | None = None
    in_flight: int = attrs.field(default=0, init=False)
    progress: Progress | None = attrs.field(default=None, init=False)

    @property
    def full(self) -> bool:
        """Whether the client has as many samples in flight as it allows itself."""
        most = None if self.retry is None else self.retry.max_connections
        return most is not None and self.in_flight >= most


class Sample(Entry):
    """One sample call."""

    __slots__ = (
        "key",
        "num_samples",
        "options",
        "params",
        "prompt",
        "result",
        "source",
        "task",
        "timer",
    )

    def __init__(
        self,
        source: Source,
        prompt: ModelInput,
        num_samples: int,
        params: SamplingParams,
        options: SampleOptions,
        started: float,
        deadline: float,
    ) -> None:
        super().__init__("asample", source.key, started, deadline)
        self.source = source
        self.prompt = prompt
        self.num_samples = num_samples
        self.params = params
        self.options = options
        self.key: str | None = None
        """Idempotency key; a repeat of the same request has the same."""
        self.result: LightFuture[SampleResponse] = LightFuture()
        self.task: asyncio.Task[None] | None = None
        self.timer: Cancellable | None = None


class RoundRobin:
    """Queued samples, and whose turn it is. A client at its own limit rests until one ends."""

    def __init__(self) -> None:
        self._turns: deque[Source] = deque()
        self._resting: set[Source] = set()
        self._lines: dict[Source, deque[Sample]] = {}
        self._count = 0
        self._given_up = 0

    def __len__(self) -> int:
        return self._count

    @property
    def ready(self) -> bool:
        """Whether a sample may be taken now."""
        return bool(self._turns)

    def push(self, sample: Sample) -> None:
        """Queue at the end of its client's line."""
        source = sample.source
        line = self._lines.get(source)
        if line is None:
            line = self._lines[source] = deque()
            self._line_up(source)
        line.append(sample)
        self._count += 1

    def pop(self) -> Sample | None:
        """Take the first sample of the client whose turn it is; `ended` must follow.

        Returns:
            The sample, or None when all that were ready had been given up.
        """
        while self._turns:
            source = self._turns.popleft()
            line = self._lines[source]
            sample = line.popleft()
            self._count -= 1
            wanted = not sample.result.done()
            if wanted:
                source.in_flight += 1
            else:
                self._given_up -= 1
            if line:
                self._line_up(source)
            else:
                del self._lines[source]
            if wanted:
                return sample
        return None

    def gave_up(self) -> None:
        """Note that a queued sample is not wanted any more; many of them are let go at once."""
        self._given_up += 1
        if self._given_up <= _FEW or 2 * self._given_up <= self._count:
            return
        self._lines = {
            source: line
            for source, waiting in self._lines.items()
            if (line := deque(sample for sample in waiting if not sample.result.done()))
        }
        self._turns = deque(source for source in self._turns if source in self._lines)
        self._resting &= self._lines.keys()
        self._count = sum(map(len, self._lines.values()))
        self._given_up = 0

    def ended(self, source: Source) -> None:
        """Note that a sample taken by `pop` is over."""
        source.in_flight -= 1
        if source in self._resting:
            self._resting.discard(source)
            self._line_up(source)

    def _line_up(self, source: Source) -> None:
        if source.full:
            self._resting.add(source)
        else:
            self._turns.append(source)

    def __iter__(self) -> Iterator[Sample]:
        for line in list(self._lines.values()):
            yield from list(line)
