"""A gateway's page is not the server's word: it is waited out, and nothing is concluded from it."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, seqs, server
from scripted import Scripted, page

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import APIStatusError, FeatureMissingError, NotFoundError

PAGES = [404, 405, 501]
TRAINING = ("forward_backward", "optim_step", "forward")


@pytest.mark.parametrize("status", PAGES)
@pytest.mark.parametrize("seq", ["dedupe", "gap", "strict", "late"])
def test_a_page_at_a_training_post_is_waited_out(status, seq):
    """N2: "no such endpoint" on a web page passes; each call takes effect once, in order."""

    async def scenario():
        app = server(seq=seq)
        down = True

        async def script(sent, deliver):
            return page(status) if down and sent.name in TRAINING else None

        async with client(Scripted(app, script)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            calls = [
                await training.forward_backward_async([datum()], "cross_entropy"),
                await training.optim_step_async(adam()),
            ]
            await asyncio.sleep(60)
            assert not any(call.done() for call in calls)
            down = False
            for call in calls:
                await call
            await (await training.optim_step_async(adam()))
            return seqs(app, training.model_id)

    assert run(scenario) == [1, 2, 3]


def test_a_page_at_a_post_and_then_at_its_filler():
    """N4: a refused number is filled; pages at the filler do not end the training client."""

    async def scenario():
        app = server(seq="gap")
        paged = 0

        async def script(sent, deliver):
            nonlocal paged
            if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
                return 422, {"detail": "not welcome"}
            if sent.name == "forward" and paged < 6:
                paged += 1
                return page(404)
            return None

        async with client(Scripted(app, script), wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.optim_step_async(adam()))
            refused = await training.forward_backward_async([datum()], "cross_entropy")
            later = await training.optim_step_async(adam())
            with pytest.raises(APIStatusError, match="not welcome"):
                await refused
            await later
            await (await training.optim_step_async(adam()))
            return paged, seqs(app, training.model_id)

    assert run(scenario) == (6, [1, 2, 3, 4])


@pytest.mark.parametrize("status", PAGES)
def test_pages_that_stay_end_a_call_in_words_of_a_gateway(status):
    """N2: after the retry window the call ends; the server is not said to lack the operation."""

    async def scenario():
        down = False

        async def script(sent, deliver):
            return page(status) if down and sent.name in ("forward_backward", "asample") else None

        network = Scripted(server(), script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            down = True
            call = await training.forward_backward_async([datum()], "cross_entropy")
            sample = sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
            began = asyncio.get_running_loop().time()
            ends = await asyncio.gather(call, sample, return_exceptions=True)
            took = asyncio.get_running_loop().time() - began
            down = False
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            await sampler.sample_async(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
        return ends, took, network.rate()

    ends, took, rate = run(scenario)
    for end in ends:
        assert isinstance(end, APIStatusError)
        assert end.status_code == status
        assert "gateway" in str(end)
    assert 250 < took < 320
    assert rate < 20


@pytest.mark.parametrize("status", PAGES)
def test_a_page_at_a_look_up_says_that_it_is_one(status):
    """N2: a wrong address ends at once, and "has no …" is not remembered of the server."""

    async def scenario():
        down = True

        async def script(sent, deliver):
            return page(status) if down and sent.name == "sessions" else None

        network = Scripted(server(), script)
        async with client(network) as service:
            rest = service.create_rest_client()
            with pytest.raises(APIStatusError, match="web page") as caught:
                await rest.list_sessions_async()
            asked = network.count("sessions")
            down = False
            await rest.list_sessions_async()
        return caught.value, asked

    error, asked = run(scenario)
    assert error.status_code == status
    assert not isinstance(error, FeatureMissingError)
    assert asked == 1


def test_what_a_server_does_not_do_is_asked_for_once():
    """A 501 of the server itself is final, and shows its reason; it was asked for five minutes."""

    async def scenario():
        async def script(sent, deliver):
            if sent.name in ("sessions", "optim_step"):
                return 501, {"detail": "not on this machine"}
            return None

        network = Scripted(server(seq="ignore"), script)
        async with client(network, wire="json") as service:
            with pytest.raises(FeatureMissingError, match="not on this machine"):
                await service.create_rest_client().list_sessions_async()
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with pytest.raises(FeatureMissingError, match="not on this machine"):
                await (await training.optim_step_async(adam()))
            await (await training.forward_backward_async([datum()], "cross_entropy"))
        return network.count("sessions"), network.count("optim_step")

    assert run(scenario) == (1, 1)


def test_a_missing_object_stays_a_missing_object():
    """A JSON 404 with a reason is neither a page nor a missing endpoint."""

    async def scenario():
        async with client(server()) as service:
            with pytest.raises(NotFoundError):
                await service.create_rest_client().get_session_async("nobody")

    run(scenario)
