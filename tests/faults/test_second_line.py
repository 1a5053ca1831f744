"""The second line: what is given back, kept or refused when the first attempt did not do."""

from __future__ import annotations

import asyncio

import numpy as np
import orjson
import pytest
import zstandard
from faults.hostile import as_it_is
from faults.mutations import Reply
from in_process import MODEL, adam, client, datum, deadline, run, server
from scripted import Scripted

from tinker_ext import (
    Config,
    Datum,
    ModelInput,
    SamplingParams,
    TensorData,
)
from tinker_ext.errors import DeadlineExceededError, InvalidInputError, TinkerError

PROMPT = ModelInput.from_ints([1, 2])
ONE = SamplingParams(max_tokens=1)


@pytest.mark.parametrize("wire", ["json", "proto"])
def test_sparse_floats_arrive_as_they_were(wire):
    """A sparse float tensor keeps its dtype: 0.5 arrives as 0.5, on either wire."""
    dense = np.zeros((4, 64), np.float32)
    dense[0, 3], dense[2, 40] = 0.5, 0.25
    tensor = TensorData.from_numpy(dense)
    sparse = TensorData(
        data=[0.5, 0.25],
        dtype="float32",
        shape=[4, 64],
        sparse_crow_indices=[0, 1, 1, 2, 2],
        sparse_col_indices=[3, 40],
    )
    np.testing.assert_array_equal(sparse.to_numpy(), tensor.to_numpy())
    assert sparse.to_numpy().dtype == np.float32

    async def scenario():
        app = server(validate=False)
        network = Scripted(app)
        async with client(network, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            one = Datum(
                ModelInput.from_ints([1, 2, 3, 4]),
                {"target_tokens": [2, 3, 4, 5], "weights": [0.5, 0.25, 0.0, 1.0]},
            )
            first = await (await training.forward_async([one], "cross_entropy"))
            return first.metrics["loss:sum"], first.loss_fn_outputs[0]["logprobs"].to_numpy()

    loss, logprobs = run(scenario)
    np.testing.assert_allclose(loss, -(logprobs * [0.5, 0.25, 0.0, 1.0]).sum(), rtol=1e-4)


@pytest.mark.parametrize("values", [[1.0, 2.7], [0.5], np.array([1.5, 2.0], np.float32)])
def test_fractions_are_not_cut_to_integers(values):
    """`[1.0, 2.7]` as int64 is refused, not sent as `[1, 2]`."""
    with pytest.raises((InvalidInputError, ValueError, TypeError)):
        TensorData(data=values, dtype="int64")


def test_a_number_stays_itself_over_many_rounds():
    """M20: others wait behind it, so it is sent again past the window: same number, body, key."""
    down_until = None

    async def script(sent, deliver):
        nonlocal down_until
        if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
            now = asyncio.get_running_loop().time()
            down_until = down_until or now + 900.0
            if now < down_until:
                return 503, {"detail": "down"}
        return None

    async def scenario():
        app = server(seq="gap", session_ttl=1e6, future_ttl=1e6)
        network = Scripted(app, script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            batch = [datum(first=i) for i in (1, 2, 3)]
            futures = [
                await training.forward_backward_async(batch, "cross_entropy"),
                await training.optim_step_async(adam()),
            ]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            posts = [s for s in network.of("forward_backward") if s.body["seq_id"] == 2]
            done = [e.seq for e in app.log.training(training.model_id)]
            return ends, posts, done, network.rate()

    ends, posts, done, rate = run(scenario)
    assert len(posts) > 20
    assert len({orjson.dumps(post.body) for post in posts}) == 1
    assert len({post.headers["x-idempotency-key"] for post in posts}) == 1
    assert [type(end).__name__ for end in ends] == ["ForwardBackwardOutput", "OptimStepResponse"]
    assert done == [1, 2, 3, 4, 5]
    assert rate < 20


@pytest.mark.parametrize("end", ["cancelled", "late", "failed", "read"])
def test_bytes_of_an_announced_result_come_back(end):
    """An announced result reserves its bytes; however the wait ends, others get them again."""
    size = 900_000

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and ready and sent.body["request_id"] in first:
            if sent.body.get("allow_metadata_only"):
                return 200, {"status": "complete_metadata", "response_payload_size": size}
            if end == "failed":
                return 200, {"error": "broken", "category": "user"}
            if end != "read":
                await asyncio.sleep(1e5)
        elif sent.name == "asample" and ready and not first:
            response = await deliver()
            first.add(response.json()["request_id"])
            return response
        return None

    first: set[str] = set()
    ready = False

    async def scenario():
        nonlocal ready
        network = Scripted(server(metadata_threshold=1), script)
        config = Config(response_bytes_in_flight=1000, poll_timeout=1e6)
        async with client(network, config=config) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            ready = True
            with deadline(30.0):
                one = sampling.sample(PROMPT, 1, ONE)
            await asyncio.sleep(5.0)
            if end == "cancelled":
                one.cancel()
            (ended,) = await asyncio.gather(one, return_exceptions=True)
            # The budget is smaller than what was announced: two more need it one after the other.
            with deadline(60.0):
                await asyncio.gather(*(sampling.sample_async(PROMPT, 1, ONE) for _ in range(2)))
            return ended

    ended = run(scenario)
    wanted = {"late": DeadlineExceededError, "failed": TinkerError, "cancelled": BaseException}
    if end != "read":
        assert isinstance(ended, wanted[end])


@pytest.mark.parametrize("how", ["cancelled", "late", "refused"])
def test_slots_come_back_when_a_call_ends_early(how):
    """A cancelled, late or refused call leaves its lane, its bytes and its place to others."""

    async def script(sent, deliver):
        if sent.name == "asample" and first:
            if how == "refused":
                return 422, {"detail": "no"}
            await asyncio.sleep(1e5)
        return None

    first = True

    async def scenario():
        nonlocal first
        network = Scripted(server(), script)
        config = Config(sample_concurrency=2, sample_bytes_in_flight=100, request_timeout=1e6)
        async with client(network, config=config) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            with deadline(20.0):
                futures = [sampling.sample(PROMPT, 1, ONE) for _ in range(6)]
            await asyncio.sleep(5.0)
            if how == "cancelled":
                for future in futures:
                    future.cancel()
            await asyncio.gather(*futures, return_exceptions=True)
            first = False
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(sampling.sample_async(PROMPT, 1, ONE) for _ in range(6)))
            return asyncio.get_running_loop().time() - began, len(service.pending())

    seconds, pending = run(scenario)
    assert seconds < 10
    assert pending == 0


def test_a_zstd_window_beyond_reason_is_refused():
    """A reply that asks for a window of gigabytes to unpack it is an error, not an allocation."""
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    body = orjson.dumps({"supported_models": [], "padding": "x" * 2_000_000})
    stream = packer.compressobj()  # without a size in the frame the window counts
    packed = stream.compress(body) + stream.flush()

    async def script(sent, deliver):
        if sent.name == "get_server_capabilities":
            headers = {"content-type": "application/json", "content-encoding": "zstd"}
            return as_it_is(Reply(200, headers, packed, ""))
        return None

    async def scenario():
        network = Scripted(server(), script)
        config = Config(retry_attempts=2)
        async with client(network, config=config) as service:
            with pytest.raises(TinkerError):
                await service.get_server_capabilities_async()

    run(scenario)
