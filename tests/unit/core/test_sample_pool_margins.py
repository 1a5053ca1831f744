"""Lines of samples and the watch over their progress, at their margins.

M22 M23: who may have the next turn, what is left of a line when its samples are given up, and when
a group of samples counts as stuck.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys

import pytest
from in_process import client, run
from stub_server import StubServer
from virtual_clock import run_virtual

from tinker_ext import Config, ImageChunk, ModelInput, RetryConfig, SamplingParams
from tinker_ext.core.sample_pool import Progress, RoundRobin, Sample, Source
from tinker_ext.errors import (
    BadRequestError,
    ClientClosedError,
    FutureExpiredError,
    TinkerError,
)

PARAMS = SamplingParams(max_tokens=1)


class Least(random.Random):
    """Every pause is as short as it may be."""

    def random(self):
        return 0.0


def samples(queue, source, count):
    made = [Sample(source, f"{source.key}{n}", 1, PARAMS, None, 0.0, 0.0) for n in range(count)]
    for each in made:
        queue.push(each)
    return made


def give_up(queue, given):
    for each in given:
        each.result.cancel()
        queue.gave_up(each)


def test_a_resting_client_whose_line_is_given_up_has_no_turn():
    """M23: its last sample in flight ends, and the others are served."""
    queue = RoundRobin()
    few = Source("a", {}, None, RetryConfig(max_connections=1))
    other = Source("b", {}, None)
    line = samples(queue, few, 80)
    assert queue.pop() is line[0]
    assert queue.pop() is None  # the client has as many in flight as it allows itself
    give_up(queue, line[1:])
    assert queue.count < 20
    queue.ended(few)
    samples(queue, other, 2)
    assert [queue.pop().prompt for _ in range(2)] == ["b0", "b1"]
    samples(queue, few, 1)
    assert queue.pop().prompt == "a0"
    assert queue.pop() is None
    assert queue.count == 0


def test_two_that_end_at_once_make_room_for_two():
    """M23: and the client has one turn in each round, as before."""
    queue = RoundRobin()
    few, other = Source("a", {}, None, RetryConfig(max_connections=2)), Source("b", {}, None)
    samples(queue, few, 8)
    samples(queue, other, 8)
    assert [queue.pop().prompt for _ in range(4)] == ["a0", "b0", "a1", "b1"]
    queue.ended(few)
    queue.ended(few)
    assert [queue.pop().prompt for _ in range(4)] == ["b2", "a2", "b3", "a3"]
    assert [queue.pop().prompt for _ in range(4)] == ["b4", "b5", "b6", "b7"]
    assert queue.pop() is None


def test_a_line_is_let_go_when_most_of_it_is_given_up():
    """M23: few of them, or fewer than half, stay until their turn; whoever is left keeps it."""
    queue, source = RoundRobin(), Source("a", {}, None)
    line = samples(queue, source, 200)
    give_up(queue, line[:100])
    assert queue.count == 200
    give_up(queue, line[100:101])
    assert queue.count == 99
    assert [each.prompt for each in queue] == [each.prompt for each in line[101:]]
    give_up(queue, line[101:165])
    assert queue.count == 99  # 64 are few
    give_up(queue, line[165:166])
    assert queue.count == 34
    assert queue.pop() is line[166]
    give_up(queue, line[167:199])
    assert queue.pop() is line[199]
    assert (queue.pop(), queue.count) == (None, 0)


def test_samples_given_up_in_line_are_forgotten_at_their_turn():
    """M23: those of the next hour are let go as soon as those of the first."""
    queue, source = RoundRobin(), Source("a", {}, None)
    for _ in range(5):
        line = samples(queue, source, 61)
        give_up(queue, line[:60])
        assert queue.pop() is line[60]
    line = samples(queue, source, 70)
    give_up(queue, line[:64])
    assert queue.count == 70
    give_up(queue, line[64:65])
    assert queue.count == 5


@pytest.mark.parametrize(("size", "pause"), [(131_072, 1.0), (131_073, 5.0)])
def test_a_large_sample_that_is_refused_pauses_for_longer(size, pause):
    """M24: above 128 KB."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "asample":
                sent.append(asyncio.get_running_loop().time())
                return (429, {"detail": "busy"}) if len(sent) == 1 else None
            return None

        sent = []
        async with client(StubServer(handler), rng=Least()) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            image = ImageChunk(
                data=bytes(size), format="jpeg", height=1, width=1, expected_tokens=1
            )
            await sampler.sample(ModelInput(chunks=[image]), 1, PARAMS)
        return sent[1] - sent[0]

    assert run(scenario) == pytest.approx(pause)


