"""What a server may not talk a client into: repeating what would take effect twice."""

from __future__ import annotations

import asyncio

import pytest
from in_process import client, run, server
from scripted import Scripted, reply

from tinker_ext import AdamParams
from tinker_ext.errors import APIConnectionError, UnsafeToRetryError

MODEL = "tinker-ext/tiny"


@pytest.mark.parametrize("status", [500, 503, 408])
def test_a_wish_to_retry_never_repeats_an_effect(status):
    """M20 M42: `x-should-retry: true` does not make a step count twice."""
    posts = 0

    async def script(sent, deliver):
        nonlocal posts
        if sent.name != "optim_step":
            return None
        posts += 1
        await deliver()
        return reply(status, b'{"detail": "late"}', {"x-should-retry": "true"})

    async def scenario():
        async with client(Scripted(server(seq="ignore"), script)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            call = await training.optim_step_async(AdamParams())
            (end,) = await asyncio.gather(call, return_exceptions=True)
            return end

    assert isinstance(run(scenario), UnsafeToRetryError)
    assert posts == 1


def test_a_training_operation_by_name_is_not_repeated_blindly():
    """M20 M41: `service.call("optim_step")` knows what a repeat would do."""
    posts = 0

    async def script(sent, deliver):
        nonlocal posts
        if sent.name != "optim_step":
            return
        posts += 1
        await deliver()
        raise ConnectionResetError("lost")

    async def scenario():
        async with client(Scripted(server(seq="ignore"), script)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with pytest.raises(APIConnectionError):
                await service.call_async(
                    "optim_step", model_id=training.model_id, seq_id=1, adam_params=AdamParams()
                )

    run(scenario)
    assert posts == 1
