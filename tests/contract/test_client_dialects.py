"""Servers that differ: eras, missing endpoints, refused wires, and what the client makes of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted
from stub_server import StubServer

from tinker_ext import Config, ModelInput, SamplingParams, ServiceClient, mock
from tinker_ext._wire import dialect as dialects
from tinker_ext.conform import dialect_file
from tinker_ext.conform import run as examine
from tinker_ext.errors import (
    ConfigurationError,
    ConflictError,
    FeatureMissingError,
    FutureExpiredError,
    RequestFailedError,
)

SKYRL = {"pjwt_auth_enabled": False}


@pytest.fixture(autouse=True)
def _forget():
    dialects._wires.pop("http://server.test", None)
    yield
    dialects._wires.pop("http://server.test", None)


@pytest.mark.parametrize("era", ["0.4.1", "0.36.0", "both"])
def test_every_era_of_the_server(era):
    """M27 M28: the wire is chosen by asking, and old strict servers take our bodies."""

    async def scenario():
        app = server(era=era)
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            step = await training.forward_backward_async([datum()], "cross_entropy")
            update = await training.optim_step_async(adam())
            assert (await step).loss > 0
            await update
            sampler = await training.save_weights_and_get_sampling_client_async()
            reply = await sampler.sample_async(
                ModelInput.from_ints([1, 2]), 1, SamplingParams(max_tokens=2)
            )
            assert len(reply.sequences[0].tokens) == 2
            saved = await (await training.save_state_async("s"))
            await service.create_training_client_from_state_async(saved.path)
            assert app.log.violations == []
            return service.dialect

    dialect = run(scenario)
    assert dialect.wire == ("json" if era == "0.4.1" else "proto")
    assert dialect.era == ("0.4.1" if era == "0.4.1" else "0.36.0")


def test_a_server_with_a_bare_config_is_spoken_to_in_json():
    """M28: a reply without flags of the second era means JSON, without trying protobuf."""

    async def scenario():
        stub = StubServer(config=SKYRL)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            types = [
                request.headers["content-type"]
                for operation, _, request in stub.requests
                if operation == "forward_backward"
            ]
            return service.dialect.seq, types

    seq, types = run(scenario)
    assert types == ["application/json"]
    assert seq == "unknown"


@pytest.mark.parametrize("status", [415, 422, 500])
def test_a_refused_wire_is_changed_once_and_remembered(status):
    """M27: one refusal of protobuf, then JSON for this server and every later client."""

    def refuse(operation, body, request):
        if request.headers.get("content-type") == "application/x-protobuf":
            return status, {"detail": "no protobuf"}
        return None

    async def scenario():
        stub = StubServer(refuse, config={"fwdbwd_max_chunk_len": 64})
        for _ in range(2):
            async with client(stub) as service:
                training = await service.create_lora_training_client_async("m", rank=4)
                await (await training.forward_backward_async([datum()], "cross_entropy"))
                chosen = service.dialect
        return stub, chosen

    stub, chosen = run(scenario)
    bodies = [
        (request.headers["content-type"], body)
        for operation, body, request in stub.requests
        if operation == "forward_backward"
    ]
    sent = [kind.rpartition("/")[2] for kind, _ in bodies]
    # A server that breaks may have read the body: a request without effect tries the wire, a few
    # times, and then the other one.
    probes = ["x-protobuf"] * 3 if status == 500 else []
    assert sent == ["x-protobuf", *probes, "json", "json"]
    assert bodies[1 + len(probes)][1]["seq_id"] == 1
    assert (chosen.wire, chosen.chosen_by) == ("json", "found")


def test_missing_features_are_named():
    """M28: a feature the server lacks is an error that says so, at once."""

    async def scenario():
        def handler(operation, body, request):
            missing = operation == "save_weights_external"
            return (404, {"detail": "Not Found"}) if missing else None

        async with client(StubServer(handler)) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            rest = service.create_rest_client()
            with pytest.raises(FeatureMissingError, match="has no"):
                await rest.list_sessions_async()
            future = await training.save_weights_external_async("x")
            (end,) = await asyncio.gather(future, return_exceptions=True)
            return end

    assert "save_weights_external" in str(run(scenario))


def test_heartbeats_stop_quietly_where_there_are_none(caplog):
    """F9 M21 M28: three 404 on the heartbeat, and no answer ever, end it without a word."""

    async def scenario():
        def handler(operation, body, request):
            return (404, {"detail": "Not Found"}) if operation == "session_heartbeat" else None

        stub = StubServer(handler)
        async with client(stub) as service:
            await service.create_lora_training_client_async("m", rank=4)
            await asyncio.sleep(100.0)
            return stub.counts["session_heartbeat"]

    assert run(scenario) == 3
    assert not [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]


def test_absent_sequence_ids_and_short_prompt_logprobs():
    """M28: no sample_sequence_ids is fine, and n - 1 prompt logprobs get their first None."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "retrieve_future":
                return 200, {
                    "sequences": [{"stop_reason": "length", "tokens": [5], "logprobs": [-1.0]}],
                    "prompt_logprobs": [-0.5, -0.25],
                }
            return None

        async with client(StubServer(handler)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            return await sampler.compute_logprobs_async(ModelInput.from_ints([1, 2, 3]))

    assert run(scenario) == [None, -0.5, -0.25]


def test_failures_as_400_keep_their_message():
    """M20 M28 M43: SkyRL reports a failed request as 400 with a detail, and so may a gateway.

    It is asked again, and then the server has refused the request; what became of it is not said.
    """

    async def scenario():
        def handler(operation, body, request):
            if operation == "retrieve_future" and body["request_id"] != "r0":
                return 400, {"detail": "rank too large"}
            return None

        stub = StubServer(handler)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.optim_step_async(adam())
            (end,) = await asyncio.gather(future, return_exceptions=True)
            return end, stub.counts["retrieve_future"]

    error, polls = run(scenario)
    assert isinstance(error, RequestFailedError)
    assert error.message == "rank too large"
    assert error.effect == "It may or may not have taken effect."
    assert polls == 4


def test_an_unknown_future_is_expired():
    """M22 M28: 404 on a training future is a typed error."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "retrieve_future" and body["request_id"] != "r0":
                return 404, {"detail": "Future not found"}
            return None

        async with client(StubServer(handler)) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.optim_step_async(adam())
            return (await asyncio.gather(future, return_exceptions=True))[0]

    assert isinstance(run(scenario), FutureExpiredError)


def test_a_taken_name_fails_at_once():
    """M24: 409 on a save is an answer, and the next call leaves."""

    async def scenario():
        def handler(operation, body, request):
            return (409, {"detail": "name taken"}) if operation == "save_weights" else None

        stub = StubServer(handler)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            saved = await training.save_state_async("a")
            (end,) = await asyncio.gather(saved, return_exceptions=True)
            await (await training.optim_step_async(adam()))
            sent = [body["seq_id"] for op, body, _ in stub.requests if op == "optim_step"]
            return end, stub.counts["save_weights"], sent

    error, tries, numbers = run(scenario)
    assert isinstance(error, ConflictError)
    assert tries == 1
    assert numbers == [1]


def test_polls_that_answer_at_once_are_paced():
    """M22: a server that never holds a poll is asked about once a second, not in a tight loop."""

    async def scenario():
        ready_at = 120.0

        def handler(operation, body, request):
            now = asyncio.get_running_loop().time()
            if operation == "retrieve_future" and body["request_id"] != "r0" and now < ready_at:
                return 200, {
                    "type": "try_again",
                    "request_id": body["request_id"],
                    "queue_state": "active",
                }
            return None

        stub = StubServer(handler)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.optim_step_async(adam()))
            return stub.counts["retrieve_future"]

    assert run(scenario) < 250


def test_a_thousand_futures_do_not_hammer_an_unhealthy_server():
    """M24: 60 s of 503 cost at most 3 polls a second, and all finish soon after."""

    async def scenario():
        loop = asyncio.get_running_loop()
        down_from, down_until = 5.0, 65.0
        polls = []

        def handler(operation, body, request):
            now = loop.time()
            if operation == "retrieve_future":
                polls.append(now)
                if down_from <= now < down_until:
                    return 503, {"detail": "unhealthy"}
                if now < down_from:
                    return wait_then_408(now)
            return None

        async def wait_then_408(now):
            await asyncio.sleep(max(0.0, down_from - now))
            return 408, {"queue_state": "active"}

        stub = StubServer(handler)
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt = ModelInput.from_ints([1])
            futures = [sampler.sample(prompt, 1, SamplingParams(max_tokens=1)) for _ in range(300)]
            for future in futures:
                await future
            burst = [t for t in polls if down_from + 5 <= t < down_until]
            return len(burst) / 55, loop.time()

    rate, finished = run(scenario)
    assert rate <= 3.0
    assert finished <= 67.5


@pytest.mark.parametrize(
    ("settings", "seq"), [({"seq": "late", "declared": False}, "late"), ({"era": "0.4.1"}, None)]
)
def test_what_conform_wrote_down_is_read_by_a_client(tmp_path, settings, seq):
    """F35 M43: the file of `conform --remember` saves the client from finding out."""
    file = tmp_path / "dialect.json"
    with mock.Server(mock.Settings(inline_engine=True, **settings)) as real:
        report = examine(real.url, ["service", "seq", "rest"], api_key="tml-test")
        dialect_file.write(report, file)
        seen = len(real.log.requests("client/config"))
        config = Config(base_url=real.url, api_key="tml-test", dialect_file=file)
        with ServiceClient(config=config) as service:
            training = service.create_lora_training_client(MODEL, rank=1)
            training.forward_backward([datum()], "cross_entropy").result()
            found = service.dialect
        asked = len(real.log.requests("client/config")) - seen
    assert found.chosen_by == "file"
    assert found.wire == ("json" if "era" in settings else "proto")
    if seq is not None:
        assert (found.seq, found.seq_by, asked) == (seq, "file", 1)
    else:
        assert asked == 0, "the file says that there is no client/config"
        assert found.one_by_one == ("get_client_config" in found.lacks and found.seq == "ignore")
        assert {"get_client_config", "finish_session"} <= found.lacks


def test_a_file_about_another_server_ends_the_start(tmp_path):
    """M43: the constructor says so; nothing is sent."""
    file = tmp_path / "dialect.json"
    file.write_text(
        json.dumps({"format": dialects.FILE_FORMAT, "server": "http://a.test", "wire": "json"})
    )
    config = Config(base_url="http://b.test", dialect_file=file)
    with pytest.raises(ConfigurationError, match=r"is about http://a\.test, not about http://b"):
        ServiceClient(api_key="tml-test", config=config)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_server_of_the_first_era_that_wants_optimizer_in_every_load(wanted):
    """M28 M43: Twinkle 0.5.1 says that the key is missing; the same load goes again with it."""
    missing = {"type": "missing", "loc": ["body", "optimizer"], "msg": "Field required"}

    async def script(sent, deliver):
        if sent.name == "client/config":
            return 404, {"detail": "Not Found"}
        if wanted and sent.name == "load_weights" and "optimizer" not in sent.body:
            return 422, {"detail": [missing]}
        return None

    async def scenario():
        network = Scripted(server(era="both", wire="json", load_first=False), script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            saved = await (await training.save_state_async("s"))
            for _ in range(2):
                with pytest.warns(FutureWarning):
                    await (await training.load_state_async(saved.path))
            await service.create_training_client_from_state_async(saved.path)
        return [(s.body.get("optimizer"), s.body["seq_id"]) for s in network.of("load_weights")]

    sent = run(scenario)
    if wanted:  # found out once, remembered for this server
        assert sent == [(None, 2), (False, 2), (False, 3), (False, 1)]
    else:
        assert sent == [(None, 2), (None, 3), (None, 1)]
