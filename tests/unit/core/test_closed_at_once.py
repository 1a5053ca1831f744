"""A training queue that ends in the moment between a call and its turn on the loop."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext import Config
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


def test_a_call_that_is_closed_between_two_of_its_parts_ends():
    """M19 M21: an earlier process had the result of the first, and the second has not left."""

    async def scenario():
        async with client(server(seq="dedupe"), config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            queue = training.queue

            class Known:
                follow = staticmethod(lambda call: None)
                is_filled = staticmethod(lambda seq_id: False)

                async def leaving(self, request, again=False):
                    asyncio.get_running_loop().call_soon(queue.close, ClientClosedError("closed"))
                    return "known"

                async def result(self, request, op, wait):
                    return None

            queue.recorder = Known()
            future = await training.forward_backward_async([datum(), datum()], "cross_entropy")
            (end,) = await asyncio.gather(asyncio.wait_for(future, 60), return_exceptions=True)
            return end

    assert isinstance(run(scenario), ClientClosedError)