@pytest.mark.parametrize(
    ("moves", "ends"),
    [
        ([], 10.0),  # nothing moved since the first one began
        ([4.0], 14.0),
        ([4.0, 13.9], 23.9),
        ([9.999], 19.999),
    ],
)
def test_a_group_is_stuck_so_long_after_its_last_movement(moves, ends):
    """M22: not sooner, and once."""

    async def scenario():
        loop, told = asyncio.get_running_loop(), []
        progress = Progress(10.0, lambda *found: told.append((*found, round(loop.time(), 3))))
        progress.began(loop)
        progress.began(loop)
        progress.ended()
        for moment in moves:
            await asyncio.sleep(moment - loop.time())
            progress.moved = loop.time()
        await asyncio.sleep(100.0)
        assert told == [(progress, 10.0, ends)]

    run_virtual(scenario())


def test_samplers_without_settings_of_their_own_are_one_group():
    """M23: one that waits is not stuck as long as another gets its samples."""

    async def scenario():
        async def handler(operation, body, request):
            if operation == "retrieve_future":
                await asyncio.sleep(100.0 if body["request_id"] == "r0" else 8.0)
            return

        config = Config(progress_timeout=20.0, poll_timeout=200.0)
        async with client(StubServer(handler), config=config) as service:
            prompt = ModelInput.from_ints([1])
            slow, quick = [
                await service.create_sampling_client_async(base_model="m") for _ in range(2)
            ]
            waits = slow.sample(prompt, 1, PARAMS)
            await asyncio.sleep(1.0)
            while not waits.done():
                await quick.sample(prompt, 1, PARAMS)
            return await waits

    assert run(scenario).sequences


def test_a_sample_after_a_rest_has_the_whole_patience():
    """M23: what ended before it is not waited for any more."""

    async def scenario():
        async def handler(operation, body, request):
            if operation == "asample":
                await asyncio.sleep(5.0 if now() < 20.0 else 12.0)
            return

        now = asyncio.get_running_loop().time
        async with client(StubServer(handler), config=Config(progress_timeout=20.0)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt = ModelInput.from_ints([1])
            await sampler.sample(prompt, 1, PARAMS)
            await asyncio.sleep(22.0 - now())
            return await sampler.sample(prompt, 1, PARAMS)

    assert run(scenario).sequences


def test_a_group_that_has_ended_is_not_stuck_and_the_next_begins_anew():
    """M22: the clock runs from the first sample of each group; a closed one says nothing."""

    async def scenario():
        loop, told = asyncio.get_running_loop(), []
        progress = Progress(10.0, lambda *_: told.append(loop.time()))
        progress.began(loop)
        await asyncio.sleep(3.0)
        progress.ended()
        await asyncio.sleep(50.0)
        assert told == []
        progress.began(loop)
        await asyncio.sleep(9.0)
        assert told == []
        await asyncio.sleep(2.0)
        assert told == [63.0]
        progress.began(loop)
        progress.close()
        progress.close()
        patient = Progress(None, lambda *_: told.append("never"))
        patient.began(loop)
        await asyncio.sleep(500.0)
        assert told == [63.0]

    run_virtual(scenario())


def test_a_pool_that_is_closed_takes_nothing():
    """M21: also what comes a moment after the client has looked whether it is open."""

    async def scenario():
        async with client(StubServer()) as service:
            await service.create_sampling_client_async(base_model="m")
            pool = service._workspace.samples
            pool.close(ClientClosedError("over"))
            with pytest.raises(ClientClosedError, match="over"):
                pool.submit(Sample(Source("a", {}, None), "x", 1, PARAMS, None, 0.0, 9.0))
            assert pool.queued == 0

    run(scenario)


class Shared:
    """The limit of a fleet, which notes what it is told."""

    value = 5

    def __init__(self):
        self.told = []

    def accepted(self, **told):
        self.told.append(told)

    def refused(self, **told):
        self.told.append(told)

    async def after_refusal(self, backoff):
        self.told.append("waits")
        await backoff.wait()


def test_the_limit_of_a_fleet_is_told_what_a_refusal_means():
    """M23: a server without room is another matter than an account without credit."""

    async def scenario():
        answers = [(429, {}, {"retry-after-ms": "2000"}), (402, {}), (429, {})]

        async def handler(operation, body, request):
            if operation != "asample":
                return None
            await asyncio.sleep(0.25)
            return answers.pop(0) if answers else None

        async with client(StubServer(handler), rng=Least()) as service:
            pool, limit = service._workspace.samples, Shared()
            pool.share_limit(limit)
            sampler = await service.create_sampling_client_async(base_model="m")
            began = asyncio.get_running_loop().time()
            future = sampler.sample(ModelInput.from_ints([1]), 1, PARAMS)
            await asyncio.sleep(1.0)
            waits = pool.in_flight, pool.active
            future.cancel()
            await asyncio.sleep(1.0)
            gone = pool.in_flight, pool.active
            await sampler.sample(ModelInput.from_ints([1]), 1, PARAMS)
            return began, limit.told, waits, gone

    began, told, waits, gone = run(scenario)
    starts = [each.pop("started") - began for each in told if "started" in each]
    assert told == [
        {"pause": 2.0, "full": True},  # and given up while it would wait
        {"pause": 5.0, "full": False},
        "waits",
        {"pause": 1.0, "full": True},
        "waits",
        {"in_flight": 1},
    ]
    assert starts == pytest.approx([0.0, 2.25, 7.5])
    assert (waits, gone) == ((1, 0), (0, 0))


@pytest.mark.parametrize(
    ("soft", "spare"),
    [
        (1024, 640),
        (4096, 2944),
        (257, 64),
        (256, 64),
        (8, 64),
        (resource.RLIM_INFINITY, 65_536),
        (None, 65_536),  # a platform without such limits
    ],
)
def test_polls_leave_a_quarter_of_the_descriptors_to_everybody_else(monkeypatch, soft, spare):
    """M23: as many may be open at once as this process is allowed, and no fewer than 64."""
    if soft is None:
        monkeypatch.setitem(sys.modules, "resource", None)
    else:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))

    async def scenario():
        config = Config(poll_connections=100_000)
        async with client(StubServer(), config=config) as service:
            return service._workspace.samples._most_polls

    assert run(scenario) == spare


