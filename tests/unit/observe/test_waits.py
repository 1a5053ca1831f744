"""What the run log says about waiting: pending calls, retries, effects, and where time went."""

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import TinkerError
from tinker_ext.mock.settings import Pause
from tinker_ext.runlog import Budget, read

PAUSE = Pause(state="paused_capacity", seconds=40.0, reason="all machines are busy")


def lines(place, kind):
    return [line for line in read(place) if line["type"] == kind]


async def step(training):
    loss = await training.forward_backward_async([datum(4)], "cross_entropy")
    update = await training.optim_step_async(adam())
    await loss
    await update


def test_a_call_that_waits_says_why_since_when_and_until_when(tmp_path):
    """M26: lane, stage, queue state, reason, attempts and deadline of the oldest calls."""

    async def scenario():
        async with client(server(pause=PAUSE), run_log=tmp_path) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await step(training)

    run(scenario)
    held = [
        (line, call)
        for line in lines(tmp_path, "waiting")
        for call in line["calls"]
        if call["state"] == "paused_capacity" and call["operation"] == "forward_backward"
    ]
    line, call = held[0]
    assert call["reason"] == PAUSE.reason
    assert (call["lane"], call["stage"]) == ("train", "waiting")
    assert call["since"] <= line["time"] + 1 < call["deadline"]
    assert line["count"] >= len(line["calls"])
    # Polls without news write nothing: about a line per call and change, not one per second.
    assert len(lines(tmp_path, "waiting")) < 12


def test_each_moment_counts_once_for_what_the_oldest_call_was_doing(tmp_path):
    """M26: 30 s held back are queue, 100 s of the program's own are ours, and the sum is exact."""

    async def scenario():
        loop = asyncio.get_running_loop()
        async with client(server(pause=PAUSE), run_log=tmp_path) as service:
            began = loop.time()
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await step(training)
            await asyncio.sleep(100)
            await step(training)
            return loop.time() - began

    whole = run(scenario)
    spent = lines(tmp_path, "time")
    total = {key: sum(line[key] for line in spent) for key in ("server", "queue", "network", "us")}
    assert sum(total.values()) == pytest.approx(whole, abs=1.0)
    assert total["us"] == pytest.approx(100, abs=1)
    assert total["queue"] >= 29  # the server says so with its first answer to a poll
    assert all(line["seconds"] > 0 for line in spent)


@pytest.mark.parametrize(("path", "nth"), [("forward_backward", 2), ("asample", 1)])
def test_a_retry_names_its_call_and_the_call_says_that_it_took_effect_once(tmp_path, path, nth):
    """F29 M12: a 503 shows up with its call, lane, reason and delay, for samples as for steps."""
    app = server()
    app.faults.add({"kind": "status", "path": path, "status": 503, "nth": nth})

    async def scenario():
        async with client(app, run_log=tmp_path, budget=Budget(tokens=10**6)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await step(training)
            await step(training)
            sampler = await training.save_weights_and_get_sampling_client_async()
            await sampler.sample_async(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=2))

    run(scenario)
    (retry,) = [line for line in lines(tmp_path, "retry") if line["number"]]
    (call,) = [line for line in lines(tmp_path, "operation") if line["retries"]]
    assert (retry["reason"], retry["number"]) == ("503", call["number"])
    assert retry["operation"] == call["operation"] == path
    assert retry["lane"] == ("sample" if path == "asample" else "train")
    assert (call["effect"], call["error"]) == ("yes", None)
    (start,) = lines(tmp_path, "session_start")
    assert (start["version"], start["budget"]) == (1, {"tokens": 10**6})


def test_a_refused_call_says_that_it_took_no_effect(tmp_path):
    """F29: a 400 changed nothing on the server, and the line says so."""
    app = server()
    app.faults.add({"kind": "status", "path": "forward_backward", "status": 400, "nth": 2})

    async def scenario():
        async with client(app, run_log=tmp_path) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await step(training)
            with pytest.raises(TinkerError):
                await (await training.forward_backward_async([datum(4)], "cross_entropy"))

    run(scenario)
    (call,) = [line for line in lines(tmp_path, "operation") if line["error"]]
    assert (call["operation"], call["effect"]) == ("forward_backward", "no")


def test_a_step_is_in_the_log_with_its_result_and_any_other_line_within_a_second(tmp_path):
    """M34: also that of a call that is held back, and of one that ended without a step."""

    async def scenario():
        async with client(server(pause=PAUSE), run_log=tmp_path) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            await step(training)
            assert [line["step"] for line in lines(tmp_path, "step")] == [1]
            loss = await training.forward_backward_async([datum(4)], "cross_entropy")
            await asyncio.sleep(1)
            assert lines(tmp_path, "start")[-1]["operation"] == "forward_backward"
            assert lines(tmp_path, "operation")[-1]["operation"] == "optim_step"
            await loss
            await asyncio.sleep(1)
            assert lines(tmp_path, "operation")[-1]["operation"] == "forward_backward"

    run(scenario)
