"""A workspace that cannot start, its questions to the server, and the deadline of a block."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings

import pytest
from in_process import InlineRuntime, client, run
from stub_server import StubServer
from virtual_clock import run_virtual

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.core.workspace import chosen_seconds, deadline
from tinker_ext.errors import ClientClosedError, DeadlineExceededError, InvalidInputError


class Counting(InlineRuntime):
    """Counts its users; refuses as many of them as it is told."""

    def __init__(self, loop, refusals=0):
        super().__init__(loop)
        self.users = []
        self.refusals = refusals

    def retain(self):
        if self.refusals:
            self.refusals -= 1
            raise ClientClosedError("no thread can be started")
        self.users.append(1)

    def release(self):
        self.users.append(-1)


def test_a_loop_that_could_not_start_is_started_by_the_next_call():
    """M21: it is retained once and released once; a client that never got that far, never."""

    async def scenario():
        for refusals in (0, 1, 2):
            runtime = Counting(asyncio.get_running_loop(), refusals)
            service = client(StubServer())
            service._workspace.runtime = runtime
            for _ in range(refusals):
                with pytest.raises(ClientClosedError, match="no thread"):
                    await service.create_sampling_client_async(base_model="m")
            assert runtime.users == []
            for _ in range(2):
                await service.create_sampling_client_async(base_model="m")
            assert runtime.users == [1]
            await service.close("success")
            await service.close("success")
            assert runtime.users == [1, -1]
        unused = client(StubServer())
        unused._workspace.runtime = Counting(asyncio.get_running_loop(), 1)
        with pytest.raises(ClientClosedError, match="no thread"):
            await unused.create_sampling_client_async(base_model="m")
        await unused.close("success")
        assert unused._workspace.runtime.users == []

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "told", "logged"),
    [
        ((200, {"sample_cancel_enabled": True}), 3, 0),
        ((200, {"sample_cancel_enabled": False}), 0, 0),
        ((404, {"detail": "Not Found"}), 0, 0),
        ((403, {"detail": "no"}), 0, 0),
        (RuntimeError("a mistake of ours"), 0, 1),
    ],
)
def test_a_server_is_told_of_cancelled_samples_where_it_wants_to_know(
    answer, told, logged, caplog, monkeypatch
):
    """M23: asked once; a refusal means no, and a mistake is not taken for one."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "client/dynamic_config":
                return answer
            if operation == "retrieve_future":
                return asyncio.sleep(1e6)
            return (200, {}) if operation == "cancel_future" else None

        stub = StubServer(handler, config={"sample_max_concurrent_requests": 9})
        async with client(stub) as service:
            if isinstance(answer, Exception):
                server, call = service._workspace.server, service._workspace.server.call

                async def broken(op, /, **arguments):
                    if "dynamic" in op.name:
                        raise answer
                    return await call(op, **arguments)

                monkeypatch.setattr(server, "call", broken)
            sampler = await service.create_sampling_client_async(base_model="m")
            params = SamplingParams(max_tokens=1)
            for _ in range(3):
                sample = sampler.sample(ModelInput.from_ints([1]), 1, params)
                await asyncio.sleep(1.0)
                sample.cancel()
                await asyncio.sleep(1.0)
            await asyncio.sleep(60.0)
            asked = stub.counts["client/dynamic_config"]
            assert asked == (0 if isinstance(answer, Exception) else 1)
            return stub.counts["cancel_future"]

    with caplog.at_level(logging.ERROR, "tinker_ext"):
        assert run(scenario) == told
    assert bool(caplog.records) == bool(logged)


def test_deadlines_of_blocks_are_nested_and_end_with_them():
    """M22: the inner one counts, and what was before comes back, also after an error."""
    assert chosen_seconds() is None

    def fails():
        with deadline(0.5):
            assert chosen_seconds() == 0.5
            raise KeyError

    with deadline(30):
        with pytest.raises(KeyError):
            fails()
        assert chosen_seconds() == 30.0
        assert isinstance(chosen_seconds(), float)
    assert chosen_seconds() is None
    for wrong in (0, -1, float("nan"), "5", None, 10**400, [1]):
        with pytest.raises(InvalidInputError, match="more than 0 seconds"), deadline(wrong):
            pass
    assert chosen_seconds() is None