def test_a_thousand_samples_are_taken_in_at_a_time():
    """M23: between them others have their turn, and none is left out."""

    async def scenario():
        async def deaf(operation, body, request):
            if operation == "asample":
                await asyncio.sleep(1000.0)

        async with client(StubServer(deaf)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            pool, loop, seen = service._workspace.samples, asyncio.get_running_loop(), []
            futures = [sampler.sample(ModelInput.from_ints([1]), 1, PARAMS) for _ in range(2500)]

            def look():
                seen.append(len(pool._incoming))
                if seen[-1]:
                    loop.call_soon(look)

            look()
            await asyncio.sleep(1.0)
            for future in futures:
                future.cancel()
            await asyncio.sleep(1.0)
            return seen, pool.in_flight, pool.queued

    assert run(scenario) == ([2500, 1500, 500, 0], 0, 0)


def test_the_server_is_told_of_64_cancelled_samples_at_a_time():
    """M23: of all of them, and results of others are polled for meanwhile."""

    async def scenario():
        under_way, seen = 0, []

        async def handler(operation, body, request):
            nonlocal under_way
            if operation == "client/dynamic_config":
                return 200, {"sample_cancel_enabled": True}
            if operation == "retrieve_future":
                await asyncio.sleep(1000.0)
            if operation == "cancel_future":
                under_way += 1
                seen.append((body["request_id"], under_way))
                await asyncio.sleep(1.0)
                under_way -= 1
                return 200, {}
            return None

        stub = StubServer(handler, config={"sample_max_concurrent_requests": 200})
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt = ModelInput.from_ints([1])
            futures = [sampler.sample(prompt, 1, PARAMS) for _ in range(150)]
            await asyncio.sleep(20.0)
            assert service._workspace.samples.accepted == 150
            for future in futures:
                future.cancel()
            await asyncio.sleep(20.0)
            return {each for each, _ in seen}, max(count for _, count in seen)

    told, most = run(scenario)
    assert (len(told), most) == (150, 64)


def test_an_empty_400_is_taken_for_a_gateways_three_times():
    """M24: then it is what it says; one with words is, at once."""

    async def scenario(content):
        def handler(operation, body, request):
            return (400, content) if operation == "asample" else None

        stub = StubServer(handler)
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            with pytest.raises(BadRequestError):
                await sampler.sample(ModelInput.from_ints([1]), 1, PARAMS)
        return stub.counts["asample"]

    assert run(lambda: scenario(b"")) == 4
    assert run(lambda: scenario(b'{"detail":"no"}')) == 1


def test_lost_samples_are_submitted_again_at_a_pace():
    """M22: ten at once, then six a second; a server that lost all of them is not stormed."""

    async def scenario():
        posts, loop = [], asyncio.get_running_loop()

        async def handler(operation, body, request):
            if operation == "asample":
                posts.append(loop.time())
            if operation == "retrieve_future":
                return 410, {}
            return None

        async with client(StubServer(handler), rng=Least()) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt = ModelInput.from_ints([1])
            futures = [sampler.sample(prompt, 1, PARAMS) for _ in range(60)]
            ends = await asyncio.gather(*map(_ended, futures))
            assert {type(end) for end in ends} == {FutureExpiredError}
        return posts

    posts = run(scenario)
    assert len(posts) == 60 * 6
    again = [moment - posts[60] for moment in posts[60:]]
    assert again[:10] == pytest.approx([0.0] * 10, abs=0.05)
    assert again[10:30] == pytest.approx([(n - 9) / 6.0 for n in range(10, 30)], abs=0.2)
    assert again[-1] == pytest.approx((300 - 10) / 6.0, abs=0.5)


async def _ended(future):
    try:
        return await future
    except TinkerError as error:
        return error


def test_a_client_has_room_below_its_limit_only():
    """M23: a client that sets none always has."""
    assert [_full(most, held) for most, held in ((2, 1), (2, 2), (2, 3), (None, 9))] == [
        False, True, True, False,
    ]  # fmt: skip
    assert not Source("a", {}, None).full


def _full(most, held):
    source = Source("a", {}, None, RetryConfig(max_connections=most))
    source.in_flight = held
    return source.full
