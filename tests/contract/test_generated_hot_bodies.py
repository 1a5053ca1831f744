"""M41: bodies that the client encodes by hand for speed are those of the generated code.

What really leaves the client is taken from the server's log, so that it does not matter how or
where it is encoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from in_process import MODEL, adam, client, run, server
from tinker_api import models
from tinker_api.operations import (
    FORWARD,
    FORWARD_BACKWARD,
    OPERATIONS,
    SAMPLE,
    SAVE_WEIGHTS,
)
from tinker_api.types import dumps, loads

from tinker_ext import Datum, ModelInput, SamplingParams, TensorData
from tinker_ext._wire.json_codec import json_form
from tinker_ext._wire.results import read_json
from tinker_ext.types import EncodedTextChunk, SaveWeightsResponse

TARGETS = [2, 3, 4, 5]


def plain() -> Datum:
    """One datum as most loops build it."""
    return Datum(
        model_input=ModelInput.from_ints([1, 2, 3, 4]),
        loss_fn_inputs={
            "target_tokens": TensorData(data=TARGETS, dtype="int64", shape=[4]),
            "weights": TensorData(data=[0.0, 0.5, 1.0, 1.0], dtype="float32", shape=[4]),
        },
    )


def rich() -> Datum:
    """One datum of several chunks with advantages, as reinforcement learning builds it."""
    chunks = [EncodedTextChunk(tokens=[1, 2]), EncodedTextChunk(tokens=[3, 4])]
    values = np.asarray([-0.25, 0.5, -1.5, 3.0], np.float32)
    return Datum(
        model_input=ModelInput(chunks=chunks),
        loss_fn_inputs={
            "target_tokens": np.asarray(TARGETS),
            "logprobs": values,
            "advantages": values * 2,
        },
    )


def sent(wire: str, calls: Any) -> list[tuple[str, bytes, Any]]:
    """Return (operation path, body, JSON of it) of what a client posts while it makes calls."""

    async def scenario() -> Any:
        app = server()
        async with client(app, wire=wire) as service:
            await calls(service)
            assert app.log.violations == []
            return [
                (entry.path.rpartition("/")[2], entry.body, entry.json)
                for entry in app.log.requests()
            ]

    return list(run(scenario))


async def train(service: Any) -> None:
    training = await service.create_lora_training_client_async(MODEL, rank=4)
    await (await training.forward_backward_async([plain(), plain()], "cross_entropy"))
    await (await training.forward_backward_async([rich()], "ppo", {"clip_low_threshold": 0.5}))
    await (await training.forward_async([plain()], "cross_entropy"))
    await (await training.optim_step_async(adam()))


async def draw(service: Any) -> None:
    sampler = await service.create_sampling_client_async(base_model=MODEL)
    prompt = ModelInput.from_ints([1, 2, 3])
    await sampler.sample_async(prompt, 1, SamplingParams())
    await sampler.sample_async(
        prompt,
        2,
        SamplingParams(max_tokens=3, stop="a", seed=1, temperature=0.5, top_k=5, top_p=0.9),
        include_prompt_logprobs=True,
        topk_prompt_logprobs=2,
    )
    await sampler.compute_logprobs_async(prompt)


def extra_keys(record: Any) -> list[str]:
    """Return the keys that no generated record knows, however deep."""
    found = list(getattr(record, "additional_properties", {}))
    inner = [getattr(record, item.name) for item in record._layout().fields]
    while inner:
        value = inner.pop()
        if hasattr(value, "_layout"):
            found += extra_keys(value)
        elif isinstance(value, list) and value and not isinstance(value[0], (int, float)):
            inner += value
        elif isinstance(value, dict):
            inner += value.values()
    return found


@pytest.mark.parametrize(
    ("row", "calls", "times"),
    [(FORWARD_BACKWARD, train, 2), (FORWARD, train, 1), (SAMPLE, draw, 3)],
    ids=["forward_backward", "forward", "sample"],
)
def test_json_bodies_are_those_of_the_table(row: Any, calls: Any, times: int) -> None:
    """M4, M41: the row of the operation, given the same values, sends the very same object."""
    path = row.path.rpartition("/")[2]
    bodies = [body for name, _, body in sent("json", calls) if name == path]
    assert len(bodies) == times
    for body in bodies:
        assert row.prepare(**body).body == body
        record = row.request_model.from_dict(body)
        assert extra_keys(record) == []
        built = row.request_model(
            **{item.name: getattr(record, item.name) for item in record._layout().fields}
        )
        assert built.to_dict() == body


def test_protobuf_bodies_say_what_the_json_ones_say() -> None:
    """M27, M41: no field that the proto file does not know, and the values of the JSON form."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    from tinker_proto import tinker_pb2

    wires = {wire: sent(wire, train) for wire in ("json", "proto")}
    forwards = [
        (body.get("forward_backward_input") or body["forward_input"], name == "forward")
        for name, _, body in wires["json"]
        if name in ("forward", "forward_backward")
    ]
    messages = []
    for name, content, _ in wires["proto"]:
        if name == "forward_backward":
            message = tinker_pb2.ForwardBackwardRequest.FromString(content)
            assert not len(UnknownFieldSet(message))
            assert not any(len(UnknownFieldSet(datum)) for datum in message.data)
            messages.append(message)
    assert [message.seq_id for message in messages] == [1, 2, 3]
    assert [(said(message), message.forward_only) for message in messages] == forwards


