"""Waiting for a result: what a 404 means, how long a pause may be, and when a wait ends."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, deadline, run, server
from scripted import Scripted, page, reply

from tinker_ext import Config, ModelInput, SamplingParams
from tinker_ext.errors import DeadlineExceededError, FutureExpiredError, TinkerError

PROMPT = ModelInput.from_ints([1])
ONE = SamplingParams(max_tokens=1)


def polled(script_of, call, **options):
    """Make a call while the polls for its result are scripted.

    Args:
        script_of: Called with the number of the poll; gives its answer or None.
        call: Coroutine function of (service, training, sampling).
    """
    polls = 0
    ready = False

    async def script(sent, deliver):
        nonlocal polls
        if sent.name == "retrieve_future" and ready:
            polls += 1
            return script_of(polls)
        return None

    async def scenario():
        nonlocal ready
        app = server()
        network = Scripted(app, script)
        async with client(network, **options) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            ready = True
            loop = asyncio.get_running_loop()
            began = loop.time()
            (end,) = await asyncio.gather(call(service, training, sampling), return_exceptions=True)
            return end, loop.time() - began, network

    return run(scenario)


async def _step(service, training, sampling):
    return await (await training.optim_step_async(adam()))


async def _load(service, training, sampling):
    path = f"tinker://{training.model_id}/weights/absent"
    return await (await training.load_state_with_optimizer_async(path))


async def _sample(service, training, sampling):
    return await sampling.sample_async(PROMPT, 1, ONE)


def test_a_404_of_the_server_is_shown_as_it_is():
    """F5: a missing checkpoint, told at the poll, is no expired future."""
    said = {"detail": "Checkpoint absent not found"}
    end, seconds, _ = polled(lambda _: reply(404, said), _load)
    assert isinstance(end, TinkerError)
    assert not isinstance(end, FutureExpiredError)
    assert "Checkpoint absent not found" in str(end)
    assert seconds < 30


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("answer", [page, lambda status: reply(status, b"", {"content-type": ""})])
@pytest.mark.parametrize("call", [_step, _sample])
def test_a_passing_page_of_a_gateway(call, answer, status):
    """F5: a gateway's 404 is asked again, so an applied step is not lost."""
    end, seconds, network = polled(lambda n: answer(status) if n <= 2 else None, call)
    assert not isinstance(end, BaseException), end
    assert seconds < 60
    assert network.rate("retrieve_future") <= 20


def test_a_gateway_that_never_recovers():
    """F5: a page at every poll ends the call at its deadline at the latest, without a storm."""

    async def briefly(*clients):
        with deadline(60.0):
            return await _step(*clients)

    end, seconds, network = polled(lambda _: page(404), briefly)
    assert isinstance(end, TinkerError)
    assert seconds <= 61
    assert network.rate("retrieve_future") <= 20


@pytest.mark.parametrize("call", [_step, _sample])
def test_retry_after_cap_holds_for_polls(call):
    """F22: a delay longer than `retry_after_cap` is cut to it, also at polls."""
    refusal = reply(429, {"detail": "later"}, {"retry-after": "50"})
    config = Config(retry_after_cap=1.0)
    end, seconds, _ = polled(lambda n: refusal if n <= 3 else None, call, config=config)
    assert not isinstance(end, BaseException), end
    assert 3 <= seconds < 10


@pytest.mark.parametrize("operation", ["asample", "retrieve_future", "optim_step"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_deadline_is_shorter_than_a_delay(operation, status):
    """F22: `deadline(2)` ends after 2 s although the server asks for 12 s of patience."""
    ready = False

    async def script(sent, deliver):
        if ready and sent.name == operation:
            return status, {"detail": "later"}, {"retry-after": "12"}
        return None

    async def scenario():
        nonlocal ready
        network = Scripted(server(), script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            ready = True
            call = _sample if operation == "asample" else _step
            began = asyncio.get_running_loop().time()
            with deadline(2.0):
                (end,) = await asyncio.gather(
                    call(service, training, sampling), return_exceptions=True
                )
            return end, asyncio.get_running_loop().time() - began

    end, seconds = run(scenario)
    assert isinstance(end, TinkerError)
    assert seconds <= 2.1


def test_a_poll_that_hangs_ends_at_the_deadline():
    """F22: a poll under way does not outlast the deadline of its call."""

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and ready:
            await asyncio.sleep(3600.0)
        return

    ready = False

    async def scenario():
        nonlocal ready
        network = Scripted(server(), script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ready = True
            began = asyncio.get_running_loop().time()
            with deadline(5.0):
                future = await training.forward_backward_async([datum()], "cross_entropy")
            with pytest.raises(DeadlineExceededError):
                await future
            return asyncio.get_running_loop().time() - began

    assert run(scenario) <= 5.1


@pytest.mark.parametrize("answer", [page, lambda status: reply(status, {"detail": "busy"})])
@pytest.mark.parametrize("call", [_step, _sample])
def test_a_passing_409_at_a_poll(call, answer):
    """F4 M20: a gateway's 409 is asked again; only one that stays is the server's answer."""
    end, seconds, _ = polled(lambda n: answer(409) if n <= 2 else None, call)
    assert not isinstance(end, BaseException), end
    assert seconds < 60
