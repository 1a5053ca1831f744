"""A training queue that ends in the moment between a call and its turn on the loop."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, run, server

from tinker_ext.errors import ClientClosedError


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_a_call_that_has_ended_before_its_turn_leaves_no_timer(how):
    """M19 M21: its deadline is nobody's any more."""

    async def scenario():
        async with client(server()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            (queue,) = service.holder.queues
            future = training.optim_step(adam())
            if how == "closed":  # as the loop's thread may, while this one makes the call
                queue.close(ClientClosedError("closed"))
            else:
                future.cancel()
            for _ in range(3):
                await asyncio.sleep(0)
            (end,) = await asyncio.gather(future, return_exceptions=True)
            return end

    wanted = ClientClosedError if how == "closed" else asyncio.CancelledError
    assert isinstance(run(scenario), wanted)
