"""Giving up at every await point, on every kind of server, in every way there is.

The points are found by running the loop one iteration at a time, not listed by hand.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from in_process import MODEL, SteppingLoop, adam, client, datum, run, server

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.config import Config
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import DeadlineExceededError

PROFILES = ["dedupe", "strict", "ignore", "gap"]
OPERATIONS = ["forward_backward", "forward_backward", "optim_step", "save_weights"]


async def _calls(training, futures):
    """Three calls, one of them of two chunks, and their results."""
    batch = [datum(2), datum(3)]
    futures.append(await training.forward_backward_async(batch, "cross_entropy"))
    futures.append(await training.optim_step_async(adam()))
    futures.append(await training.save_state_async("s"))
    for future in futures:
        await future


def _attempt(seq, step, give_up):
    """Run the calls, give up at one iteration of the loop, and look at the server."""
    loop = SteppingLoop()
    app = server(seq=seq, request_latency=0.03, latency=0.05)

    async def main():
        async with client(app, config=Config(chunk_datums=1), wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            futures = []
            task = asyncio.ensure_future(_calls(training, futures))
            loop.cancel_at = step
            loop.victim = _Victim(task, futures, give_up)
            await asyncio.gather(task, return_exceptions=True)
            gave_up, loop.victim = loop.victim.struck, None
            assert (await (await training.optim_step_async(adam()))).metrics
            effects = app.log.training(training.model_id)
            assert service.pending() == []
            return gave_up, [e.seq for e in effects], [e.op for e in effects]

    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class _Victim:
    """What the stepping loop cancels: the task that waits, or the futures themselves."""

    def __init__(self, task, futures, how):
        self._task, self._futures, self._how = task, futures, how
        self.struck = False

    def done(self):
        return self._task.done()

    def cancel(self):
        self.struck = True
        if self._how == "task":
            self._task.cancel()
        for future in self._futures if self._how == "futures" else ():
            future.cancel()


@pytest.mark.parametrize(
    ("how", "seq"),
    [*(("task", seq) for seq in PROFILES), ("futures", "dedupe"), ("futures", "gap")],
)
def test_give_up_at_every_await_point(how, seq):
    """M19: the next call completes; the log has no gap, no repeat and the program's order."""
    step = points = 0
    while True:
        step += 1
        gave_up, numbers, operations = _attempt(seq, step, how)
        assert numbers == list(range(1, len(numbers) + 1)), (step, numbers)
        rest = iter([*OPERATIONS, "optim_step"])
        assert all(operation in rest for operation in operations), (step, operations)
        if not gave_up:
            break
        points += 1
    assert operations == [*OPERATIONS, "optim_step"]
    assert points > 10


@pytest.mark.parametrize("seq", PROFILES)
def test_a_deadline_at_any_time(seq):
    """M19 M22: whenever the deadline strikes, the client goes on and the numbers stay whole."""

    async def scenario(seconds):
        app = server(seq=seq, request_latency=0.03, latency=0.05)
        async with client(app, config=Config(chunk_datums=1), wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            late = 0
            with deadline(seconds):
                step = await training.forward_backward_async([datum(2)] * 2, "cross_entropy")
                update = await training.optim_step_async(adam())
            for future in (step, update):
                try:
                    await future
                except DeadlineExceededError:
                    late += 1
            await (await training.optim_step_async(adam()))
            assert service.pending() == []
            return late, [effect.seq for effect in app.log.training(training.model_id)]

    ends = set()
    for hundredths in range(1, 40, 3):
        late, numbers = run(lambda seconds=hundredths / 100 + 0.001: scenario(seconds))
        assert numbers == list(range(1, len(numbers) + 1)), (hundredths, numbers)
        ends.add(late)
    assert {0, 2} <= ends


def test_samples_given_up_at_any_time():
    """M19 M23: cancelled samples free their places; the others are answered."""

    async def scenario(seed):
        rng = random.Random(seed)
        app = server(request_latency=0.03, latency=0.05)
        config = Config(sample_concurrency=4)
        async with client(app, config=config) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1, seed=1)
            futures = [sampler.sample(prompt, 1, params) for _ in range(24)]
            given_up = rng.sample(futures, 12)
            for future in given_up:
                await asyncio.sleep(rng.expovariate(50.0))
                future.cancel()
            done = await asyncio.gather(*futures, return_exceptions=True)
            assert service.pending() == []
            kept = [end for end, f in zip(done, futures, strict=True) if f not in given_up]
            return [len(reply.sequences) for reply in kept]

    for seed in range(10):
        assert run(lambda seed=seed: scenario(seed)) == [1] * 12