def test_a_look_up_ends_with_the_deadline_of_its_block():
    """M22: the error says how long that was; without a block it goes on."""

    async def scenario():
        async def slow(operation, body, request):
            if operation == "get_server_capabilities":
                await asyncio.sleep(20.0)
                return 200, {"supported_models": [{"model_name": "m"}]}
            return None

        async with client(StubServer(slow)) as service:
            began = asyncio.get_running_loop().time()
            with deadline(7.5), pytest.raises(DeadlineExceededError, match=r"7\.5 s that `dead"):
                await service.get_server_capabilities_async()
            assert asyncio.get_running_loop().time() - began == pytest.approx(7.5)
            found = await service.get_server_capabilities_async()
            return [model.model_name for model in found.supported_models]

    assert run(scenario) == ["m"]


def test_a_server_of_the_first_era_is_asked_without_scopes():
    """M13: what it does not know is left out of a look-up, and nothing else."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "training_runs":
                asked.append(dict(request.url.params))
                return 200, {
                    "training_runs": [],
                    "cursor": {"offset": 14, "limit": 7, "total_count": 0},
                }
            return None

        asked = []
        async with client(StubServer(handler)) as service:
            rest = service.create_rest_client()
            await rest.list_training_runs_async(limit=7, offset=14)
        return asked

    assert run(scenario) == [{"limit": "7", "offset": "14"}]


def test_a_closed_client_refuses_calls():
    """M21: also one that was never used."""

    async def scenario():
        service = client(StubServer())
        await service.close("success")
        with pytest.raises(ClientClosedError, match="This client is closed"):
            await service.create_sampling_client_async(base_model="m")

    run_virtual(scenario())


def test_calls_that_waited_for_a_connection_leave_no_timer():
    """M21: `run` looks for one; the last of them may have had a minute."""

    async def scenario():
        at_work, most = 0, 0

        async def handler(operation, body, request):
            nonlocal at_work, most
            if operation != "sessions":
                return None
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.1)
            at_work -= 1
            return 200, {"sessions": []}

        async with client(StubServer(handler)) as service:
            rest = service.create_rest_client()
            await asyncio.gather(*(rest.list_sessions_async() for _ in range(40)))
        return most

    assert run(scenario) == 16


def test_a_client_that_is_closed_asks_no_more():
    """M21: neither for a trace that is being made nor whether samples are to be cancelled."""

    async def scenario():
        asked = []

        def handler(operation, body, request):
            now = asyncio.get_running_loop().time()
            if operation == "client/dynamic_config":
                return 503, {}, {"retry-after": "50"}
            if operation.endswith("trace_export") or "trace" in operation:
                asked.append(now)
                return 200, {"status": "pending"}
            return asyncio.sleep(1e6) if operation == "retrieve_future" else None

        stub = StubServer(handler, config={"sample_max_concurrent_requests": 9})
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            sample = sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
            await asyncio.sleep(1.0)
            sample.cancel()
            trace = service.create_rest_client().export_session_trace("s")
            await asyncio.sleep(12.0)
        assert isinstance(trace.exception(0), ClientClosedError)
        await asyncio.sleep(1.0)
        assert stub.counts["client/dynamic_config"] == 1
        return [moment - asked[0] for moment in asked]

    assert run(scenario) == pytest.approx([0.0, 5.0, 10.0], abs=0.01)


def test_a_call_of_a_closed_client_leaves_no_coroutine_behind():
    """M21: Python would warn of one that was never awaited."""

    async def scenario():
        async with client(StubServer()) as service:
            rest = service.create_rest_client()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(ClientClosedError):
                rest.list_sessions()
            gc.collect()
        return [str(each.message) for each in said]

    assert run(scenario) == []
