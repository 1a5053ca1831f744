"""A future yields the member its operation awaits; every other body is an error, never "done"."""

from __future__ import annotations

import pytest
from faults.hostile import AWAITED as FUZZED
from faults.members import CUSTOM_LOSS, MEMBERS, STRANGERS
from in_process import adam, client, datum, run
from stub_server import StubServer
from tinker_api.operations import OPERATIONS

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import APIResponseValidationError

# A load into a client in use is one of the operations; what it warns of is told elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:load_state and load_state_with:FutureWarning")


async def _create_model(service, training):
    return await service.create_lora_training_client_async("m", rank=4)


async def _forward(service, training):
    return await (await training.forward_async([datum()], "cross_entropy"))


async def _forward_backward(service, training):
    return await (await training.forward_backward_async([datum()], "cross_entropy"))


async def _optim_step(service, training):
    return await (await training.optim_step_async(adam()))


async def _save_state(service, training):
    return await (await training.save_state_async("a"))


async def _load_state(service, training):
    return await (await training.load_state_with_optimizer_async("tinker://M/weights/a"))


async def _save_for_sampler(service, training):
    return await (await training.save_weights_for_sampler_async("a"))


async def _save_external(service, training):
    return await (await training.save_weights_external_async("a"))


async def _create_custom_loss(service, training):
    return await service.call(
        "create_custom_loss", session_id="S", custom_loss_seq_id=0, **CUSTOM_LOSS
    )


async def _unload_model(service, training):
    return await service.call("unload_model", model_id="M")


async def _sample(service, training):
    sampling = await service.create_sampling_client_async(base_model="m")
    return await sampling.sample_async(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))


# Call → (the member it awaits, the operation that promises it).
AWAITED = {
    _create_model: ("create_model", "create_model"),
    _forward: ("forward", "forward"),
    _forward_backward: ("forward", "forward_backward"),
    _optim_step: ("optim_step", "optim_step"),
    _save_state: ("save_weights", "save_weights"),
    _load_state: ("load_weights", "load_weights"),
    _save_for_sampler: ("save_weights_for_sampler", "save_weights_for_sampler"),
    _save_external: ("save_weights_external", "save_weights_external"),
    _create_custom_loss: ("create_custom_loss", "create_custom_loss"),
    _unload_model: ("unload_model", "unload_model"),
    _sample: ("sample", "asample"),
}


def _call_with(call, body):
    """Make a call whose future yields the body; returns its result and the id of the future."""
    promised = AWAITED[call][1]
    asked = []
    created = False

    def answers(name, sent, _):
        if name == "retrieve_future" and stub.futures[sent["request_id"]] == promised and created:
            asked.append(sent["request_id"])
            return 200, body
        # The friendly server lacks two of the operations.
        return stub.promise(name) if name == promised else None

    stub = StubServer(answers, config={"fwdbwd_max_chunk_len": 64, "seq_ids": "dedupe"})

    async def scenario():
        nonlocal created
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            created = True
            return await call(service, training), asked[0]

    return run(scenario)


def test_every_member_of_the_union_is_awaited():
    """F2: a result that the document adds needs a call here, and one that the fuzzer makes."""
    results = {op.result for op in OPERATIONS.values() if op.result is not None}
    assert len(results) == len(MEMBERS)
    assert {member for member, _ in AWAITED.values()} == set(MEMBERS)
    assert {member for _, member in FUZZED.values()} == set(MEMBERS)


@pytest.mark.parametrize("call", AWAITED)
def test_another_body_is_refused(call):
    """F2: every other member and every stranger is APIResponseValidationError with its id."""
    for name, body in {**MEMBERS, **STRANGERS}.items():
        if name == AWAITED[call][0]:
            continue
        with pytest.raises(APIResponseValidationError) as caught:
            _call_with(call, body)
        assert caught.value.request_id, name
        assert caught.value.request_id in str(caught.value), name


@pytest.mark.parametrize("call", AWAITED)
def test_the_awaited_member_is_read(call):
    """F2: the member itself is a result, with its tag and without."""
    body = MEMBERS[AWAITED[call][0]]
    _call_with(call, body)
    _call_with(call, {key: value for key, value in body.items() if key != "type"})


@pytest.mark.parametrize("body", [{"type": "save_weights"}, {"path": None}, {"path": ""}, {}])
@pytest.mark.parametrize("call", [_save_state, _save_for_sampler])
def test_a_save_without_a_path(call, body):
    """F2: the save was sent, so the error is about the reply, not about the input."""
    with pytest.raises(APIResponseValidationError):
        _call_with(call, body)
