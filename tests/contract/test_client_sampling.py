"""Sampling clients against the server: both wires, limits, fairness, back-off, cancelling."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from in_process import MODEL, WIRES, client, run, server

from tinker_ext import ModelInput, SamplingParams, TensorData
from tinker_ext.config import Config
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import InvalidInputError

PROMPT = ModelInput.from_ints([1, 2, 3, 4])


def params(**fields):
    return SamplingParams(**{"max_tokens": 4, "seed": 3, **fields})


@pytest.mark.parametrize("wire", WIRES)
def test_a_sample_with_everything_asked_for(wire):
    """M23: sequences, logprobs, top-k and prompt logprobs come back on either wire."""

    async def scenario():
        app = server()
        async with client(app, wire=wire) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            reply = await sampler.sample_async(
                PROMPT, 2, params(), include_prompt_logprobs=True, topk_prompt_logprobs=2
            )
            assert app.log.violations == []
            return reply

    reply = run(scenario)
    assert len(reply.sequences) == 2
    for sequence in reply.sequences:
        assert isinstance(sequence.tokens, list)
        assert len(sequence.tokens) == len(sequence.logprobs) == 4
        assert sequence.stop_reason == "length"
        assert sequence.sequence_id
    assert reply.prompt_logprobs[0] is None
    assert all(value < 0 for value in reply.prompt_logprobs[1:])
    assert len(reply.topk_prompt_logprobs) == 4
    assert len(reply.topk_prompt_logprobs[1]) == 2


def test_both_wires_sample_the_same():
    """M27: one seed gives the same tokens and logprobs over JSON and protobuf."""

    async def scenario(wire):
        async with client(server(), wire=wire) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            return await sampler.sample_async(PROMPT, 2, params(), include_prompt_logprobs=True)

    left, right = (run(lambda w=w: scenario(w)) for w in WIRES)
    assert [s.tokens for s in left.sequences] == [s.tokens for s in right.sequences]
    assert [s.logprobs for s in left.sequences] == [s.logprobs for s in right.sequences]
    assert left.prompt_logprobs == right.prompt_logprobs


def test_all_request_fields_of_the_second_era():
    """M23: alternatives, targets and the suffix of prompt logprobs are sent when asked for."""

    async def scenario():
        app = server()
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(
                base_model=MODEL, record_stability_info=True
            )
            targets = TensorData(data=np.ones((3, 2), np.int64))
            reply = await sampler.sample_async(
                PROMPT,
                1,
                params(stop=["x"], top_k=5, top_p=0.9, temperature=0.5),
                include_prompt_logprobs=True,
                topk_sample_logprobs=2,
                target_prompt_logprobs=targets,
                prompt_alt_tokens_k=2,
                prompt_logprobs_last_n=2,
            )
            assert app.log.violations == []
            return reply

    reply = run(scenario)
    assert reply.target_prompt_logprobs is not None
    assert reply.prompt_alt_tokens is not None
    assert reply.sequences[0].topk_logprobs is not None


@pytest.mark.parametrize("wire", WIRES)
def test_compute_logprobs_has_one_value_per_token(wire):
    """M23: N values, the first None."""

    async def scenario():
        async with client(server(), wire=wire) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            return await sampler.compute_logprobs_async(PROMPT)

    values = run(scenario)
    assert len(values) == 4
    assert values[0] is None
    assert all(isinstance(value, float) for value in values[1:])


def test_three_addressing_modes():
    """M23: a sampling session, and where the server has none the model path or base model."""

    async def scenario():
        app = server(without=("create_sampling_session",))
        async with client(app) as service:
            base = await service.create_sampling_client_async(base_model=MODEL)
            first = await base.sample_async(PROMPT, 1, params())
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            saved = await (await training.save_weights_for_sampler_async("x"))
            tuned = await service.create_sampling_client_async(model_path=saved.path)
            second = await tuned.sample_async(PROMPT, 1, params())
            assert "create_sampling_session" in service.dialect.lacks
            return first.sequences[0].tokens, second.sequences[0].tokens

    first, second = run(scenario)
    assert len(first) == len(second) == 4


def test_sampling_session_numbers_are_shared_with_ephemeral_saves():
    """M18: one counter per session, for both ways to get a sampling session."""

    async def scenario():
        app = server()
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            clients = [
                await service.create_sampling_client_async(base_model=MODEL),
                await training.save_weights_and_get_sampling_client_async(),
                await service.create_sampling_client_async(base_model=MODEL),
            ]
            return [c._sampling_session_id.rsplit(":", 1)[-1] for c in clients]

    assert run(scenario) == ["0", "1", "2"]


def test_many_at_once_all_finish_with_their_own_number():
    """M23: 300 samples at once, each with a number of its own, starting at 0."""

    async def scenario():
        app = server()
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            futures = [sampler.sample(PROMPT, 1, params(max_tokens=1)) for _ in range(300)]
            assert len(sampler.pending()) == 300
            await asyncio.gather(*(asyncio.ensure_future(_value(f)) for f in futures))
            assert service.pending() == []
            return app.log.counts["asample"]

    assert run(scenario) == 300


async def _value(future):
    return await future


def test_a_small_queue_does_not_wait_behind_a_large_one():
    """M23: samplers are served in turn, whoever queued first."""

    async def scenario():
        app = server(latency=1.0)
        async with client(app, config=Config(sample_concurrency=20)) as service:
            crowd = await service.create_sampling_client_async(base_model=MODEL)
            single = await service.create_sampling_client_async(base_model=MODEL)
            futures = [crowd.sample(PROMPT, 1, params(max_tokens=1)) for _ in range(200)]
            await asyncio.sleep(0)
            few = [single.sample(PROMPT, 1, params(max_tokens=1)) for _ in range(3)]
            for future in few:
                await future
            left = sum(not future.done() for future in futures)
            for future in futures:
                await future
            return left

    assert run(scenario) > 100


def test_a_cancelled_sample_is_given_up_and_reported():
    """M19 M23: cancelling frees its place; the server is told where it wants to know."""

    async def scenario():
        app = server(latency=50.0, dynamic_config={"sample_cancel_enabled": True})
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            task = asyncio.ensure_future(sampler.sample_async(PROMPT, 1, params()))
            await asyncio.sleep(1.0)
            task.cancel()
            (end,) = await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(1.0)
            assert service.pending() == []
            return end, app.log.counts["cancel_future"]

    end, cancels = run(scenario)
    assert isinstance(end, asyncio.CancelledError)
    assert cancels == 1


def test_a_client_is_closed_before_it_knows_whether_to_report_cancelled_samples():
    """M21: what was to be reported is let go; `run` sees that nothing is left."""

    async def scenario():
        app = server(latency=50.0, dynamic_config={"sample_cancel_enabled": True})
        app.faults.add("hang", path="client/dynamic_config", delay=600.0)
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            tasks = [
                asyncio.ensure_future(sampler.sample_async(PROMPT, 1, params())) for _ in range(3)
            ]
            await asyncio.sleep(1.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(1.0)
        return app.faults.struck, app.log.counts["cancel_future"]

    struck, cancels = run(scenario)
    assert struck
    assert cancels == 0


def test_an_expired_sample_is_submitted_again():
    """M22: 410 on the future of a sample leads to a new request."""

    async def scenario():
        app = server()
        app.faults.add("expired_future", path="retrieve_future", nth=1)
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            reply = await sampler.sample_async(PROMPT, 1, params())
            return reply, app.log.counts["asample"]

    reply, requests = run(scenario)
    assert len(reply.sequences[0].tokens) == 4
    assert requests == 2


def test_a_queued_sample_ends_at_its_deadline():
    """M22: no future outlives its deadline, queued or not."""

    async def scenario():
        app = server(latency=500.0)
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with deadline(30.0):
                futures = [sampler.sample(PROMPT, 1, params()) for _ in range(100)]
            ends = await asyncio.gather(*map(_value, futures), return_exceptions=True)
            return ends, asyncio.get_running_loop().time(), service.pending()

    ends, now, pending = run(scenario)
    assert all(isinstance(end, TimeoutError) for end in ends)
    assert now < 40
    assert pending == []


def test_batched_completion():
    """M22: where the server offers retrieve_futures, one poll tells about all samples."""

    async def scenario():
        app = server(latency=2.0, client_config={"sample_use_retrieve_futures": True})
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            futures = [sampler.sample(PROMPT, 1, params(max_tokens=1)) for _ in range(200)]
            for future in futures:
                assert len((await future).sequences) == 1
            counts = app.log.counts
            return counts["retrieve_futures"], counts["retrieve_future"], app.log.violations

    batched, single, violations = run(scenario)
    assert violations == []
    assert batched < 60
    assert single <= 210


def test_sample_arguments_are_checked_at_the_call():
    """M38: mistakes raise before anything is sent."""

    async def scenario():
        app = server()
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            for call in (
                lambda: sampler.sample([1, 2], 1, params()),
                lambda: sampler.sample(PROMPT, 0, params()),
                lambda: sampler.sample(PROMPT, 1, {"max_token": 3}),
                lambda: sampler.sample(PROMPT, 1, ["max_tokens", 3]),
                lambda: sampler.sample(PROMPT, 1, params(), prompt_logprobs_last_n=2),
                lambda: service.create_sampling_client(),
                lambda: service.create_sampling_client(model_path="name", base_model=None),
            ):
                with pytest.raises(InvalidInputError):
                    call()
            return app.log.counts["asample"]

    assert run(scenario) == 0


def test_samples_survive_an_unhealthy_server():
    """M24: 5xx, resets and lost answers are waited out."""

    async def scenario():
        app = server(seed=5)
        for kind, options in (
            ("status", {"status": 503}),
            ("reset", {}),
            ("drop_response", {}),
            ("html", {"status": 502}),
        ):
            app.faults.add(kind, path="asample", probability=0.1, **options)
            app.faults.add(kind, path="retrieve_future", probability=0.1, **options)
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            futures = [sampler.sample(PROMPT, 1, params(max_tokens=1)) for _ in range(60)]
            for future in futures:
                assert len((await future).sequences) == 1
            assert app.faults.struck

    run(scenario)


def test_parameters_of_a_dict():
    """M16, M30: as the official client takes them; trinity-rft passes a dict with an int top_p."""

    async def scenario():
        async with client(server()) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            values = {"max_tokens": 4, "seed": 3, "top_k": -1, "top_p": 1}
            reply = await sampler.sample_async(PROMPT, 1, values)
            same = await sampler.sample_async(PROMPT, 1, SamplingParams(**values))
            assert reply.sequences[0].tokens == same.sequences[0].tokens
            with pytest.raises(InvalidInputError, match=r"sampling_params.*max_token'"):
                await sampler.sample_async(PROMPT, 1, {"max_token": 4})

    run(scenario)
