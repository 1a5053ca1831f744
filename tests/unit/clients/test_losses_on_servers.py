"""A custom loss that the server runs: what is sent of it, and which batches and clients it fits."""

from __future__ import annotations

import numpy as np
import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext import Datum, ModelInput, TensorData
from tinker_ext.clients.losses import LossHandle, read_inputs
from tinker_ext.errors import InvalidInputError


def loss(logprobs, advantages):
    return None, {}


INPUTS = read_inputs(loss, {"logprobs": 1, "advantages": 1})


def batch(**more):
    inputs = {"target_tokens": [2, 3], "advantages": [0.5, 1.0], **more}
    kept = {name: value for name, value in inputs.items() if value is not None}
    return [Datum(ModelInput.from_ints([1, 2]), kept)]


def test_a_loss_on_the_server_is_named_in_the_request():
    """F36: one request of its kind, with the id of the loss."""

    async def scenario():
        stub = StubServer()
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            handle = LossHandle("loss", INPUTS, "S", None, "L7")
            await (await training.forward_backward_custom_async(batch(), handle))
            (sent,) = [body for op, body, _ in stub.requests if op == "forward_backward"]
            assert stub.counts["forward"] == 0
            return sent["forward_backward_input"]

    sent = run(scenario)
    assert sent["loss_fn"] == "custom"
    assert sent["loss_fn_config"] == {"loss_id": "L7"}
    assert len(sent["data"]) == 1


@pytest.mark.parametrize(
    ("session", "data", "said"),
    [
        ("T", batch(), "belongs to session S, this client to session T"),
        (None, batch(), "belongs to session S"),
        ("S", batch(advantages=None), r"data\[0\] has no advantages, which the custom loss loss"),
        (
            "S",
            batch(advantages=TensorData.from_numpy(np.zeros((2, 1), np.float32))),
            r"data\[0\]: advantages has rank 2; .* created with rank 1 for advantages",
        ),
        ("S", [*batch(), *batch(advantages=None)], r"data\[1\] has no advantages"),
    ],
)
def test_what_a_loss_does_not_fit(session, data, said):
    """F36: said before anything is sent."""
    with pytest.raises(InvalidInputError, match=said):
        LossHandle("loss", INPUTS, "S", None).check(data, session)


def test_what_a_loss_reads():
    """F36: logprobs first, whatever they are called; they come with the targets."""
    handle = LossHandle("loss", INPUTS, "S", None)
    handle.check(batch(), "S")
    assert handle.input_names == ("advantages",)
    with pytest.raises(InvalidInputError, match="target_tokens"):
        handle.check(batch(target_tokens=None), "S")
