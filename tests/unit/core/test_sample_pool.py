"""The sample pool under a scripted server: what it finds out about limits, and what it keeps."""

from __future__ import annotations

import asyncio

import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext import DeadlineExceededError, ModelInput, RetryConfig, SamplingParams
from tinker_ext.config import Config
from tinker_ext.core.sample_pool import RoundRobin, Sample, Source
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import FeatureMissingError

PROMPT = ModelInput.from_ints([1, 2])
PARAMS = SamplingParams(max_tokens=1)


class LimitedServer(StubServer):
    """Admits a number of samples at once; each takes a second."""

    def __init__(self, admits, **options):
        super().__init__(self._answer, **options)
        self.admits = admits
        self.working = 0
        self.most = 0
        self.refused = 0

    def _answer(self, operation, body, request):
        if operation == "asample":
            if self.working >= self.admits:
                self.refused += 1
                return 429, {"detail": "busy"}, {"retry-after-ms": "100"}
            self.working += 1
            self.most = max(self.most, self.working)
            asyncio.get_running_loop().call_later(1.0, self._done)
        if operation == "retrieve_future":
            return self._later()
        return None

    def _done(self):
        self.working -= 1

    async def _later(self):
        await asyncio.sleep(1.0)
        return 200, {"sequences": [{"stop_reason": "stop", "tokens": [1], "logprobs": [-0.5]}]}


def test_concurrency_converges_to_what_the_server_admits():
    """M23: additive increase, multiplicative decrease; few refusals, nearly full use."""

    async def scenario():
        server = LimitedServer(20)
        async with client(server) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(400)]
            for future in futures:
                await future
            now = asyncio.get_running_loop().time()
            return service.holder.samples.limit.value, server.refused, now

    limit, refused, seconds = run(scenario)
    assert 10 <= limit <= 30
    assert refused < 80
    assert seconds < 2 * 400 / 20


def test_one_back_off_for_all_samplers_of_a_key():
    """M23: after one 429 nobody with this server and key sends until the pause is over."""

    async def scenario():
        sent = []

        def answer(operation, body, request):
            if operation == "asample":
                now = asyncio.get_running_loop().time()
                sent.append(now)
                if len(sent) == 1:
                    return 429, {}, {"retry-after": "7"}
            return None

        async with client(StubServer(answer)) as one, client(StubServer(answer)) as two:
            first = await one.create_sampling_client_async(base_model="m")
            second = await two.create_sampling_client_async(base_model="m")
            a = first.sample(PROMPT, 1, PARAMS)
            await asyncio.sleep(0.5)
            b = second.sample(PROMPT, 1, PARAMS)
            await a
            await b
        return sent

    sent = run(scenario)
    assert len(sent) == 3
    assert all(moment >= sent[0] + 7.0 for moment in sent[1:])


def test_the_server_may_set_the_cap():
    """M23: sample_max_concurrent_requests of the server is never exceeded."""

    async def scenario():
        config = {"sample_max_concurrent_requests": 5, "fwdbwd_max_chunk_len": 8}
        server = LimitedServer(1000, config=config)
        async with client(server, wire="json") as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(30)]
            for future in futures:
                await future
            return server.most

    assert run(scenario) == 5


def test_a_sample_without_a_connection_stays_in_the_queue():
    """M23 M48: it costs a record there, and a task with its timers once it is started."""

    async def scenario():
        async def answer(operation, body, request):
            if operation == "asample":
                await asyncio.sleep(1000.0)
            return

        async with client(StubServer(answer)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(500)]
            await asyncio.sleep(1.0)
            pool = service.holder.samples
            lane = service.holder.server.connection.queue("sample")
            counts = pool.in_flight, pool.queued, lane.held, lane.waiting
            for future in futures:
                future.cancel()
            await asyncio.sleep(1.0)
            return counts, lane.limit, (pool.in_flight, pool.queued, lane.held)

    counts, limit, after = run(scenario)
    assert counts == (limit, 500 - limit, limit, 0)
    assert after == (0, 0, 0)


