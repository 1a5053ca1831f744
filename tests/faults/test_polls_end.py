"""However a server treats the polls for a result, the wait for it ends at its deadline."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, deadline, run, server
from scripted import Scripted, lost, page, reply

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import DeadlineExceededError, TinkerError

SECONDS = 20.0
NOT_YET = {"type": "try_again", "request_id": "r", "queue_state": "active"}


async def _hangs():
    await asyncio.sleep(1e5)


async def _held():
    await asyncio.sleep(7.0)
    return reply(408, {"detail": "not yet"})


async def _at_once():
    return reply(200, NOT_YET)


async def _passing():
    return reply(503, {"detail": "down"})


async def _wishes():
    return reply(429, {"detail": "later"}, {"retry-after": "13"})


async def _gateway():
    return page(502)


async def _slow_page():
    await asyncio.sleep(9.0)
    return page(504)


async def _cut():
    await asyncio.sleep(3.0)
    raise lost()


async def _unreadable():
    return reply(200, b"{")


WAYS = [_hangs, _held, _at_once, _passing, _wishes, _gateway, _slow_page, _cut, _unreadable]


@pytest.mark.parametrize("call", ["train", "sample"])
@pytest.mark.parametrize("way", WAYS)
def test_no_wait_outlasts_its_deadline(way, call):
    """F22 M42: it ends then, as our error, no request is under way after it, and none follows."""
    under_way = 0
    ready = False

    async def script(sent, deliver):
        nonlocal under_way
        if sent.name == "retrieve_future" and ready:
            under_way += 1
            try:
                return await way()
            finally:
                under_way -= 1
        return None

    async def scenario():
        nonlocal ready
        network = Scripted(server(), script)
        async with client(network) as service:
            loop = asyncio.get_running_loop()
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            ready = True
            began = loop.time()
            with deadline(SECONDS):
                if call == "train":
                    future = await training.optim_step_async(adam())
                else:
                    future = sampling.sample(ModelInput.from_ints([1]), 1, SamplingParams())
            (end,) = await asyncio.gather(future, return_exceptions=True)
            took = loop.time() - began
            await asyncio.sleep(0.01)
            left, asked = under_way, network.count("retrieve_future")
            await asyncio.sleep(100.0)
            more = network.count("retrieve_future") - asked
            assert network.rate() < 20
            return end, took, left, more

    end, took, left, more = run(scenario)
    assert isinstance(end, TinkerError)
    assert took <= SECONDS + 0.1
    if way is not _unreadable:
        assert isinstance(end, DeadlineExceededError)
    if way not in (_unreadable, _wishes):  # the next answer of these would come too late
        assert took >= SECONDS - 0.1
    assert left == 0
    assert more == 0
