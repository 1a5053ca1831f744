"""How long and how often a client asks a server that refuses, is out of reach or wants money."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest
from in_process import MODEL, adam, client, deadline, run, server
from scripted import Scripted, fresh_url, lost

from tinker_ext import Config, ModelInput, RetryConfig, SamplingParams
from tinker_ext.errors import BillingError, TinkerError

PROMPT = ModelInput.from_ints([1])
ONE = SamplingParams(max_tokens=1)


async def _step(service, training, sampling):
    return await (await training.optim_step_async(adam()))


async def _sample(service, training, sampling):
    return await sampling.sample_async(PROMPT, 1, ONE)


async def _capabilities(service, training, sampling):
    return await service.get_server_capabilities_async()


async def _info(service, training, sampling):
    return await training.get_info_async()


CALLS = {
    "optim_step": _step,
    "asample": _sample,
    "get_server_capabilities": _capabilities,
    "get_info": _info,
    "retrieve_future": _step,
}


def troubled(operation, answer, *, retry_config=None, calls=1, seconds=None, **options):
    """Make calls while one operation is scripted; their ends, the seconds, and the network."""
    count = 0
    ready = False

    async def script(sent, deliver):
        nonlocal count
        if ready and sent.name == operation:
            count += 1
            return answer(count)
        return None

    async def scenario():
        nonlocal ready
        network = Scripted(server(), script)
        async with client(network, base_url=fresh_url(), **options) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(
                base_model=MODEL, retry_config=retry_config
            )
            ready = True
            loop = asyncio.get_running_loop()
            began = loop.time()
            made = [CALLS[operation](service, training, sampling) for _ in range(calls)]
            with deadline(seconds or 86_400.0):
                ends = await asyncio.gather(*made, return_exceptions=True)
            return ends, loop.time() - began, network

    return run(scenario)


def _lose():
    raise lost()


def _refuse():
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize("attempts", [1, 3, 4, 6])
@pytest.mark.parametrize("operation", ["optim_step", "get_server_capabilities", "get_info"])
@pytest.mark.parametrize(
    "fault", [lambda: (503, {"detail": "down"}), _lose, _refuse], ids=["503", "lost", "refused"]
)
def test_retry_attempts_is_the_most_times_a_request_is_sent(operation, attempts, fault):
    """F11: also from 4 on, when the server counts as unhealthy."""
    config = Config(retry_attempts=attempts)
    ends, _, network = troubled(operation, lambda _: fault(), config=config)
    assert isinstance(ends[0], TinkerError)
    assert network.count(operation) == attempts


@pytest.mark.parametrize("operation", ["asample", "optim_step", "retrieve_future"])
def test_402_becomes_a_billing_error(operation):
    """F21: after `billing_pause` a refusal to pay is BillingError, wherever it comes."""
    config = Config(billing_pause=60.0, retry_attempts=1000)
    ends, seconds, network = troubled(
        operation, lambda _: (402, {"detail": "no credit"}), config=config
    )
    assert isinstance(ends[0], BillingError), ends[0]
    assert "no credit" in str(ends[0])
    assert 55 <= seconds <= 90
    assert network.rate(operation) <= 2


@pytest.mark.parametrize("operation", ["asample", "optim_step", "retrieve_future"])
def test_402_that_passes(operation):
    """F21: once there is credit again, the call goes on."""
    ends, seconds, _ = troubled(operation, lambda n: (402, {}) if n <= 3 else None)
    assert not isinstance(ends[0], BaseException), ends[0]
    assert seconds < 60


@pytest.mark.parametrize("operation", ["optim_step", "asample", "get_server_capabilities"])
def test_retry_after_cap(operation):
    """F22: a delay longer than `retry_after_cap` is cut to it."""
    refusal = (429, {"detail": "later"}, {"retry-after": "50"})
    ends, seconds, _ = troubled(
        operation, lambda n: refusal if n <= 3 else None, config=Config(retry_after_cap=1.0)
    )
    assert not isinstance(ends[0], BaseException), ends[0]
    assert 3 <= seconds < 10


@pytest.mark.parametrize("header", ["retry-after", "retry-after-ms"])
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    "operation", ["optim_step", "asample", "retrieve_future", "get_server_capabilities"]
)
def test_a_tiny_delay_has_a_floor(operation, status, header):
    """F28: `Retry-After: 0.000001` is no invitation to a storm."""
    ends, _, network = troubled(
        operation,
        lambda n: (status, {"detail": "busy"}, {header: "0.000001"}),
        seconds=30.0,
    )
    assert isinstance(ends[0], TinkerError)
    assert network.rate(operation) <= 20


@pytest.mark.parametrize(
    ("operation", "callers"),
    [("asample", 64), ("retrieve_future", 16), ("get_server_capabilities", 16)],
)
def test_many_that_are_refused_do_not_ask_in_step(operation, callers):
    """F28: callers refused at once without a delay spread out, and stay calm together."""
    ends, _, network = troubled(
        operation,
        lambda n: (429, {"detail": "busy"}) if n <= 6 * callers else None,
        calls=callers,
    )
    assert [end for end in ends if isinstance(end, BaseException)] == []
    own = network.count() - 6 * callers
    assert network.rate(operation) <= 20 + own / 10
    times = [round(sent.when, 2) for sent in network.of(operation)][callers:]
    assert max(Counter(times).values()) <= callers // 4


def test_the_first_contact_is_short():
    """F42 M47: a server that never answered is given up within 10 s, not after 5 minutes."""

    async def script(sent, deliver):
        _refuse()

    async def scenario():
        network = Scripted(server(), script)
        began = asyncio.get_running_loop().time()
        async with client(network, base_url=fresh_url()) as service:
            with pytest.raises(TinkerError) as caught:
                await service.create_lora_training_client_async(MODEL, rank=1)
            return asyncio.get_running_loop().time() - began, network.count(), caught.value

    seconds, requests, error = run(scenario)
    assert 5 <= seconds < 10
    assert requests <= 40
    assert "connect" in str(error).lower()


@pytest.mark.parametrize("operation", ["get_server_capabilities", "get_info", "optim_step"])
def test_a_server_that_has_answered_is_waited_for(operation):
    """F42: the window of five minutes applies to a server that went away."""
    gone_until = None

    def answer(_):
        nonlocal gone_until
        now = asyncio.get_running_loop().time()
        gone_until = gone_until or now + 120.0
        if now < gone_until:
            _refuse()

    ends, seconds, _ = troubled(operation, answer, config=Config(retry_attempts=1000))
    assert not isinstance(ends[0], BaseException), ends[0]
    assert 120 <= seconds < 180


def test_retry_config_keeps_its_pauses():
    """F22: the pauses of a RetryConfig are those of its sampling client."""
    retry = RetryConfig(retry_delay_base=8.0, retry_delay_max=8.0, jitter_factor=0.0)
    ends, seconds, network = troubled(
        "asample", lambda n: (503, {"detail": "down"}) if n <= 2 else None, retry_config=retry
    )
    assert not isinstance(ends[0], BaseException), ends[0]
    assert 16 <= seconds < 30
    assert network.count("asample") == 3
