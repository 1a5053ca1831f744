"""Waiting for a result: what a 404 means, how long a pause may be, and when a wait ends."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest
from in_process import MODEL, adam, client, datum, deadline, run, server
from scripted import Scripted, page, reply

from tinker_ext import Config, ModelInput, SamplingParams
from tinker_ext.errors import DeadlineExceededError, FutureExpiredError, TinkerError

# A load into a client in use is one of the operations; what it warns of is told elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:load_state and load_state_with:FutureWarning")

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


def test_polls_that_get_no_connection_are_no_storm():
    """F5: nobody heard them, so they are sent again after a pause, unlike one that was held."""

    async def briefly(*clients):
        with deadline(60.0):
            return await _step(*clients)

    def nobody(_):
        raise httpx.ConnectTimeout("no connection")

    end, seconds, network = polled(nobody, briefly)
    assert isinstance(end, TinkerError)
    assert seconds <= 61
    assert network.count("retrieve_future") <= 100, network.count("retrieve_future")


@pytest.mark.parametrize("call", [_step, _sample])
def test_polls_are_counted_from_zero(call):
    """M22: each poll says how many there were before it, and the first how long the post took."""
    pending = {"type": "try_again", "request_id": "r", "queue_state": "active"}
    end, _, network = polled(lambda n: (408, pending) if n <= 2 else None, call)
    assert not isinstance(end, BaseException), end
    asked = [sent.headers for sent in network.of("retrieve_future")][-3:]
    assert [each["x-tinker-request-iteration"] for each in asked] == ["0", "1", "2"]
    roundtrips = ["x-tinker-create-promise-roundtrip-time" in each for each in asked]
    assert roundtrips == [True, False, False]


@pytest.mark.parametrize("call", [_step, _sample])
def test_retry_after_cap_holds_for_polls(call):
    """F22: a delay longer than `retry_after_cap` is cut to it, also at polls."""
    refusal = reply(429, {"detail": "later"}, {"retry-after": "50"})
    config = Config(retry_after_cap=1.0)
    end, seconds, _ = polled(lambda n: refusal if n <= 3 else None, call, config=config)
    assert not isinstance(end, BaseException), end
    assert 3 <= seconds < 10


@pytest.mark.parametrize("operation", ["asample", "retrieve_future", "optim_step"])
@pytest.mark.parametrize("status", [402, 429, 503])
def test_a_deadline_is_shorter_than_a_delay(operation, status):
    """F21 F22: `deadline(2)` ends after 2 s although the server asks for 12 s of patience.

    Whoever gives up earlier, since no attempt is left to make, says why and tells no deadline as
    passed that has not.
    """
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
    if seconds < 1.9:
        assert f"{status} - later" in str(end)
        assert "passed" not in str(end)


def test_a_poll_that_hangs_ends_at_the_deadline():
    """F22: a poll under way does not outlast the deadline of its call, nor does its connection."""
    hung_up = []

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and ready:
            try:
                await asyncio.sleep(3600.0)
            finally:
                hung_up.append(asyncio.get_running_loop().time())
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
            took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(1.0)
            return took, [at - began for at in hung_up]

    took, polls = run(scenario)
    assert took <= 5.1
    assert len(polls) == 1
    assert polls[0] <= 5.1


@pytest.mark.parametrize("answer", [page, lambda status: reply(status, {"detail": "busy"})])
@pytest.mark.parametrize("call", [_step, _sample])
def test_a_passing_409_at_a_poll(call, answer):
    """F4 M20: a gateway's 409 is asked again; only one that stays is the server's answer."""
    end, seconds, _ = polled(lambda n: answer(409) if n <= 2 else None, call)
    assert not isinstance(end, BaseException), end
    assert seconds < 60


@pytest.mark.parametrize("immediate", [False, True], ids=["408", "try again"])
def test_many_waits_share_one_pace(immediate):
    """M42: 100 samples on a server that answers "not yet" at once: 20 requests a second, not 466.

    Once it has the results they are fetched without the pace: each lets others ask.
    """

    async def scenario():
        ready = False

        async def script(sent, deliver):
            if sent.name != "retrieve_future" or ready:
                return None
            body = {"type": "try_again", "request_id": "r", "queue_state": "active"}
            return (200 if immediate else 408), body

        network = Scripted(server(), script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            prompt = ModelInput.from_ints([1])
            samples = [sampler.sample(prompt, 1, SamplingParams(max_tokens=1)) for _ in range(100)]
            await asyncio.sleep(25)
            assert not any(sample.done() for sample in samples)
            busy = network.rate("retrieve_future") - 100 / 10
            polls = network.count("retrieve_future")
            ready = True
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*samples)
            took = asyncio.get_running_loop().time() - began
        return busy, took, network.count("retrieve_future") - polls

    busy, took, polls = run(scenario)
    assert busy <= 20
    assert took <= 3  # at the pace alone it would be 7
    assert polls == 100


@pytest.mark.parametrize("failure", [500, "page"])
def test_polls_that_fail_in_turn_are_no_storm(failure):
    """M24 M42: every other poll fails, or each gets a page with 200: below 20 more a second.

    The "not yet" between two failures let all the others go at once, and so did the page.
    """

    async def scenario():
        ready = False
        asked = Counter()

        async def script(sent, deliver):
            if sent.name != "retrieve_future" or ready:
                return None
            asked[sent.body["request_id"]] += 1
            if failure == "page":
                return page(200)
            return (500, {}) if asked[sent.body["request_id"]] % 2 else (408, {})

        network = Scripted(server(), script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            samples = [sampler.sample(PROMPT, 1, ONE) for _ in range(100)]
            await asyncio.sleep(10)
            more = network.count("retrieve_future") - 100
            ready = True
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*samples)
            return more / 10, asyncio.get_running_loop().time() - began

    more, took = run(scenario)
    assert more < 20
    assert took < 60


def test_samples_that_fail_on_the_server_are_no_storm():
    """M22 M24: 200 that fail there are submitted anew below 20 requests a second.

    Once the server is well again each that succeeds lets others go.
    """

    async def scenario():
        well = False

        async def script(sent, deliver):
            if sent.name == "retrieve_future" and not well:
                return 200, {"error": "x", "category": "server"}
            return None

        network = Scripted(server(), script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            samples = [sampler.sample(PROMPT, 1, ONE) for _ in range(200)]
            await asyncio.sleep(10)
            more = network.count("retrieve_future") + network.count("asample") - 400
            well = True
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*samples)
            return more / 10, asyncio.get_running_loop().time() - began

    more, took = run(scenario)
    assert 5 < more < 20
    assert took < 10  # at the pace alone it would be 33


def test_a_deadline_tells_what_a_sample_failed_with():
    """M22: a sample that waits to be submitted anew when its time is over says why it had to."""

    async def scenario():
        async def script(sent, deliver):
            failed = sent.name == "retrieve_future"
            return (200, {"error": "no GPU left", "category": "server"}) if failed else None

        async with client(Scripted(server(), script)) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with deadline(3.0):
                calls = [sampler.sample(PROMPT, 1, ONE) for _ in range(50)]
            return await asyncio.gather(*calls, return_exceptions=True)

    ends = run(scenario)
    assert any(isinstance(end, DeadlineExceededError) for end in ends)
    assert all("no GPU left" in str(end) for end in ends)


def test_a_deadline_passes_while_polls_wait_for_their_turn():
    """M42: the shared pace keeps nobody beyond the deadline."""

    async def scenario():
        async def script(sent, deliver):
            return (408, {}) if sent.name == "retrieve_future" else None

        async with client(Scripted(server(), script)) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            began = asyncio.get_running_loop().time()
            with deadline(3.0):
                calls = [
                    sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
                    for _ in range(150)
                ]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            return {type(end) for end in ends}, asyncio.get_running_loop().time() - began

    kinds, took = run(scenario)
    assert kinds == {DeadlineExceededError}
    assert took < 3.5


def test_the_watchdog_goes_on_while_anything_is_in_flight(caplog):
    """M28: of two samples the second is done; that the first hangs is told all the same."""

    async def scenario():
        first = None

        async def script(sent, deliver):
            nonlocal first
            if sent.name == "retrieve_future" and sent.body["request_id"] == first:
                return 408, {}
            answer = await deliver()
            if sent.name == "asample":
                first = first or answer.json()["request_id"]
            return answer

        config = Config(stall_warning_period=20.0)
        async with client(Scripted(server(), script), config=config) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            stuck = sampling.sample(PROMPT, 1, ONE)
            await asyncio.sleep(1)
            await sampling.sample_async(PROMPT, 1, ONE)
            await asyncio.sleep(60)
            stuck.cancel()

    run(scenario)
    assert "have not moved" in caplog.text
