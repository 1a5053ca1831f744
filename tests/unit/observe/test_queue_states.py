"""Queue states: who is told, and how seldom the log speaks."""

import asyncio
import gc
import logging

import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.core.in_flight import Entry, InFlight
from tinker_ext.mock.settings import Pause
from tinker_ext.runlog import read
from tinker_ext.telemetry import QueueStateSeen
from tinker_ext.types.enums import QueueState

PAUSE = Pause(state="paused_capacity", seconds=200.0, reason="all machines are busy")


def lines(caplog):
    return [r for r in caplog.records if "holding work back" in r.getMessage()]


def test_observers_callbacks_clients_and_the_log_are_told(caplog, tmp_path):
    """M26: observers get every report, clients every change, the log one line a minute."""
    app = server(pause=PAUSE)
    told, changes, events = [], [], []

    async def scenario():
        async with client(app, on_event=events.append, run_log=tmp_path) as service:
            stop = service.on_queue_state(lambda *report: told.append(report))
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            training.on_queue_state_change = lambda *change: changes.append(change)
            told.clear()
            caplog.clear()
            step = await training.forward_backward_async([datum()], "cross_entropy")
            update = await training.optim_step_async(adam())
            await asyncio.sleep(150)
            seen = list(training.pending())
            await step
            await update
            stop()
            count = len(told)
            await (await training.optim_step_async(adam()))
            assert len(told) == count
            return seen

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        pending = run(scenario)
    assert {report[0] for report in told} == {"forward_backward", "optim_step"}
    assert {report[1:] for report in told} == {(QueueState.PAUSED_CAPACITY, PAUSE.reason)}
    assert changes[0] == (QueueState.PAUSED_CAPACITY, PAUSE.reason)
    assert len(changes) < len(told)
    assert all(op.queue_state == "paused_capacity" and op.reason for op in pending)
    seen = [event for event in events if isinstance(event, QueueStateSeen)]
    assert seen[0].state == "paused_capacity"
    assert PAUSE.reason in lines(caplog)[0].getMessage()
    written = [line for line in read(tmp_path) if line["type"] == "queue"]
    assert len(written) == len({line["request_id"] for line in written}) == 4


def test_at_most_one_line_a_minute_for_all_targets_and_never_for_active(caplog):
    """M26: a thousand waiting samples are one line a minute; `active` has no line."""
    book = InFlight(3600.0)
    entries = [Entry("asample", f"sampler-{i}", 0.0, 1e9) for i in range(10)]
    with caplog.at_level(logging.DEBUG, "tinker_ext"):
        for second in range(0, 180, 5):
            for entry in entries:
                book.report(entry, "paused_rate_limit", "slow down", float(second))
        assert len(lines(caplog)) == 3
        caplog.clear()
        for entry in entries:
            book.report(entry, "active", None, 9999.0)
        assert caplog.records == []


@pytest.mark.parametrize("state", ["paused_rate_limit", "a_state_of_tomorrow"])
def test_an_observer_that_fails_does_not_stop_the_others(state, caplog):
    """M26: a failing callback is logged; unknown states read as unknown."""
    book = InFlight(3600.0)
    told = []

    class Client:
        def on_queue_state_change(self, queue_state, queue_state_reason=None):
            told.append(queue_state)
            raise RuntimeError("mine")

    one = Client()
    book.listen("m", one)
    book.observers.append(lambda *_: 1 / 0)
    book.observers.append(lambda operation, known, reason: told.append(known))
    entry = Entry("forward", "m", 0.0, 1e9)
    book.report(entry, state, None, 1.0)
    book.report(entry, state, None, 2.0)
    known = QueueState(state)
    assert told == [known, known, known]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2


def test_listening_keeps_no_client_alive():
    """M26 M21: a client that was forgotten is not told and does not stay in memory."""
    book = InFlight(3600.0)
    told = []

    class Client:
        def on_queue_state_change(self, queue_state, queue_state_reason=None):
            told.append(queue_state)

    one = Client()
    book.listen("m", one)
    entry = Entry("forward", "m", 0.0, 1e9)
    book.report(entry, "paused_capacity", None, 1.0)
    del one
    gc.collect()
    book.report(entry, "active", None, 2.0)
    assert told == [QueueState.PAUSED_CAPACITY]


def test_a_sampling_client_is_told_too():
    """M26: the queue state of samples reaches the client that made them."""
    app = server(pause=PAUSE)
    changes = []

    async def scenario():
        async with client(app) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            sampler.on_queue_state_change = lambda *change: changes.append(change)
            prompt = ModelInput.from_ints([1, 2])
            await sampler.sample_async(prompt, 1, SamplingParams(max_tokens=2))

    run(scenario)
    assert changes == [(QueueState.PAUSED_CAPACITY, PAUSE.reason)]


def test_a_call_that_is_sent_again_knows_why():
    """M34: the run log says of each call how often that was, and the last reason."""
    entry = Entry("forward", "m", 0.0, 1e9)
    assert (entry.retries, entry.cause) == (0, None)
    entry.retried("429")
    entry.retried("503")
    assert (entry.retries, entry.cause) == (2, "503")
