"""A server that is ill for a while: how much it is asked, and how soon everybody is back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from in_process import MODEL, adam, client, run, server
from scripted import Scripted
from stub_server import StubServer

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.config import Config
from tinker_ext.errors import APITimeoutError, TinkerError

FUTURES = 1000
OUTAGE = 60.0
STATUSES = (500, 502, 503, 504)


class Ill(StubServer):
    """Accepts work, answers no poll, falls ill at a given time and recovers."""

    def __init__(self, begin: float, end: float, statuses: tuple[int, ...]) -> None:
        super().__init__(config={"fwdbwd_max_chunk_len": 64})
        self._begin, self._end, self._statuses = begin, end, statuses
        self._rng = random.Random(1)
        self.times: list[float] = []

    async def handle_async_request(self, request):
        import httpx

        now = asyncio.get_running_loop().time()
        if self._begin <= now < self._end:
            self.times.append(now)
            return httpx.Response(self._rng.choice(self._statuses), json={"detail": "ill"})
        if request.url.path.endswith("retrieve_future") and now < self._begin:
            await asyncio.sleep(min(20.0, self._begin - now + self._rng.random()))
            return httpx.Response(408, json={"queue_state": "active"})
        return await super().handle_async_request(request)


@pytest.mark.parametrize(("work", "statuses"), [("samples", STATUSES), ("steps", (503,))])
def test_a_thousand_futures_and_a_minute_of_503(work, statuses):
    """M24: at most 3 requests a second after the first burst; all done 2 s after recovery."""
    begin, end = 100.0, 100.0 + OUTAGE

    async def scenario():
        stub = Ill(begin, end, statuses)
        # Its beats are one more request every ten seconds, whatever else is under way.
        config = Config(heartbeat_interval=3600.0, sample_concurrency=FUTURES)
        async with client(stub, config=config) as service:
            loop = asyncio.get_running_loop()
            if work == "samples":
                sampler = await service.create_sampling_client_async(base_model="m")
                prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
                futures = [sampler.sample(prompt, 1, params) for _ in range(FUTURES)]
            else:
                training = await service.create_lora_training_client_async("m", rank=4)
                futures = [await training.optim_step_async(adam()) for _ in range(FUTURES)]
            done = []
            for future in futures:
                light = future if work == "samples" else future.future()
                light.add_done_callback(lambda _: done.append(loop.time()))
            await asyncio.gather(*futures)
            assert service.pending() == []
            return stub.times, done

    times, done = run(scenario)
    assert len(done) == FUTURES
    assert max(done) <= end + 2.0
    # The first burst: everybody who was under way learns of the illness once, and retries once.
    assert len([t for t in times if t < begin + 2.0]) <= 2 * FUTURES + 20
    later = Counter(int(t) for t in times if t >= begin + 2.0)
    assert later
    assert max(later.values()) <= 3


def test_a_server_that_takes_the_request_and_stays_silent():
    """M22: `request_timeout` ends an attempt, the retry window the call."""

    async def scenario():
        async def silent(operation, body, request):
            if operation == "optim_step":
                await asyncio.sleep(10_000.0)

        stub = StubServer(silent, config={"seq_ids": "dedupe", "fwdbwd_max_chunk_len": 64})
        config = Config(request_timeout=5.0, retry_window=20.0)
        async with client(stub, config=config) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            began = asyncio.get_running_loop().time()
            with pytest.raises(APITimeoutError) as caught:
                await (await training.optim_step_async(adam()))
            return stub.counts["optim_step"], asyncio.get_running_loop().time() - began, caught

    attempts, seconds, caught = run(scenario)
    assert attempts > 1
    assert seconds <= 26.0
    assert "sent again" in str(caught.value)


def test_closing_ends_what_waits():
    """M21 M22: close during an outage ends every future at once and leaves no task."""

    async def scenario():
        ill = False
        stub = StubServer(lambda *_: (503, {"detail": "ill"}) if ill else None)
        service = client(stub, config=Config(close_timeout=3.0))
        training = await service.create_lora_training_client_async("m", rank=4)
        ill = True
        futures = [await training.optim_step_async(adam()) for _ in range(5)]
        await asyncio.sleep(10.0)
        await service.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return [future.exception(0) for future in futures]

    errors = run(scenario)
    assert all(isinstance(error, TinkerError) for error in errors)


def test_a_request_that_is_not_answered_is_reported_within_ten_seconds(caplog):
    """M22: a server that answers its settings and nothing else is not waited for in silence."""

    async def scenario():
        loop = asyncio.get_running_loop()

        async def silent(sent, deliver):
            if sent.name == "create_session":
                await asyncio.sleep(30)

        async with client(Scripted(server(), silent)) as service:
            opening = loop.create_task(service.create_lora_training_client_async(MODEL, rank=1))
            await asyncio.sleep(10)
            told = list(caplog.messages)
            await opening
            return told

    (told,) = run(scenario)
    assert told.startswith("create_session to http://")
    assert "has had no answer for 6 s; giving up in 294 s." in told
