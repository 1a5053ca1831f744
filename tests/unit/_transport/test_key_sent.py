"""The credential of a client: on every request from the first on, and none where there is none."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted

from tinker_ext import ModelInput, SamplingParams
from tinker_ext._transport.headers import HeaderBlock
from tinker_ext._transport.messages import Call
from tinker_ext.auth import StaticKey, has_credentials


class Renewed:
    """A credential that changes with every request."""

    def __init__(self, *values):
        self.values = list(values)

    async def header(self):
        return self.values.pop(0)


def test_every_request_carries_the_key():
    """M33: also the very first one, polls, samples and the end of the session."""

    async def scenario():
        network = Scripted(server())
        async with client(network, api_key="tml-its-own") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            await (await training.optim_step_async(adam()))
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            await sampling.sample_async(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
        return network.sent

    sent = run(scenario)
    assert {"create_session", "forward_backward", "retrieve_future", "asample"} <= {
        each.name for each in sent
    }
    assert [each.name for each in sent if each.headers.get("x-api-key") != "tml-its-own"] == []


@pytest.mark.parametrize(
    ("credentials", "before", "after", "shown"),
    [
        (None, True, True, [None, None]),
        (StaticKey("tml-a"), False, True, ["tml-a", "tml-a"]),
        (Renewed("tml-a", "tml-b"), False, False, ["tml-a", "tml-b"]),
    ],
)
def test_a_key_is_asked_for_until_it_is_known_to_stay(credentials, before, after, shown):
    """M33: a constant one once, another one for each request."""
    block = HeaderBlock(credentials)
    call = Call(operation="health_check", method="GET", path="/x", lane="rest", timeout=1.0)
    seen = []
    assert block.has_key is before
    for _ in range(2):
        if not block.has_key:
            asyncio.run(block.renew(call))
        lines = block.build(call, 0).splitlines()
        keys = [line.partition(": ")[2] for line in lines if line.lower().startswith("x-api-key")]
        seen.append(keys[0] if keys else None)
    assert block.has_key is after
    assert seen == shown


@pytest.mark.parametrize(
    ("env", "stored", "has"),
    [
        ({}, None, False),
        ({"TINKER_API_KEY": "tml-a"}, None, True),
        ({"TINKER_CREDENTIAL_CMD": "echo tml-a"}, None, True),
        ({"TINKER_API_KEY": ""}, None, False),
        ({}, "tml-a", True),
        ({"TINKER_API_KEY": "tml-a"}, "tml-b", True),
    ],
)
def test_any_one_credential_is_enough(monkeypatch, env, stored, has):
    """M33: a variable, a command or a stored key, without running anything."""
    monkeypatch.setattr("tinker_ext.auth.default_key", lambda: stored)
    assert has_credentials(env) is has
