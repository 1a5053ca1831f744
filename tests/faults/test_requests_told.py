"""What an observer is told of each request: which attempt, how large, what came of it."""

from __future__ import annotations

import httpx
import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.telemetry import (
    OperationFinished,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
)


@pytest.mark.parametrize("failure", [503, None])
def test_attempts_are_counted_from_one(failure):
    """M34: two failures and a success are attempts 1, 2 and 3, in every kind of event."""
    events, bodies = [], []

    async def script(sent, deliver):
        if sent.name == "asample":
            bodies.append(sent)
            if len(bodies) <= 2:
                if failure is None:
                    raise httpx.ReadError("reset")
                return failure, {"detail": "unwell"}
        return None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network, on_event=events.append) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            events.clear()
            prompt = ModelInput.from_ints([1, 2])
            for _ in range(2):
                await sampler.sample_async(prompt, 1, SamplingParams(max_tokens=1))

    run(scenario)
    ended = [event for event in events if isinstance(event, OperationFinished)]
    assert [(event.number, event.retries) for event in ended] == [(1, 2), (2, 0)]
    requests = (RequestStarted, RequestFinished, RetryScheduled)
    mine = [each for each in events if isinstance(each, requests) and each.operation == "asample"]
    started = [event for event in mine if isinstance(event, RequestStarted)]
    finished = [event for event in mine if isinstance(event, RequestFinished)]
    retried = [event for event in mine if isinstance(event, RetryScheduled)]
    assert [event.attempt for event in started] == [1, 2, 3, 1]
    assert started[0].size == started[2].size == int(bodies[0].headers["content-length"])
    assert [event.attempt for event in finished] == [1, 2, 3, 1]
    assert [event.status for event in finished[:2]] == [failure] * 2
    assert finished[2].status in (200, 202)
    assert [event.error is None for event in finished] == [failure is not None] * 2 + [True] * 2
    assert [event.attempt for event in retried] == [1, 2]
    assert {event.lane.value for event in mine} == {"sample"}


@pytest.mark.parametrize("by", ["base_model", "model_path", "training client"])
def test_a_sample_names_the_base_model_behind_it(by):
    """M34: its price depends on that, however the sampler was made."""
    events = []

    async def scenario():
        async with client(server(), on_event=events.append) as service:
            where = {"base_model": MODEL}
            if by != "base_model":
                training = await service.create_lora_training_client_async(MODEL, rank=1)
                saved = await (await training.save_weights_for_sampler_async("w"))
                where = {"model_path": saved.path}
            if by == "training client":
                sampler = await training.save_weights_and_get_sampling_client_async()
            else:
                sampler = await service.create_sampling_client_async(**where)
            prompt = ModelInput.from_ints([1, 2])
            await sampler.sample_async(prompt, 1, SamplingParams(max_tokens=1))

    run(scenario)
    (ended,) = [
        event
        for event in events
        if isinstance(event, OperationFinished) and event.operation == "asample"
    ]
    assert ended.model == MODEL
    assert ended.tokens.prefill == 2
    assert ended.tokens.sample == ended.tokens_out
    assert (ended.tokens_in, ended.datums) == (2, 1)
