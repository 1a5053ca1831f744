"""Turns under a scripted server: posts ahead, refused numbers, outages, late results."""

from __future__ import annotations

import asyncio

import pytest
from in_process import adam, client, datum, run
from stub_server import StubServer

from tinker_ext import Config
from tinker_ext.core.workspace import deadline
from tinker_ext.errors import (
    APIConnectionError,
    APIStatusError,
    BadRequestError,
    ClientClosedError,
)

ORDERED = {"parallel_fwdbwd_chunks": True, "fwdbwd_max_chunk_len": 64}


def numbers(stub, *operations):
    return [
        body["seq_id"]
        for operation, body, _ in stub.requests
        if operation in operations and isinstance(body, dict)
    ]


def test_posts_run_ahead_where_the_server_sorts():
    """M17: on a server that sorts by seq_id no post waits for the answer to another."""

    async def scenario(config):
        async def slow(operation, body, request):
            if operation == "optim_step":
                await asyncio.sleep(0.03)
            return

        stub = StubServer(slow, config=config)
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            began = asyncio.get_running_loop().time()
            futures = [await training.optim_step_async(adam()) for _ in range(10)]
            for future in futures:
                await future
            return asyncio.get_running_loop().time() - began, numbers(stub, "optim_step")

    ahead, sent = run(lambda: scenario(ORDERED))
    assert ahead < 0.05
    assert sorted(sent) == list(range(1, 11))
    serial, in_order = run(lambda: scenario(None))
    assert serial >= 0.3
    assert in_order == list(range(1, 11))


def test_a_refused_number_is_used_again():
    """M19: a request the server refused leaves no gap."""

    async def scenario():
        def refuse_first(operation, body, request):
            if operation == "optim_step" and stub.counts["optim_step"] == 1:
                return 400, {"detail": "no"}
            return None

        stub = StubServer(refuse_first)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            (end,) = await asyncio.gather(
                await training.optim_step_async(adam()), return_exceptions=True
            )
            await (await training.optim_step_async(adam()))
            return end, numbers(stub, "optim_step")

    end, sent = run(scenario)
    assert isinstance(end, BadRequestError)
    assert sent == [1, 1]


def test_a_refused_number_with_others_behind_it_is_filled():
    """M19: later posts have left, so a forward pass without effect takes the number."""

    async def scenario():
        async def refuse_second(operation, body, request):
            if operation == "optim_step":
                await asyncio.sleep(0.01 * body["seq_id"])
                if body["seq_id"] == 2:
                    return 422, {"detail": "no"}
            return None

        stub = StubServer(refuse_second, config=ORDERED)
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            futures = [await training.optim_step_async(adam()) for _ in range(4)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            fillers = [body for op, body, _ in stub.requests if op == "forward"]
            return ends, fillers, training.queue.next_seq_id

    ends, fillers, following = run(scenario)
    assert [isinstance(end, APIStatusError) for end in ends] == [False, True, False, False]
    assert [body["seq_id"] for body in fillers] == [2]
    (filler,) = fillers[0]["forward_input"]["data"]
    assert filler["model_input"]["chunks"] == [{"type": "encoded_text", "tokens": [0]}]
    assert [filler["loss_fn_inputs"][name]["data"] for name in ("target_tokens", "weights")] == [
        [0], [0.0],
    ]  # fmt: skip
    assert following == 5


def test_a_long_outage_is_settled_before_the_next_call():
    """M20: an answer lost for good is asked for again, in order, before anything new leaves."""

    async def scenario():
        down_until = 1000.0

        def outage(operation, body, request):
            now = asyncio.get_running_loop().time()
            if operation == "optim_step" and body["seq_id"] == 2 and now < down_until:
                return 503, {"detail": "down"}
            return None

        stub = StubServer(outage, config={**ORDERED, "seq_ids": "dedupe"})
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.optim_step_async(adam()))
            lost = await training.optim_step_async(adam())
            (first,) = await asyncio.gather(lost, return_exceptions=True)
            third = await training.optim_step_async(adam())
            (second,) = await asyncio.gather(third, return_exceptions=True)
            await asyncio.sleep(down_until)
            await (await training.optim_step_async(adam()))
            accepted = [n for n in numbers(stub, "optim_step") if n != 2]
            return first, second, accepted, numbers(stub, "optim_step")[-2:]

    first, second, accepted, last = run(scenario)
    assert "sent again" in str(first)
    assert isinstance(second, (APIStatusError, APIConnectionError))
    assert accepted == [1, 3]
    assert last == [2, 3]


