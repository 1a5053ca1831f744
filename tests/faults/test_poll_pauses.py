"""How long is waited between the polls for one result, in each case that has a pause of its own."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted

from tinker_ext import Config, ModelInput, SamplingParams

PROMPT = ModelInput.from_ints([1, 2])
ONE = SamplingParams(max_tokens=1)


def polls(script, config=None, **settings):
    """The polls of one sample: seconds since the one before was answered, and what was asked."""

    async def scenario():
        network = Scripted(server(**settings), script)
        async with client(network, config=config) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            await sampler.sample_async(PROMPT, 1, ONE)
            return [sent for sent in network.sent if sent.name == "retrieve_future"]

    return run(scenario)


def test_an_announced_result_is_fetched_at_once():
    """M42 M27: the first poll tells the size, the next one takes it."""
    first, second = polls(None, metadata_threshold=1)
    assert first.body["allow_metadata_only"] is True
    assert not second.body.get("allow_metadata_only")
    assert second.when - first.when == pytest.approx(0.001, abs=0.001)


@pytest.mark.parametrize(("held", "paused"), [(5.0, False), (0.5, False), (0.49, True)])
def test_a_poll_that_was_held_is_repeated_at_once(held, paused):
    """M42: a server that holds polls, for half a second or longer, sets the pace itself."""
    answers = []

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and len(answers) < 9:
            answers.append(asyncio.get_running_loop().time())
            await asyncio.sleep(held)
            return 408, {"type": "try_again", "queue_state": "active"}
        return None

    seen = polls(script, Config(poll_timeout=60.0))
    assert len(seen) == 10
    gaps = [b.when - a.when for a, b in itertools.pairwise(seen)]
    if paused:
        assert max(gaps) > held + 0.05
    else:
        assert gaps == [pytest.approx(held, abs=0.02)] * 9


def test_polls_that_are_not_held_come_further_and_further_apart():
    """M42: from a hundredth of a second to one second."""
    answers = []

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and len(answers) < 25:
            answers.append(sent)
            return 408, {"type": "try_again", "queue_state": "active"}
        return None

    seen = polls(script)
    gaps = [b.when - a.when for a, b in itertools.pairwise(seen)]
    assert gaps[0] < 0.03
    assert max(gaps) <= 1.02
    assert min(gaps[-5:]) >= 0.5
    assert all(b <= 3.2 * a + 0.01 for a, b in itertools.pairwise(gaps))
