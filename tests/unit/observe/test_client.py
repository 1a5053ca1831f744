"""Telemetry, events, run log and budget around a whole client on the in-process server."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from in_process import MODEL, adam, client, datum, run, seqs, server

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext.errors import (
    BudgetExceededError,
    ClientClosedError,
    ConfigurationError,
    TinkerError,
)
from tinker_ext.observe.run_log import RunLogObserver
from tinker_ext.runlog import Budget, Ledger, RunLog, read
from tinker_ext.telemetry import OperationFinished, OperationStarted, describe

PROMPT = ModelInput.from_ints([1, 2, 3])


async def train(service, steps=1):
    training = await service.create_lora_training_client_async(MODEL, rank=4)
    for _ in range(steps):
        step = await training.forward_backward_async([datum(4), datum(3)], "cross_entropy")
        update = await training.optim_step_async(adam())
        await step
        await update
    return training


def telemetry_of(app):
    return [event for batch in app.world.telemetry for event in batch["events"]]


# -- telemetry -----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["0.4.1", "0.36.0", "both"])
def test_a_session_reports_its_start_and_its_end(era):
    """M34: session start, then session end with its duration on close, on servers of any era."""
    app = server(era=era)

    async def scenario():
        async with client(app, telemetry=True) as service:
            await train(service)
            session_id = service.session_id
            await asyncio.sleep(90)
        return session_id

    session_id = run(scenario)
    batches = app.world.telemetry
    assert {batch["session_id"] for batch in batches} == {session_id}
    assert [event["event"] for event in telemetry_of(app)] == ["SESSION_START", "SESSION_END"]
    assert telemetry_of(app)[-1]["duration"].startswith("0:01:30")
    assert all(("process_uuid" in batch) == (era != "0.4.1") for batch in batches)
    assert not app.log.violations


def test_without_being_asked_nothing_is_reported():
    """M34: off by default."""
    app = server()

    async def scenario():
        async with client(app) as service:
            await train(service)

    run(scenario)
    assert app.log.requests("telemetry") == []


def test_an_error_of_the_user_is_reported_at_once_and_without_its_text():
    """M34: flushed at once on exceptions; no text of the user leaves the machine."""
    app = server()

    async def scenario():
        async with client(app, telemetry=True) as service:
            training = await train(service)
            with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                await (await training.load_state_async("tinker://nobody/weights/private-name"))
            await asyncio.sleep(1)
            return json.dumps(app.world.telemetry)

    said = run(scenario)
    assert "user_error" in said
    assert "private-name" not in said


def test_an_exception_in_the_block_ends_the_session_as_errored():
    """M34 M21: the name of the exception is reported, its text is not."""
    app = server()

    async def scenario():
        async with client(app, telemetry=True) as service:
            await train(service)
            raise ZeroDivisionError("my private text")

    with pytest.raises(ZeroDivisionError):
        run(scenario)
    kinds = [event["event"] for event in telemetry_of(app)]
    assert kinds == ["SESSION_START", "UNHANDLED_EXCEPTION", "SESSION_END"]
    assert telemetry_of(app)[1]["error_type"] == "ZeroDivisionError"
    assert "private" not in json.dumps(app.world.telemetry)


@pytest.mark.parametrize("fault", ["hang", "status"])
def test_a_bad_telemetry_endpoint_never_delays_a_call(fault):
    """M34: calls take the same time whether /telemetry answers, fails or hangs."""

    async def scenario(app):
        loop = asyncio.get_running_loop()
        async with client(app, telemetry=True) as service:
            training = await train(service, steps=3)
            for _ in range(3):
                with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                    await (await training.load_state_async("tinker://nobody/weights/x"))
            took = loop.time()
        return took

    well, ill = server(), server()
    ill.faults.add({"kind": fault, "path": "telemetry", "status": 503, "delay": 30.0})
    fast = run(lambda: scenario(well))
    slow = run(lambda: scenario(ill))
    assert slow == fast
    assert ill.log.requests("telemetry")


@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_telemetry_is_asked_once(status):
    """M34 M28: 404 or 405 on /telemetry turns it off."""
    app = server()
    app.faults.add({"kind": "status", "path": "telemetry", "status": status})

    async def scenario():
        async with client(app, telemetry=True) as service:
            training = await train(service)
            await asyncio.sleep(30)
            for _ in range(3):
                with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                    await (await training.load_state_async("tinker://nobody/weights/x"))
                await asyncio.sleep(30)

    run(scenario)
    assert len(app.log.requests("telemetry")) == 1


# -- events --------------------------------------------------------------------------------


def test_every_call_is_an_event_with_its_numbers():
    """M34: a structured event callback for users."""
    app = server()
    events = []

    async def scenario():
        async with client(app, on_event=events.append) as service:
            training = await train(service)
            sampler = await training.save_weights_and_get_sampling_client_async()
            await sampler.sample_async(PROMPT, 2, SamplingParams(max_tokens=5))

    run(scenario)
    started = [event for event in events if isinstance(event, OperationStarted)]
    ended = {event.operation: event for event in events if isinstance(event, OperationFinished)}
    assert [event.number for event in started] == [1, 2, 3, 4, 5]
    assert len([e for e in events if isinstance(e, OperationFinished)]) == 5
    step = ended["forward_backward"]
    assert (step.tokens_in, step.tokens.train, step.datums, step.seq_id) == (7, 7, 2, 1)
    assert step.loss == step.metrics["loss:sum"]
    assert step.model == MODEL
    sample = ended["asample"]
    assert (sample.tokens_in, sample.datums, sample.model) == (3, 2, MODEL)
    assert 2 <= sample.tokens_out <= 10
    assert sample.tokens.sample == sample.tokens_out
    json.dumps([describe(event) for event in events])


def test_a_callback_that_fails_harms_nothing():
    """M34: an observer only looks on."""
    app = server()
    seen = []

    def fail(event):
        seen.append(event)
        raise RuntimeError("mine")

    async def scenario():
        async with client(app, on_event=fail) as service:
            await train(service)

    run(scenario)
    assert len(seen) > 5


def test_a_callback_must_be_a_function():
    """M34: bad input fails at the call."""
    with pytest.raises(ConfigurationError, match="on_event"):
        ServiceClient(base_url="embedded", on_event="print")


# -- run log -------------------------------------------------------------------------------


def test_the_run_log_tells_steps_losses_tokens_and_seconds(tmp_path):
    """M34: metrics.jsonl with steps, losses, tokens in and out per operation, seconds."""
    app = server(latency=0.5)

    async def scenario():
        async with client(app, run_log=tmp_path) as service:
            training = await train(service, steps=2)
            sampler = await training.save_weights_and_get_sampling_client_async()
            await sampler.sample_async(PROMPT, 1, SamplingParams(max_tokens=4))
            with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                await (await training.load_state_async("tinker://nobody/weights/x"))
            return training.model_id, service.session_id

    model_id, session_id = run(scenario)
    lines = list(read(tmp_path))
    assert lines[0]["type"] == "session_start"
    assert lines[-1]["type"] == "session_end"
    assert {line["session"] for line in lines} == {session_id}
    steps = [line for line in lines if line["type"] == "step"]
    assert [(s["step"], s["target"], s["model"]) for s in steps] == [
        (1, model_id, MODEL),
        (2, model_id, MODEL),
    ]
    assert steps[1]["loss"] < steps[0]["loss"]
    assert all(s["tokens"] == {"train": 7, "prefill": 0, "sample": 0} for s in steps)
    assert steps[1]["totals"]["train"] == 14
    assert steps[1]["seconds"] >= 0.5
    operations = {line["operation"]: line for line in lines if line["type"] == "operation"}
    assert operations["asample"]["tokens_in"] == 3
    assert operations["asample"]["tokens_out"] == operations["asample"]["tokens"]["sample"] > 0
    assert operations["load_weights"]["error"] is not None
    assert operations["forward_backward"]["seconds"] >= 0.5
    started = [line["number"] for line in lines if line["type"] == "start"]
    assert started == sorted(line["number"] for line in lines if line["type"] == "operation")


def test_a_continued_log_counts_on(tmp_path):
    """M34: steps of a model go on where an earlier log of it ended."""

    async def scenario():
        async with client(server(seed=3), run_log=tmp_path) as service:
            return (await train(service)).model_id

    first = run(scenario)
    assert first == run(scenario)
    assert [line["step"] for line in read(tmp_path) if line["type"] == "step"] == [1, 2]


class Still:
    """A loop on which no time passes."""

    def time(self):
        return 0.0

    def call(self, fn, *args):
        pass


def test_a_forked_child_writes_nothing_of_its_parent(tmp_path):
    """F19: the parent writes it, and a line that is there twice is a step too many."""
    log = RunLog(tmp_path)
    writer = RunLogObserver(log, Ledger(), Still(), {})
    writer.notice(OperationStarted(1, "forward", "m"))
    writer.notice(OperationFinished(number=1, operation="forward", target="m", seconds=1.0))
    writer.after_fork()
    writer._flush()
    assert not log.path.exists() or "forward" not in log.path.read_text()


@pytest.mark.parametrize(("forked", "written"), [(False, 65), (True, 1)])
def test_calls_are_written_when_many_wait_and_one_by_one_in_a_forked_child(
    tmp_path, forked, written
):
    """M34: a crash costs the last few; a child of multiprocessing ends without a word."""
    log = RunLog(tmp_path)
    writer = RunLogObserver(log, Ledger(), Still(), {})
    if forked:
        writer.after_fork()
    found = []
    for number in range(1, 70):
        writer.notice(OperationStarted(number, "forward", "m"))
        found.append(log.path.exists() and '"forward"' in log.path.read_text())
    assert found.index(True) + 1 == written
    log.close()


def test_calls_beside_the_order_are_told_by_name():
    """M34: what is done, and to what."""
    seen = []

    async def scenario():
        async with client(server(), observer=SimpleNamespace(notice=seen.append)) as service:
            return (await train(service)).model_id

    run(scenario)
    made = [event for event in seen if isinstance(event, OperationStarted)]
    assert "create_model" in [event.operation for event in made]
    assert not any(event.target == event.operation for event in made)


def test_a_step_waits_for_the_losses_of_earlier_calls(tmp_path):
    """M34: a step's line has its own losses though results may be read out of order."""
    writer = RunLogObserver(RunLog(tmp_path), Ledger(), Still(), {})

    def end(number, operation, loss=None):
        writer.notice(
            OperationFinished(
                number=number, operation=operation, target="m", seconds=1.0, loss=loss
            )
        )

    for number, operation in enumerate(["forward_backward", "optim_step"] * 2, 1):
        writer.notice(OperationStarted(number, operation, "m"))
    end(2, "optim_step")
    end(3, "forward_backward", 30.0)
    assert not [line for line in read(tmp_path) if line["type"] == "step"]
    end(1, "forward_backward", 10.0)
    end(4, "optim_step")
    steps = [(line["step"], line["loss"]) for line in read(tmp_path) if line["type"] == "step"]
    assert steps == [(1, 10.0), (2, 30.0)]