def test_a_call_that_waited_too_long_takes_no_number():
    """M19 M22: a queued call ends at its deadline, and nothing of it is sent."""

    async def scenario():
        async def slow_first(operation, body, request):
            if operation == "optim_step" and body["seq_id"] == 1:
                await asyncio.sleep(50.0)
            return

        stub = StubServer(slow_first)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            first = await training.optim_step_async(adam())
            with deadline(5.0):
                second = await training.optim_step_async(adam())
            third = await training.optim_step_async(adam())
            states = [op.stage for op in training.pending()]
            ends = await asyncio.gather(first, second, third, return_exceptions=True)
            return states, ends, numbers(stub, "optim_step")

    states, ends, sent = run(scenario)
    assert states == ["queued"] * 3
    assert [isinstance(end, TimeoutError) for end in ends] == [False, True, False]
    assert sent == [1, 2]


def test_cancelled_futures_stop_polling_but_not_the_post():
    """M19: cancel() ends the wait; work the server accepted stays in order."""

    async def scenario():
        def never(operation, body, request):
            if operation == "retrieve_future" and body["request_id"] == "r1":
                return 408, {"queue_state": "active"}
            return None

        stub = StubServer(never)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.optim_step_async(adam())
            await asyncio.sleep(30.0)
            polls = stub.counts["retrieve_future"]
            assert future.cancel()
            await asyncio.sleep(30.0)
            assert stub.counts["retrieve_future"] == polls
            await (await training.optim_step_async(adam()))
            assert service.pending() == []
            return numbers(stub, "optim_step")

    assert run(scenario) == [1, 2]


def test_a_body_that_cannot_be_encoded_takes_no_number():
    """M19: an error while encoding leaves the order as it was."""

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            with pytest.raises(ValueError, match="JSON"):
                await training.save_state_async("a", user_metadata={"x": object()})
            await (await training.forward_backward_async([datum(1)], "cross_entropy"))
            return numbers(stub, "forward_backward")

    assert run(scenario) == [1]


def test_closing_while_an_answer_is_awaited_says_nothing(caplog):
    """M21: the queue and the request it waits for end together, without an error of ours."""

    async def scenario():
        async def slow(operation, body, request):
            if operation == "optim_step":
                await asyncio.sleep(60)

        async with client(StubServer(slow), wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.optim_step_async(adam())
            await asyncio.sleep(1)
        (end,) = await asyncio.gather(future, return_exceptions=True)
        return end

    assert isinstance(run(scenario), ClientClosedError)
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_result_is_waited_for_through_hours_and_an_outage():
    """M22: only the deadline of the call ends the wait, and a bill that stays unpaid."""

    async def scenario():
        async def handler(operation, body, request):
            if operation != "retrieve_future" or body["request_id"] == "r0":
                return None
            now = asyncio.get_running_loop().time()
            if 100.0 < now < 200.0:
                return 503, {"detail": "down"}
            if now < 9000.0:
                await asyncio.sleep(40.0)
                return 408, {"queue_state": "active"}
            return None

        config = Config(wait_deadline=20_000.0, heartbeat_interval=100.0)
        async with client(StubServer(handler), config=config) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.optim_step_async(adam()))
            return asyncio.get_running_loop().time()

    assert 9000.0 < run(scenario) < 9100.0


def test_a_forked_child_does_not_train():
    """M21: it would send other bodies under the numbers of its parent."""

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            training.queue.after_fork()
            with pytest.raises(ClientClosedError, match="process that forked this one"):
                await training.optim_step_async(adam())
            return stub.counts["optim_step"]

    assert run(scenario) == 0
