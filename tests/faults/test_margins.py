"""The edges: the last attempt, the last waiter, the smallest value, one more than fits."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, deadline, run, server
from scripted import Scripted

from tinker_ext import ModelInput, RetryConfig, SamplingParams
from tinker_ext.core.in_flight import Entry, InFlight
from tinker_ext.errors import APIStatusError, InvalidInputError, TinkerError
from tinker_ext.types import SampleRequest

PROMPT = ModelInput.from_ints([1, 2])
ONE = SamplingParams(max_tokens=1)
NUMBERS = ("num_samples", "topk_prompt_logprobs", "topk_sample_logprobs", "prompt_alt_tokens_k")


def test_the_fourth_conflict_is_the_answer():
    """F4 M24: a 409 that stays is asked about four times, not three and not five."""

    async def script(sent, deliver):
        return (409, {"detail": "conflict"}) if sent.name == "optim_step" else None

    async def scenario():
        network = Scripted(server(seq="dedupe"), script)
        async with client(network, wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with pytest.raises(TinkerError):
                await (await training.optim_step_async(adam()))
            return network.count("optim_step")

    assert run(scenario) == 4


@pytest.mark.parametrize(
    ("field", "least"),
    [("max_tokens", 0), ("temperature", 0.0), ("top_p", 0.0)],
)
def test_the_smallest_value_is_a_value(field, least):
    """M7: what a parameter may be at the least is taken; less is refused."""
    assert getattr(SamplingParams(**{field: least}), field) == least
    with pytest.raises(InvalidInputError, match=field):
        SamplingParams(**{field: least - 1})


def test_samples_that_wait_for_a_slot_are_shown():
    """M12: `pending()` tells of every sample, also of those that were not sent yet."""

    async def scenario():
        app = server(latency=5.0)
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(
                base_model=MODEL, retry_config=RetryConfig(max_connections=2)
            )
            futures = [sampler.sample(PROMPT, 1, ONE) for _ in range(6)]
            await asyncio.sleep(1.0)
            shown = [each for each in service.pending() if each.operation == "asample"]
            await asyncio.gather(*futures)
            return len(shown), service.pending()

    assert run(scenario) == (6, [])


def test_a_forked_child_shows_nothing_of_its_parent():
    """F19: what the parent waits for is not the child's."""

    async def scenario():
        entries = InFlight(60.0)
        entries.add(Entry("optim_step", "m", 0.0, 10.0))
        before = len(entries.snapshot(1.0))
        entries.after_fork()
        return before, entries.snapshot(1.0)

    assert asyncio.run(scenario()) == (1, [])


@pytest.mark.parametrize(
    ("method", "status", "words", "ends"),
    [
        ("unpublish", 400, "the checkpoint is not public", True),
        ("unpublish", 404, "the checkpoint is not public", True),
        ("unpublish", 409, "conflict", True),
        ("unpublish", 403, "only public to its owner", False),
        ("unpublish", 404, "no such checkpoint", False),
        ("publish", 404, "the checkpoint is not public", False),
        ("publish", 409, "it is public already", True),
    ],
)
def test_what_was_not_published_is_not_unpublished(method, status, words, ends):
    """M36: only a refusal that says so means that there is nothing to take back."""

    async def script(sent, deliver):
        return (status, {"detail": words}) if sent.name.endswith("/publish") else None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network) as service:
            rest = service.create_rest_client()
            call = getattr(rest, f"{method}_checkpoint_from_tinker_path_async")
            try:
                await call("tinker://run/weights/x")
            except APIStatusError as error:
                return error.status_code
            return None

    assert run(scenario) == (None if ends else status)


def test_the_last_who_gives_up_ends_the_questions():
    """F8: batched completion asks on while one waits, and hangs up on the server after that."""
    held = 0

    async def script(sent, deliver):
        nonlocal held
        if sent.name != "retrieve_futures":
            return None
        held += 1
        try:
            await asyncio.sleep(20.0)
        finally:
            held -= 1
        return 200, {"completions": [], "cursor": 0}

    async def scenario():
        app = server(latency=1000.0, client_config={"sample_use_retrieve_futures": True})
        network = Scripted(app, script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            futures = [sampler.sample(PROMPT, 1, ONE) for _ in range(2)]
            await asyncio.sleep(5.0)
            futures[0].cancel()
            before = network.count("retrieve_futures")
            await asyncio.sleep(120.0)
            between = network.count("retrieve_futures")
            futures[1].cancel()
            await asyncio.sleep(1.0)
            last, left = network.count("retrieve_futures"), held
            await asyncio.sleep(120.0)
            return before < between, left, network.count("retrieve_futures") - last

    assert run(scenario) == (True, 0, 0)


def test_a_request_asks_for_nothing_by_default():
    """M4: no log-probabilities, no alternatives, one sequence."""
    request = SampleRequest(prompt=PROMPT, sampling_params=ONE)
    asked = {name: getattr(request, name) for name in NUMBERS}
    assert asked == {**dict.fromkeys(NUMBERS, 0), "num_samples": 1}


@pytest.mark.parametrize("left", [0.9, 0.4])
def test_a_retry_that_fits_into_the_last_second_is_made(left):
    """M22 F22: a deadline ends the waiting, not the second before it."""
    refused = 0

    async def script(sent, deliver):
        nonlocal refused
        if sent.name == "asample" and not refused:
            refused += 1
            return 429, {"detail": "busy"}, {"retry-after": "0.1"}
        return None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with deadline(left):
                await sampler.sample_async(PROMPT, 1, ONE)
            return network.count("asample")

    assert run(scenario) == 2


@pytest.mark.parametrize(
    ("held", "said"), [("retrieve_future", 0), ("session_heartbeat", 0), ("optim_step", 1)]
)
def test_only_what_should_be_answered_at_once_is_reported_as_slow(held, said, caplog):
    """M12: a poll is held on purpose; a post that has no answer for seconds is worth a line."""

    async def script(sent, deliver):
        if sent.name == held and ready:
            await asyncio.sleep(20.0)

    ready = False

    async def scenario():
        nonlocal ready
        async with client(Scripted(server(), script)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ready = True
            await (await training.optim_step_async(adam()))
            await asyncio.sleep(60.0)

    run(scenario)
    assert sum("has had no answer" in record.getMessage() for record in caplog.records) == said