# -- budget --------------------------------------------------------------------------------


def test_the_budget_stops_a_step_before_it_is_sent():
    """M34: nothing is sent, no seq_id is used, and the next smaller call goes on."""
    app = server()

    async def scenario():
        async with client(app, budget=Budget(train=10)) as service:
            training = await train(service)
            before = len(app.log.requests())
            with pytest.raises(BudgetExceededError, match="10 train tokens"):
                await training.forward_backward_async([datum(4)], "cross_entropy")
            with pytest.raises(BudgetExceededError):
                await training.forward_backward_custom_async([datum(4)], lambda d, x: 1 / 0)
            assert len(app.log.requests()) == before
            assert training.pending() == []
            await (await training.forward_backward_async([datum(3)], "cross_entropy"))
            await (await training.optim_step_async(adam()))
            assert service.ledger.used.train == 10
            assert service.ledger.held.total == 0
            return training.model_id

    assert seqs(app, run(scenario)) == [1, 2, 3, 4]


def test_a_call_that_gets_no_place_costs_nothing():
    """M34: a closed client refuses it after its tokens were set aside."""
    app = server()

    async def scenario():
        async with client(app, budget=Budget(train=10)) as service:
            training = await train(service)
            training.queue.close(ClientClosedError("closed"))
            with pytest.raises(ClientClosedError):
                await training.forward_backward_async([datum(3)], "cross_entropy")
            return service.ledger.held.total

    assert run(scenario) == 0