def test_samples_that_keep_failing_do_not_hold_up_the_others():
    """M23: a sample that is tried again leaves its place to the next."""

    async def scenario():
        def answer(operation, body, request):
            if operation == "asample" and body["prompt"]["chunks"][0]["tokens"] == [9]:
                return 503, {}
            return server._later() if operation == "retrieve_future" else None

        server = LimitedServer(1000)
        async with client(StubServer(answer)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            for future in [sampler.sample(PROMPT, 1, PARAMS) for _ in range(120)]:
                await future
            assert service.holder.samples.limit.value > 21  # all of what follows may be sent
            bad = [sampler.sample(ModelInput.from_ints([9]), 1, PARAMS) for _ in range(20)]
            await sampler.sample(PROMPT, 1, PARAMS)
            failing = sum(not future.done() for future in bad)
            for future in bad:
                future.cancel()
            return failing

    assert run(scenario) == 20


def test_large_requests_respect_the_byte_budget():
    """M23: bytes on their way are bounded, whatever the number of requests."""

    async def scenario():
        most = [0]
        sending = [0]

        async def answer(operation, body, request):
            if operation == "asample":
                sending[0] += 1
                most[0] = max(most[0], sending[0])
                await asyncio.sleep(0.1)
                sending[0] -= 1
            return

        config = Config(sample_bytes_in_flight=100_000)
        async with client(StubServer(answer), config=config) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            large = ModelInput.from_ints([1] * 5000)  # about 50 KB each
            futures = [sampler.sample(large, 1, PARAMS) for _ in range(20)]
            for future in futures:
                await future
            return most[0]

    assert run(scenario) <= 4


def test_a_sample_keeps_its_number_over_resends_and_gets_a_new_one_when_resubmitted():
    """M20 M22: 503 repeats the number; an expired future is a new request."""

    async def scenario():
        def answer(operation, body, request):
            if operation == "asample" and stub.counts["asample"] == 1:
                return 503, {}
            if operation == "retrieve_future" and stub.counts["retrieve_future"] == 1:
                return 410, {}
            return None

        stub = StubServer(answer)
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            await sampler.sample_async(PROMPT, 1, PARAMS)
            return [body["seq_id"] for op, body, _ in stub.requests if op == "asample"]

    assert run(scenario) == [0, 0, 1]


def test_round_robin_is_fair():
    """M23: one of each in turn, each line in call order."""
    queue = RoundRobin()
    sources = {key: Source(key, {}, None) for key in "ab"}

    def add(key, mark):
        queue.push(Sample(sources[key], mark, 1, PARAMS, None, 0.0, 0.0))

    for mark in range(3):
        add("a", f"a{mark}")
    add("b", "b0")
    assert queue.count == 4
    assert [queue.pop().prompt for _ in range(4)] == ["a0", "b0", "a1", "a2"]
    assert queue.count == 0


def test_a_client_has_no_more_in_flight_than_it_allows_itself():
    """M23: others go on meanwhile; one that ends makes room for one."""
    queue = RoundRobin()
    few = Source("a", {}, None, RetryConfig(max_connections=2))
    other = Source("b", {}, None)
    for mark in range(4):
        queue.push(Sample(few, f"a{mark}", 1, PARAMS, None, 0.0, 0.0))
    queue.push(Sample(other, "b0", 1, PARAMS, None, 0.0, 0.0))
    assert [queue.pop().prompt for _ in range(3)] == ["a0", "b0", "a1"]
    assert queue.pop() is None
    queue.ended(few)
    assert (queue.pop().prompt, queue.pop()) == ("a2", None)


def test_a_server_that_does_not_sample_is_named():
    """M15: it has no such endpoint, which is not a mistake in the request."""

    async def scenario():
        def trains_only(operation, body, request):
            return (404, {"detail": "Not Found"}) if operation == "asample" else None

        async with client(StubServer(trains_only)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            with pytest.raises(FeatureMissingError):
                await sampler.sample(PROMPT, 1, PARAMS)

    run(scenario)


def test_sampling_without_any_progress_ends():
    """M22 M23: no sample moved for the progress timeout: all end, and say so."""

    async def scenario():
        def deaf(operation, body, request):
            return (503, {}) if operation == "asample" else None

        config = Config(progress_timeout=600.0)
        async with client(StubServer(deaf), config=config) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(5)]
            ends = await asyncio.gather(*map(_value, futures), return_exceptions=True)
            assert service.pending() == []
            return ends, asyncio.get_running_loop().time()

    ends, now = run(scenario)
    assert all("stuck" in str(end) for end in ends)
    assert 600 <= now < 700


def test_a_sample_that_is_accepted_late_counts_as_progress_when_it_is():
    """M23: its first attempt hung for longer than the progress timeout; the second was taken."""

    async def scenario():
        posts = []

        async def slow(operation, body, request):
            if operation == "asample":
                posts.append(request)
                if len(posts) == 1:
                    await asyncio.sleep(4.0)
                    return 503, {}
            if operation == "retrieve_future":
                await asyncio.sleep(2.0)
            return None

        config = Config(progress_timeout=5.0)
        async with client(StubServer(slow), config=config) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            return await _value(sampler.sample(PROMPT, 1, PARAMS))

    assert run(scenario).sequences


def test_a_refused_sample_counts_again_once_it_is_sent_again():
    """M23: a fleet divides what is under way; one that waits after a refusal is not."""

    async def scenario():
        posts = []

        async def busy_once(operation, body, request):
            if operation == "asample":
                posts.append(request)
                if len(posts) == 1:
                    return 429, {"detail": "busy"}, {"retry-after-ms": "1000"}
            if operation == "retrieve_future":
                await asyncio.sleep(10.0)
            return None

        async with client(StubServer(busy_once)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            future = sampler.sample(PROMPT, 1, PARAMS)
            pool = service.holder.samples
            await asyncio.sleep(0.5)
            waits = pool.in_flight, pool.active
            await asyncio.sleep(5.0)
            sent = pool.in_flight, pool.active
            await future
            return waits, sent

    assert run(scenario) == ((1, 0), (1, 1))


def test_a_sample_given_up_before_its_first_step_leaves_its_place():
    """M23: its task never runs; the samples behind it are sent all the same."""

    async def scenario():
        stub = StubServer(lambda *_: None)
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            pool = service.holder.samples
            futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(300)]

            def give_up():
                for sample in list(pool._in_flight):
                    sample.result.cancel()
                    pool.cancel(sample)

            asyncio.get_running_loop().call_soon(give_up)
            ends = await asyncio.gather(*map(_value, futures), return_exceptions=True)
            await asyncio.sleep(1.0)
            sent = sum(op == "asample" for op, _, _ in stub.requests)
            return ends, sent, (pool.in_flight, pool.queued)

    ends, sent, after = run(scenario)
    given_up = sum(isinstance(end, asyncio.CancelledError) for end in ends)
    assert 0 < given_up < 300
    assert sent == 300 - given_up == sum(not isinstance(end, BaseException) for end in ends)
    assert after == (0, 0)


def test_samples_cancelled_in_line_are_let_go_while_the_server_is_busy():
    """M23: also after many that left the line before the pool had heard of their end."""

    async def scenario():
        async def deaf(operation, body, request):
            if operation == "retrieve_future":
                await asyncio.sleep(1000.0)

        async with client(StubServer(deaf), config=Config(sample_concurrency=50)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            pool = service.holder.samples

            async def submit():
                futures = [sampler.sample(PROMPT, 1, PARAMS) for _ in range(2000)]
                await asyncio.sleep(1.0)
                return futures[: pool.in_flight], futures[pool.in_flight :]

            for group in await submit():  # the places of the first go to others, cancelled just now
                for future in group:
                    future.cancel()
                await asyncio.sleep(0)
            await asyncio.sleep(1.0)
            sent, line = await submit()
            for future in line:
                future.cancel()
            await asyncio.sleep(1.0)
            found = len(sent), len(line), pool.in_flight, pool.queued
            for future in sent:
                future.cancel()
            await asyncio.sleep(1.0)
            return found

    sent, line, in_flight, queued = run(scenario)
    assert sent == in_flight > 0
    assert queued < line / 10


@pytest.mark.parametrize("most", [None, 1])
def test_each_sample_ends_at_its_own_deadline(most):
    """M22: one timer serves all of them; a later one with less time is not forgotten."""

    async def scenario():
        async def deaf(operation, body, request):
            if operation == "retrieve_future":
                await asyncio.sleep(1000.0)

        config = Config(sample_concurrency=most) if most else None
        async with client(StubServer(deaf), config=config) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            loop = asyncio.get_running_loop()
            first = sampler.sample(PROMPT, 1, PARAMS)  # has the only place, where there is one
            await asyncio.sleep(1.0)
            began, ends = loop.time(), {}

            async def one(seconds):
                with deadline(seconds):
                    future = sampler.sample(PROMPT, 1, PARAMS)
                with pytest.raises(DeadlineExceededError):
                    await future
                ends[seconds] = loop.time() - began

            await asyncio.gather(*map(one, (30.0, 10.0, 10.01, 20.0)))
            first.cancel()
            return ends

    ends = run(scenario)
    queued = {30.0: 30.0, 10.0: 10.0, 10.01: 10.05, 20.0: 20.0}  # 50 ms between two looks
    assert ends == pytest.approx(queued if most else {each: each for each in queued})


async def _value(future):
    return await future


@pytest.mark.parametrize("silent", ["asample", "retrieve_future"])
def test_a_sample_whose_task_is_cancelled_ends(silent):
    """M21: as at the end of a loop; whoever waits for it is told."""

    async def scenario():
        async def answer(operation, body, request):
            if operation == silent:
                await asyncio.sleep(1e6)

        async with client(StubServer(answer)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            before = asyncio.all_tasks()
            future = sampler.sample(PROMPT, 1, PARAMS)
            await asyncio.sleep(5.0)
            assert not future.done()
            for task in asyncio.all_tasks() - before:
                task.cancel()
            await asyncio.sleep(1.0)
            return future.done(), service.pending()

    assert run(scenario) == (True, [])


def test_a_mistake_of_ours_is_given_to_who_waits_and_logged(monkeypatch, caplog):
    """M15: as it is; the sample leaves its place, and the next one is served."""

    def broken(content):
        monkeypatch.undo()
        raise KeyError("nobody expects this")

    async def scenario():
        async with client(StubServer()) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            monkeypatch.setattr("tinker_ext.core.sample_pool.read_promise", broken)
            with pytest.raises(KeyError, match="nobody expects this"):
                await sampler.sample(PROMPT, 1, PARAMS)
            assert service.pending() == []
            await sampler.sample(PROMPT, 1, PARAMS)

    run(scenario)
    (told,) = caplog.records
    assert (told.levelname, told.exc_info[0]) == ("ERROR", KeyError)
