"""What a client takes of its process it gives back once: the loop, timers of samples, polls."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, InlineRuntime, client, run, server
from scripted import Scripted

from tinker_ext import Config, ModelInput, SamplingParams
from tinker_ext.core.loop import CoreLoop
from tinker_ext.errors import APIStatusError, ClientClosedError, DeadlineExceededError
from tinker_ext.mock import embedded

PROMPT, ONE = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)


@pytest.fixture
def taken(monkeypatch):
    """How often the loop was taken and given back."""
    calls = []
    monkeypatch.setattr(InlineRuntime, "retain", lambda self: calls.append("taken"))
    monkeypatch.setattr(InlineRuntime, "release", lambda self: calls.append("given back"))
    return calls


@pytest.mark.parametrize("use", ["unused", "used", "used twice", "failed"])
def test_the_loop_is_taken_when_first_used_and_given_back_once(taken, use):
    """M16: whatever a client was used for, and however often it is closed."""

    async def scenario():
        async def script(sent, deliver):
            return (400, {"detail": "no"}) if use == "failed" else None

        service = client(Scripted(server(), script))
        assert taken == []
        if use == "failed":
            with pytest.raises(APIStatusError):
                await service.create_sampling_client_async(base_model=MODEL)
        elif use != "unused":
            for _ in range(1 + (use == "used twice")):
                await service.create_sampling_client_async(base_model=MODEL)
            assert taken == ["taken"]
        await service.close()
        await service.close()

    run(scenario)
    assert taken == ([] if use == "unused" else ["taken", "given back"])


def test_samples_that_are_queued_when_a_client_is_closed_end_with_it():
    """M16: those under way and those that wait for a slot, now and not at their deadlines."""

    async def scenario():
        async def script(sent, deliver):
            if sent.name == "asample":
                await asyncio.sleep(1e5)

        network = Scripted(server(), script)
        service = client(network, config=Config(sample_concurrency=2, request_timeout=1e6))
        sampling = await service.create_sampling_client_async(base_model=MODEL)
        futures = [sampling.sample(PROMPT, 1, ONE) for _ in range(5)]
        await asyncio.sleep(1.0)
        before = asyncio.get_running_loop().time()
        await service.close()
        ends = await asyncio.gather(*futures, return_exceptions=True)
        return ends, asyncio.get_running_loop().time() - before

    ends, seconds = run(scenario)
    assert [type(end) for end in ends] == [ClientClosedError] * 5
    assert not any(isinstance(end, DeadlineExceededError) for end in ends)
    assert seconds < 60


def test_a_server_without_batched_completion_is_asked_for_it_once():
    """M42: from then on every sample asks for its own result."""

    async def scenario():
        async def script(sent, deliver):
            return (404, {"detail": "Not Found"}) if sent.name == "retrieve_futures" else None

        config = {"sample_use_retrieve_futures": True, "seq_ids": "dedupe"}
        network = Scripted(server(client_config=config, latency=1.0), script)
        async with client(network) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            for _ in range(3):
                await sampling.sample_async(PROMPT, 1, ONE)
        return network.count("retrieve_futures"), network.count("retrieve_future")

    batched, single = run(scenario)
    assert batched == 1
    assert single >= 3


def test_embedded_servers_are_forgotten_by_a_reset():
    """M40: for tests: what was trained before it is not there after it."""
    first = embedded.application("embedded")
    assert embedded.application("embedded") is first
    embedded.reset()
    assert embedded.application("embedded") is not first
    embedded.reset()


def test_an_error_that_is_kept_keeps_nothing_that_ran_beside_it():
    """F46: its frames are those of the loop, and what these name would live as long as it does."""
    loop = CoreLoop()
    kept, gone = [], []

    def fail():
        try:
            raise ValueError("kept")
        except ValueError as error:
            kept.append(error)

    class Held:
        def __del__(self):
            gone.append(self.__class__)

    def beside():
        loop.call_soon(fail)
        loop.call_soon(loop.stop)
        loop.call_soon(id, Held())

    loop.call_soon(beside)
    loop.run_forever()
    loop.close()
    assert kept
    assert gone == [Held]