def test_samples_hold_their_longest_form():
    """M34: concurrent samples cannot exceed the budget together."""
    app = server()

    async def scenario():
        async with client(app, budget={"sample": 20}) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            params = SamplingParams(max_tokens=5, seed=1)
            first = sampler.sample(PROMPT, 3, params)
            with pytest.raises(BudgetExceededError, match="20 sample tokens"):
                sampler.sample(PROMPT, 2, params)
            reply = await first
            count = sum(len(sequence.tokens) for sequence in reply.sequences)
            assert service.ledger.used.sample == count
            assert service.ledger.held.total == 0
            assert len(app.log.requests("asample")) == 1

    run(scenario)


@pytest.mark.parametrize(("status", "counted"), [(422, 0), (400, 0), (500, 4)])
def test_what_was_refused_is_given_back_and_what_may_have_run_counts(status, counted):
    """M34: a refused call costs nothing; one whose fate is unknown counts."""
    app = server()

    async def scenario():
        async with client(app, budget=100) as service:
            training = await train(service)
            used = service.ledger.used.train
            app.faults.add({"kind": "status", "path": "forward_backward", "status": status})
            app.faults.add({"kind": "status", "path": "forward", "status": status})
            with pytest.raises(TinkerError):
                await (await training.forward_backward_async([datum(4)], "cross_entropy"))
            assert service.ledger.held.total == 0
            assert service.ledger.used.train - used == counted

    run(scenario)


