"""Places in the order of calls: taken at the call, filled when the batch is encoded."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, InlineRuntime, adam, client, datum, run, server
from scripted import Scripted


@pytest.fixture
def slow_encoding(monkeypatch):
    """Seconds that the next batches take to be encoded beside the loop."""
    seconds = []

    async def offload(self, size, fn, *args):
        await asyncio.sleep(seconds.pop(0) if seconds else 0.0)
        return fn(*args)

    monkeypatch.setattr(InlineRuntime, "offload", offload)
    return seconds


@pytest.mark.parametrize("seq", ["dedupe", "gap", "strict"])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_batch_that_is_encoded_for_long_keeps_its_place(slow_encoding, seq, dropped):
    """M17: what is called later waits, however often it is ready first; or goes on without it."""

    async def scenario():
        async def script(sent, deliver):
            if sent.name == "optim_step":
                await asyncio.sleep(0.2)  # the next in line is looked at while nothing is ready

        network = Scripted(server(seq=seq), script)
        async with client(network) as service, asyncio.timeout(600):
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            steps = [await training.optim_step_async(adam())]
            slow_encoding.extend((9.0, 2.0, 1.0))
            calls = [
                asyncio.ensure_future(
                    training.forward_backward_async([datum(first=first)], "cross_entropy")
                )
                for first in (1, 2, 3)
            ]
            for _ in range(3):
                await asyncio.sleep(0.5)
                steps.append(await training.optim_step_async(adam()))
            if dropped:
                await asyncio.sleep(2.0)  # all others are ready: nobody else lets them go
                calls[0].cancel()
            futures = await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.gather(*futures[dropped:], *steps)
            return [
                sent.name for sent in network.sent if sent.name.startswith(("forward", "optim"))
            ]

    names = run(scenario)
    assert names == ["optim_step", *["forward_backward"] * (3 - dropped), *["optim_step"] * 3]
