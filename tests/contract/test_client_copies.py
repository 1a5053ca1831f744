"""Copies of a sampling client in other places: numbers of their own, settings that travel."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading

import pytest
from in_process import MODEL, client, run, server
from stub_server import StubServer

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient
from tinker_ext.core.retry_config import RetryConfig
from tinker_ext.errors import APIConnectionError, BadRequestError
from tinker_ext.mock import Server, Settings

PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=2)
JOINING = {"sample_join_sampling_session": True}


def copy_of(sampler, **options):
    """Another copy of a sampling client, on the same connection."""
    return SamplingClient(
        sampler._workspace, sampling_session_id=sampler._source.key, shadow=True, **options
    )


def numbers(stub):
    return [body["seq_id"] for op, body, _ in stub.requests if op == "asample"]


@pytest.mark.parametrize("batched", [False, True])
def test_the_server_numbers_the_copies(batched):
    """M23: each copy joins once, before its first sample, and samples under its number."""

    async def scenario():
        flags = {**JOINING, "sample_use_retrieve_futures": batched}
        app = server(client_config=flags)
        async with client(app) as service:
            original = await service.create_sampling_client_async(base_model=MODEL)
            await original.sample_async(PROMPT, 1, PARAMS)
            assert app.log.requests("join_sampling_session") == []
            copies = [copy_of(original) for _ in range(3)]
            for each in copies:
                await asyncio.gather(*[each.sample_async(PROMPT, 1, PARAMS) for _ in range(4)])
            assert app.log.violations == []
            assert len(app.log.requests("join_sampling_session")) == 3
            assert bool(app.log.requests("retrieve_futures")) is batched
            return [each._clone_id for each in (original, *copies)]

    assert run(scenario) == [0, 1, 2, 3]


def test_requests_of_a_copy_start_at_its_billion():
    """M23: number × 10⁹ and up; the counter of the reply is the number."""

    def answer(operation, body, request):
        if operation == "join_sampling_session":
            assert body["sampling_session_id"] == "S:sample:0"
            return 200, {"type": "join_sampling_session", "client_counter": 7}
        return None

    async def scenario():
        stub = StubServer(answer, config=JOINING)
        async with client(stub, wire="json") as service:
            original = await service.create_sampling_client_async(base_model="m")
            other = copy_of(original)
            for sampler in (original, other, other):
                await sampler.sample_async(PROMPT, 1, PARAMS)
            return numbers(stub)

    assert run(scenario) == [0, 7 * 1_000_000_000, 7 * 1_000_000_000 + 1]


@pytest.mark.parametrize(
    ("flags", "asked"),
    [(JOINING, 1), ({"sample_join_sampling_session": False}, 0), (None, 0)],
)
def test_without_a_number_from_the_server_a_random_one_does(flags, asked):
    """M23 M28: no flag, or a server that lacks the endpoint after all."""

    async def scenario():
        stub = StubServer(config=flags)
        async with client(stub, wire="json") as service:
            other = copy_of(await service.create_sampling_client_async(base_model="m"))
            await other.sample_async(PROMPT, 1, PARAMS)
            assert stub.counts["join_sampling_session"] == asked
            return other._clone_id, numbers(stub)

    clone, seen = run(scenario)
    assert 1 <= clone <= 1_000_000_000
    assert seen == [clone * 1_000_000_000]


def test_a_given_number_is_kept():
    """M23: a copy that was told its number asks nobody."""

    async def scenario():
        stub = StubServer(config=JOINING)
        async with client(stub, wire="json") as service:
            original = await service.create_sampling_client_async(base_model="m")
            await copy_of(original, clone_id=3).sample_async(PROMPT, 1, PARAMS)
            assert stub.counts["join_sampling_session"] == 0
            return numbers(stub)

    assert run(scenario) == [3 * 1_000_000_000]


def test_joining_survives_a_failure():
    """M23 M24: the join is retried; one that fails for good fails the sample, not the copy."""

    async def scenario():
        broken = [True]

        def answer(operation, body, request):
            if operation == "join_sampling_session":
                return (400, {"detail": "no"}) if broken else (200, {"client_counter": 2})
            return None

        stub = StubServer(answer, config=JOINING)
        async with client(stub, wire="json") as service:
            other = copy_of(await service.create_sampling_client_async(base_model="m"))
            with pytest.raises(BadRequestError, match="no"):
                await other.sample_async(PROMPT, 1, PARAMS)
            broken.clear()
            await other.sample_async(PROMPT, 1, PARAMS)
            return numbers(stub)

    assert run(scenario) == [2 * 1_000_000_000]


def test_copies_from_pickles_and_handles_join_and_keep_their_settings():
    """M23 M33: over a port: numbers 1 and 2, heartbeats of their own, the same RetryConfig."""
    config = RetryConfig(max_connections=3, retryable_exceptions=(APIConnectionError,))
    with (
        Server(Settings(client_config=JOINING)) as embedded,
        ServiceClient(base_url=embedded.url, api_key="tml-test") as service,
    ):
        original = service.create_sampling_client(base_model=MODEL, retry_config=config)
        handle = original.get_sampler_handle()
        unpickled = pickle.loads(pickle.dumps(original))
        handled = SamplingClient.from_sampler_handle(handle, api_key="tml-test")
        try:
            tokens = [
                each.sample(PROMPT, 1, SamplingParams(max_tokens=3, seed=1)).result(300)
                for each in (original, unpickled, handled)
            ]
            assert len({tuple(reply.sequences[0].tokens) for reply in tokens}) == 1
            assert [unpickled._clone_id, handled._clone_id] == [1, 2]
            assert unpickled._retry_config == config
            assert handled._retry_config == RetryConfig(max_connections=3)
            assert unpickled._workspace.session._heartbeat is not None
        finally:
            for holder in {unpickled._workspace, handled._workspace}:
                holder.close("success").result(300)


def test_what_copies_share_ends_with_the_last_of_them():
    """M21: a copy that nobody holds any more leaves no thread behind."""
    with ServiceClient(base_url="embedded") as service:
        sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
        first, second = (pickle.loads(pickle.dumps(sampler)) for _ in range(2))
        params = SamplingParams(max_tokens=1)
        prompt = ModelInput.from_ints([1, 2])
        first.sample(prompt, 1, params).result()
        del first
        gc.collect()
        assert second.sample(prompt, 1, params).result().sequences
    del second
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("tinker-ext-loop"):
            thread.join(300)
            assert not thread.is_alive()
