"""RetryConfig: what one sampling client may ask for, and what the server still decides."""

from __future__ import annotations

import asyncio
import json
import pickle

import httpx
import numpy as np
import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.core.retry_config import RetryConfig, portable
from tinker_ext.errors import (
    APIConnectionError,
    BadRequestError,
    ConfigurationError,
    FutureExpiredError,
    InternalServerError,
    RequestFailedError,
)

PROMPT = ModelInput.from_ints([1, 2])
PARAMS = SamplingParams(max_tokens=1)
RESULT = {"sequences": [{"stop_reason": "stop", "tokens": [1], "logprobs": [-0.5]}]}


class SlowServer(StubServer):
    """Every result takes a second; counts how many samples of whom are at work."""

    def __init__(self, **options):
        super().__init__(self._answer, **options)
        self.working = 0
        self.most = 0

    def _answer(self, operation, body, request):
        if operation == "asample":
            self.working += 1
            self.most = max(self.most, self.working)
        return self._result() if operation == "retrieve_future" else None

    async def _result(self):
        await asyncio.sleep(1.0)
        self.working -= 1
        return 200, RESULT


def sampled(server, config, count=1, **options):
    """Sample through a client with this configuration; gives results or errors, and the time."""

    async def scenario():
        async with client(server, **options) as service:
            sampler = await service.create_sampling_client_async(
                base_model="m", retry_config=config
            )
            started = asyncio.get_running_loop().time()
            calls = [sampler.sample_async(PROMPT, 1, PARAMS) for _ in range(count)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert service.pending() == []
            return ends, asyncio.get_running_loop().time() - started

    return run(scenario)


def failing(*answers, operation="asample"):
    """A server that gives these answers to an operation, then is friendly."""
    moments = []

    def answer(name, body, request):
        if name != operation:
            return None
        moments.append(asyncio.get_running_loop().time())
        if len(moments) > len(answers):
            return None
        found = answers[len(moments) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    server = StubServer(answer)
    server.moments = moments
    return server


@pytest.mark.parametrize(("own", "of_server", "most"), [(3, 2000, 3), (50, 4, 4), (None, 6, 6)])
def test_the_smaller_of_both_limits_holds(own, of_server, most):
    """M23: max_connections bounds one client; the server's number bounds it too."""
    server = SlowServer(config={"sample_max_concurrent_requests": of_server})
    ends, seconds = sampled(server, RetryConfig(max_connections=own), 20, wire="json")
    assert not any(isinstance(end, BaseException) for end in ends)
    assert server.most == most
    assert seconds < 20 / most + 3


def test_a_client_at_its_limit_does_not_hold_up_another():
    """M23: the other client's samples go past the line of the limited one."""

    async def scenario():
        async with client(SlowServer()) as service:
            narrow = await service.create_sampling_client_async(
                base_model="m", retry_config=RetryConfig(max_connections=1)
            )
            wide = await service.create_sampling_client_async(base_model="m")
            slow = [narrow.sample(PROMPT, 1, PARAMS) for _ in range(30)]
            slow[5].cancel()
            await asyncio.gather(*[wide.sample_async(PROMPT, 1, PARAMS) for _ in range(8)])
            waiting = sum(not future.done() for future in slow)
            for future in slow[:5] + slow[6:]:
                await future
            return waiting

    assert run(scenario) > 20


def test_delays_double_up_to_the_longest_and_vary_by_the_factor():
    """M24: base · 2ⁿ, at most the maximum, ± the jitter; table."""
    config = RetryConfig(retry_delay_base=1.0, retry_delay_max=5.0, jitter_factor=0.5)
    assert [config.delay(n, 0.5) for n in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]
    assert (config.delay(1, 0.0), config.delay(1, 1.0)) == (0.5, 1.5)
    assert config.delay(10**6, 1.0) == 5.0
    assert RetryConfig(jitter_factor=9.0).delay(1, 0.0) == 0.0


def test_failures_wait_as_the_client_asked():
    """M24: the pauses after lost connections are those of the RetryConfig."""
    lost = [httpx.ConnectError("no") for _ in range(3)]
    server = failing(*lost)
    config = RetryConfig(retry_delay_base=4.0, retry_delay_max=8.0, jitter_factor=0.0)
    ends, _ = sampled(server, config)
    assert ends[0].sequences[0].tokens == [1]
    gaps = [b - a for a, b in zip(server.moments, server.moments[1:], strict=False)]
    assert gaps == pytest.approx([4.0, 8.0, 8.0], abs=0.1)


def test_a_delay_the_server_names_is_obeyed():
    """M24: the server's delay wins over the client's own."""
    server = failing((503, {}, {"retry-after": "3"}))
    sampled(server, RetryConfig(retry_delay_base=9.0))
    assert server.moments[1] - server.moments[0] == pytest.approx(3.0, abs=0.5)


@pytest.mark.parametrize(
    ("failure", "error"),
    [((503, {}), InternalServerError), (httpx.ConnectError("no"), APIConnectionError)],
)
def test_without_retry_logic_the_first_failure_is_raised(failure, error):
    """M24: enable_retry_logic=False sends once."""
    server = failing(failure)
    ends, _ = sampled(server, RetryConfig(enable_retry_logic=False))
    assert isinstance(ends[0], error)
    assert server.counts["asample"] == 1


def test_without_retry_logic_a_refusal_is_still_waited_for():
    """M23: 429 is the server's way to hold back, not a failure."""
    server = failing((429, {}))
    ends, _ = sampled(server, RetryConfig(enable_retry_logic=False))
    assert ends[0].sequences[0].tokens == [1]


def test_without_retry_logic_an_expired_result_is_raised():
    """M22: nothing is submitted a second time."""
    server = failing((410, {}), operation="retrieve_future")
    ends, _ = sampled(server, RetryConfig(enable_retry_logic=False))
    assert isinstance(ends[0], FutureExpiredError)
    assert server.counts["asample"] == 1


def test_the_exceptions_may_be_fewer():
    """M24: a tuple without lost connections raises them."""
    server = failing(httpx.ConnectError("no"))
    ends, _ = sampled(server, RetryConfig(retryable_exceptions=(FutureExpiredError,)))
    assert isinstance(ends[0], APIConnectionError)


def test_the_exceptions_may_be_more():
    """M24: with RequestFailedError in the tuple a failed request is submitted as a new one."""
    failed = (200, {"error": "out of luck", "category": "server"})
    plain = failing(failed, failed, operation="retrieve_future")
    ends, _ = sampled(plain, RetryConfig())
    assert isinstance(ends[0], RequestFailedError)

    server = failing(failed, failed, operation="retrieve_future")
    config = RetryConfig(
        retryable_exceptions=(*RetryConfig().retryable_exceptions, RequestFailedError)
    )
    ends, _ = sampled(server, config)
    assert ends[0].sequences[0].tokens == [1]
    numbers = [body["seq_id"] for op, body, _ in server.requests if op == "asample"]
    assert numbers == [0, 1, 2]


@pytest.mark.parametrize(("category", "posts"), [("server", 2), ("user", 1), ("unknown", 1)])
def test_a_sample_the_server_failed_on_is_submitted_anew(category, posts):
    """F37: by default, as with the official SDK; what the request itself did wrong is told."""
    failed = (200, {"error": "out of luck", "category": category})
    server = failing(failed, operation="retrieve_future")
    ends, _ = sampled(server, None)
    assert isinstance(ends[0], RequestFailedError) is (posts == 1)
    assert server.counts["asample"] == posts


def test_a_retry_config_of_ones_own_tells_of_a_failure_on_the_server():
    """F37 M24: what it repeats is what its tuple names, here as with the official SDK 0.36.0."""
    failed = (200, {"error": "out of luck", "category": "server"})
    server = failing(failed, operation="retrieve_future")
    ends, _ = sampled(server, RetryConfig())
    assert isinstance(ends[0], RequestFailedError)
    assert ends[0].category.value == "server"
    assert server.counts["asample"] == 1


def test_a_mistake_is_never_retried():
    """M24: 400 is raised whatever the client's patience."""
    ends, _ = sampled(failing((400, {"detail": "bad"})), RetryConfig())
    assert isinstance(ends[0], BadRequestError)


def _deaf(operation, body, request):
    return (503, {}) if operation == "asample" else None


def test_progress_timeout_of_one_client():
    """M22: the samples of the impatient client end; those of the other go on."""

    async def scenario():
        async with client(StubServer(_deaf)) as service:
            impatient = await service.create_sampling_client_async(
                base_model="m", retry_config=RetryConfig(progress_timeout=60.0)
            )
            patient = await service.create_sampling_client_async(base_model="m")
            stays = patient.sample(PROMPT, 1, PARAMS)
            with pytest.raises(APIConnectionError, match="stuck"):
                await impatient.sample_async(PROMPT, 1, PARAMS)
            return asyncio.get_running_loop().time(), stays.done()

    now, done = run(scenario)
    assert 60 <= now < 70
    assert not done


@pytest.mark.parametrize("who", ["client", "server"])
def test_stuck_detection_can_be_off(who):
    """M22: neither the client's nor the server's word lets samples end as stuck."""
    config = RetryConfig(progress_timeout=60.0, enable_stuck_detection=who == "server")
    flags = {"sample_enable_stuck_detection": who == "client"}

    async def scenario():
        async with client(StubServer(_deaf, config=flags), wire="json") as service:
            sampler = await service.create_sampling_client_async(
                base_model="m", retry_config=config
            )
            future = sampler.sample(PROMPT, 1, PARAMS)
            await asyncio.sleep(200.0)
            return future.done()

    assert not run(scenario)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_connections": "x"},
        {"max_connections": 1.5},
        {"max_connections": True},
        {"progress_timeout": float("nan")},
        {"progress_timeout": "60"},
        {"progress_timeout": None},
        {"progress_timeout": -1},
        {"retry_delay_base": -1},
        {"retry_delay_base": float("inf")},
        {"retry_delay_max": float("nan")},
        {"jitter_factor": -0.5},
        {"retryable_exceptions": "TimeoutError"},
        {"retryable_exceptions": (5,)},
        {"retryable_exceptions": None},
    ],
)
def test_wrong_settings_are_named(wrong):
    """M38: by the constructor, not by the sample that fails first."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        RetryConfig(**wrong)


def test_settings_in_other_forms():
    """M16: numpy's numbers, one error or a list of them mean what they say."""
    config = RetryConfig(
        max_connections=np.int64(4), progress_timeout=60, retryable_exceptions=[TimeoutError]
    )
    assert config == RetryConfig(
        max_connections=4, progress_timeout=60.0, retryable_exceptions=TimeoutError
    )
    assert config.retries(TimeoutError())


def test_endless_times_travel_in_a_handle():
    """M24: JSON has no infinity, so a copy gets the longest time there is."""
    endless = RetryConfig(progress_timeout=float("inf"), retry_delay_max=float("inf"))
    there = RetryConfig(**json.loads(json.dumps(portable(endless), allow_nan=False)))
    assert there.progress_timeout > 1e300
    assert there.delay(3, 0.5) == endless.delay(3, 0.5)


def test_max_connections_must_be_positive_and_the_config_pickles():
    """M16: as in the official clients."""
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="max_connections"):
            RetryConfig(max_connections=wrong)
    config = RetryConfig(max_connections=5, progress_timeout=1.0, jitter_factor=0.1)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("name", ["enable_retry_logic", "enable_stuck_detection"])
@pytest.mark.parametrize("value", ["maybe", 2, None])
def test_switches_are_on_or_off(name, value):
    """M33: anything else is refused with the name of the switch."""
    with pytest.raises(ConfigurationError, match=name):
        RetryConfig(**{name: value})
    assert getattr(RetryConfig(**{name: False}), name) is False