def test_bad_input_and_cancelled_calls_give_their_tokens_back():
    """M34 M19: what was never sent costs nothing."""
    app = server()

    async def scenario():
        async with client(app, budget=Budget(tokens=1000)) as service:
            training = await train(service)
            used = service.ledger.used
            with pytest.raises(ValueError):
                await training.forward_backward_async([datum(4)], "crossentropy")
            future = await training.forward_backward_async([datum(4)], "cross_entropy")
            future.future().cancel()
            await asyncio.sleep(5)
            assert service.ledger.held.total == 0
            assert service.ledger.used.train - used.train in (0, 4)

    run(scenario)


def test_money_by_the_price_table(tmp_path):
    """M34: the price table file is optional, and its costs are in the log."""
    prices = tmp_path / "prices.toml"
    prices.write_text(f'[models."{MODEL}"]\ntrain = 1e6\nprefill = 1e6\nsample = 1e6\n')
    app = server()

    async def scenario():
        async with client(app, budget={"cost": 9.5}, prices=prices, run_log=tmp_path) as service:
            training = await train(service)
            assert service.ledger.cost == pytest.approx(7.0)
            with pytest.raises(BudgetExceededError, match="USD"):
                await training.forward_backward_async([datum(3)], "cross_entropy")
            sampler = await training.save_weights_and_get_sampling_client_async()
            with pytest.raises(BudgetExceededError):
                sampler.sample(PROMPT, 1, SamplingParams(max_tokens=1))

    run(scenario)
    end = list(read(tmp_path))[-1]
    assert end["totals"]["cost"] == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": {"money": 3}}, "tokens, train, prefill, sample and cost"),
        ({"budget": {"cost": 3.0}}, "price table"),
        ({"prices": "nowhere.toml"}, "nowhere.toml"),
        ({"budget": -1}, "at least 0"),
    ],
)
def test_a_wrong_budget_fails_when_the_client_is_made(options, said):
    """M34: bad input fails at the call."""
    with pytest.raises(ConfigurationError, match=said):
        ServiceClient(base_url="embedded", **options)