def said(message: Any) -> dict[str, Any]:
    """Return a protobuf training request as the JSON object that means the same."""
    out: dict[str, Any] = {"data": [datum_of(datum) for datum in message.data]}
    out["loss_fn"] = message.loss_fn
    config = {
        name: getattr(value, value.WhichOneof("value"))
        for name, value in message.loss_fn_config_v2.items()
    }
    return {**out, "loss_fn_config": config} if config else out


def datum_of(datum: Any) -> dict[str, Any]:
    kinds = {1: ("float32", np.float32), 2: ("int64", np.int64)}
    tensors = {}
    for name, tensor in datum.loss_fn_inputs.items():
        dtype, kind = kinds[tensor.dtype]
        data = np.frombuffer(tensor.dense, kind).tolist()
        tensors[name] = {"data": data, "dtype": dtype, "shape": list(tensor.shape)}
    chunks = [
        {
            "tokens": np.frombuffer(chunk.encoded_text.tokens, np.int32).tolist(),
            "type": "encoded_text",
        }
        for chunk in datum.model_input
    ]
    return {"model_input": {"chunks": chunks}, "loss_fn_inputs": tensors}


def test_the_table_takes_prompts_and_batches_as_users_build_them() -> None:
    """M41: the arguments of `sample` and `forward_backward` may be public types, however deep."""
    prompt = ModelInput.from_ints([1, 2, 3])
    drawn = SAMPLE.prepare(prompt=json_form(prompt), sampling_params=SamplingParams()).body
    assert drawn is not None
    assert dumps(drawn["prompt"]) == b'{"chunks":[{"tokens":[1,2,3],"type":"encoded_text"}]}'
    batch = {"data": [plain(), rich()], "loss_fn": "ppo", "loss_fn_config": {"a": 1.0}}
    arguments = {"model_id": "m", "seq_id": 1, "forward_backward_input": batch}
    body = FORWARD_BACKWARD.prepare(**json_form(arguments)).body
    record = models.ForwardBackwardRequest.from_dict(loads(dumps(body)))
    assert extra_keys(record) == []
    assert record.forward_backward_input.loss_fn == "ppo"
    first = record.forward_backward_input.data[0]
    assert first.loss_fn_inputs["target_tokens"].data == TARGETS


def test_a_call_takes_what_users_build_and_keeps_what_servers_add() -> None:
    """M41: `service.call` of an operation with a future, from a prompt to its sequences."""

    async def calls(service: Any) -> None:
        reply = await service.call(
            "sample",
            base_model=MODEL,
            prompt=ModelInput.from_ints([1, 2]),
            sampling_params=SamplingParams(max_tokens=2, seed=1),
            num_samples=2,
        )
        assert [len(sequence.tokens) for sequence in reply.sequences] == [2, 2]

    bodies = [body for name, _, body in sent("json", calls) if name == "asample"]
    assert [SAMPLE.prepare(**body).body for body in bodies] == bodies
    saved = read_json(SAVE_WEIGHTS, {"path": "tinker://r/weights/1", "size_bytes": 5})
    assert type(saved) is SaveWeightsResponse
    assert saved.to_dict() == {"path": "tinker://r/weights/1", "size_bytes": 5}


def test_every_other_body_is_that_of_the_table() -> None:
    """M4, M41: small bodies too, whoever writes them."""

    async def calls(service: Any) -> None:
        training = await service.create_lora_training_client_async(MODEL, rank=4)
        await (await training.optim_step_async(adam()))
        saved = await (await training.save_state_async("s"))
        await (await training.save_weights_for_sampler_async("w"))
        await training.save_weights_and_get_sampling_client_async()
        with pytest.warns(FutureWarning):
            await (await training.load_state_async(saved.path))
        await training.get_info_async()

    rows = {row.path.rpartition("/")[2]: row for row in OPERATIONS.values() if "{" not in row.path}
    checked = set()
    for name, _, body in sent("json", calls):
        row = rows.get(name)
        if body is not None and row is not None:
            assert row.prepare(**body).body == body, name
            checked.add(row.name)
    assert {
        "create_session",
        "create_model",
        "optim_step",
        "save_weights",
        "load_weights",
    } <= checked
