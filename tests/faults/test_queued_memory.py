"""What a queued sample costs; the long form with 100,000 of them is `nox -s soak`."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from in_process import client, run
from stub_server import StubServer

from tinker_ext import ModelInput, SamplingParams

QUEUED = 10_000


def test_a_queued_sample_costs_little():
    """M23: at most 3 KB beyond its prompt, sent or not, and all of it is given back."""

    async def never(operation, body, request):
        if operation == "asample":
            await asyncio.sleep(1e6)

    async def scenario():
        service = client(StubServer(never))
        sampler = await service.create_sampling_client_async(base_model="m")
        params = SamplingParams(max_tokens=1)
        prompts = [ModelInput.from_ints([1, 2, 3]) for _ in range(QUEUED)]
        await asyncio.sleep(0)
        gc.collect()
        tracemalloc.start()
        futures = [sampler.sample(prompt, 1, params) for prompt in prompts]
        for _ in range(50):
            await asyncio.sleep(0)
        queued = tracemalloc.get_traced_memory()[0]
        assert service.holder.samples.queued + service.holder.samples.in_flight == QUEUED
        await service.close("success")
        del futures
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return queued / QUEUED, left / QUEUED

    each, left = run(scenario)
    assert each < 3072
    assert left < 100
