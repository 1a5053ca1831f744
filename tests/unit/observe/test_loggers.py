"""The bridge to loggers: what they get, once each, whatever fails or restarts."""

import gc
import json
import logging
import threading
import time

import pytest
from in_process import MODEL, adam, datum

from tinker_ext import ServiceClient, log_to, runlog
from tinker_ext.errors import ConfigurationError
from tinker_ext.observe import loggers


class Kept:
    """A logger that keeps what it gets."""

    def __init__(self, fails_at=None):
        self.steps, self.flushed, self.closed, self.fails_at = [], 0, 0, fails_at

    def log(self, step, values, time):
        if step == self.fails_at:
            raise OSError("disk full")
        self.steps.append((step, values))

    def flush(self):
        self.flushed = len(self.steps)

    def close(self):
        self.closed += 1


def step(log, number, **more):
    log.write(
        "step",
        step=number,
        loss=8.0,
        loss_per_token=2.0,
        metrics={"kl": 0.5, "note": "text"},
        tokens={"train": 4},
        seconds=2.0,
        totals={"train": 4 * number, "cost": None},
        **more,
    )


def numbers(kept):
    return [number for number, _ in kept.steps]


def test_every_step_arrives_with_its_numbers(tmp_path):
    """M34: loss, loss per token, speed, tokens, cost and metrics; texts are left out."""
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    log.write("operation", number=1)
    step(log, 2)
    log.close()
    assert numbers(kept) == [1, 2]
    assert kept.steps[0][1] == {
        "kl": 0.5,
        "loss": 8.0,
        "loss_per_token": 2.0,
        "seconds": 2.0,
        "tokens_per_second": 2.0,
        "tokens/train": 4.0,
    }
    assert (kept.flushed, kept.closed) == (2, 1)


def test_a_step_that_trained_nothing_has_no_speed(tmp_path):
    """M34: whether the log says so or leaves it out."""
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    log.write("step", step=1, seconds=2.0, tokens={"train": 0})
    log.write("step", step=2, seconds=2.0)
    log.write("step", step=3, seconds=0.0, tokens={"train": 4})
    log.close()
    assert [values.get("tokens_per_second") for _, values in kept.steps] == [0.0, 0.0, None]


def test_one_thread_passes_steps_on_and_none_where_nobody_listens(tmp_path):
    """M34: however many lines are written."""

    def threads():
        return sum(each.name == "tinker-ext-loggers" for each in threading.enumerate())

    before = threads()
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    for number in range(3):
        step(log, number)
    assert threads() == before + 1
    log.close()
    log.close()
    assert threads() == before
    assert kept.closed == 1


def test_steps_are_passed_on_while_the_run_goes_on(tmp_path, monkeypatch):
    """M34: not only at the end: a crash finds at most the last second missing."""
    assert loggers.EVERY_SECONDS <= 0.5  # and as long again until it is written over there
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 0.01)
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    until = time.monotonic() + 300
    while kept.flushed < 1 and time.monotonic() < until:
        time.sleep(0.005)
    assert kept.flushed == 1
    log.close()


@pytest.mark.parametrize("way", ["move", "move and create", "delete"])
def test_the_last_steps_of_a_log_that_was_rotated_are_passed_on(tmp_path, monkeypatch, way):
    """M34: those too that were written before the run noticed it, each once."""
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 1000.0)
    monkeypatch.setattr(runlog, "LOOK_SECONDS", float("inf"))
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    log.forward()
    step(log, 2)
    if way == "delete":
        log.path.unlink()
    else:
        log.path.rename(f"{log.path}.1")
    if way == "move and create":
        log.path.touch()
    step(log, 3)
    log.forward()
    step(log, 4)
    monkeypatch.setattr(runlog, "LOOK_SECONDS", -1.0)
    step(log, 5)
    log.forward()
    step(log, 6)
    log.close()
    assert numbers(kept) == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in runlog.read(log.path)] == [5, 6]


def test_a_run_that_goes_on_continues_and_repeats_nothing(tmp_path):
    """M34: what is missing is passed on at the next start, what is there is not."""
    first, second = Kept(), Kept()
    log = log_to(tmp_path / "run", first)
    step(log, 1)
    log.close()
    # As after a crash: a line in the log that nobody has passed on.
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"type": "step", "time": time.time(), "step": 2, "loss": 1.0}) + "\n")
    log = log_to(tmp_path / "run", second)
    step(log, 3)
    log.close()
    assert (numbers(first), numbers(second)) == ([1], [2, 3])


def test_a_logger_that_fails_is_told_once_and_stops_nobody(tmp_path, caplog):
    """F29: neither the run nor the other logger notices."""
    bad, good = Kept(fails_at=2), Kept()

    class Good(Kept):
        pass

    good = Good()
    log = log_to(tmp_path / "run", bad, good)
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        for number in (1, 2, 3):
            step(log, number)
        log.close()
    assert numbers(good) == [1, 2, 3]
    assert numbers(bad) == [1]
    assert [r.getMessage() for r in caplog.records] == [
        "Kept takes no more steps: disk full. The run goes on without it."
    ]


@pytest.mark.parametrize(
    ("given", "said"), [("tensorbord", "known are"), (object(), "needs log, flush")]
)
def test_a_wrong_logger_is_refused_at_the_call(tmp_path, given, said):
    """M6: with what there is."""
    with pytest.raises(ConfigurationError, match=said):
        log_to(tmp_path / "run", given)
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    """M39: each logger is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ConfigurationError, match="pip install wandb"):
        log_to(tmp_path, "wandb")


def test_broken_notes_and_a_replaced_log_begin_again(tmp_path):
    """Bad input: the log is the truth."""
    (tmp_path / "loggers.json").write_text("{torn")
    kept = Kept()
    log = log_to(tmp_path, kept)
    step(log, 1)
    log.close()
    (tmp_path / "metrics.jsonl").unlink()
    again = Kept()
    log = log_to(tmp_path, again)
    log.write("step", step=9, loss=1)
    log.close()
    assert (numbers(kept), numbers(again)) == ([1], [9])


def test_a_client_passes_its_steps_on_and_ends_the_logger(tmp_path):
    """M34: `ServiceClient(run_log=log_to(…))` is all."""
    kept = Kept()
    with ServiceClient(base_url="embedded", run_log=log_to(tmp_path, kept)) as service:
        training = service.create_lora_training_client(MODEL, rank=4)
        for _ in range(3):
            training.forward_backward([datum(4)], "cross_entropy")
            training.optim_step(adam()).result()
    assert numbers(kept) == [1, 2, 3]
    assert kept.closed == 1
    assert kept.steps[0][1]["loss_per_token"] > 0


def test_the_end_of_the_interpreter_closes_the_loggers_of_logs_that_are_left(tmp_path, monkeypatch):
    """M34: the last steps arrive by themselves; a log that is gone is passed over."""
    at_exit = []
    monkeypatch.setattr("atexit.register", lambda call, *given: at_exit.append((call, given)))
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 1000.0)
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    (call, given) = at_exit[0]
    call(*given)
    assert (numbers(kept), kept.flushed, kept.closed) == ([1], 1, 1)
    del log
    gc.collect()
    call(*given)
    assert kept.closed == 1


def test_notes_that_cannot_be_written_are_told_and_stop_nobody(tmp_path, caplog):
    """M34: the steps arrive; only what a restart would know is missing."""
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    notes = tmp_path / "run" / loggers.NOTES
    notes.unlink()
    notes.mkdir()
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        step(log, 1)
        log.close()
    assert (numbers(kept), kept.closed) == ([1], 1)
    assert {record.getMessage() for record in caplog.records} == {
        f"{notes} cannot be written: Is a directory."
    }


def test_a_log_in_a_forked_child_leaves_the_loggers_to_the_parent(tmp_path, monkeypatch):
    """M34: it ends without ending their runs, and passes nothing on a second time."""
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 1000.0)
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    log.forward()
    step(log, 2)
    notes, stop, thread = log._notes_path.read_text(), log._stop, log._thread
    assert not json.loads(notes)["clean"]  # nor is it after a child that ends well
    log.after_fork()
    step(log, 3)
    log.close()
    assert (numbers(kept), kept.closed, log._notes_path.read_text()) == ([1], 0, notes)
    stop.set()  # of the thread that a child does not have
    thread.join()


def test_steps_after_the_end_are_not_noted_as_passed_on(tmp_path):
    """M34: no logger had them, so the next process passes them on."""
    log = log_to(tmp_path / "run", Kept())
    step(log, 1)
    log.close()
    step(log, 2)
    log.close()
    kept = Kept()
    log_to(tmp_path / "run", kept).close()
    assert numbers(kept) == [2]


def test_a_logger_whose_run_has_ended_gets_nothing_more(tmp_path):
    """M34: whoever writes on, or asks for what is left to be passed on."""
    kept = Kept()
    log = log_to(tmp_path / "run", kept)
    step(log, 1)
    log.close()
    step(log, 2)
    log.forward()
    assert (numbers(kept), kept.flushed, kept.closed) == ([1], 1, 1)


def test_a_logger_that_hangs_does_not_keep_the_program_from_ending(tmp_path, monkeypatch, caplog):
    """M21 M34: it is told, and the next process passes on what did not arrive."""
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 0.01)
    asked, goes_on = threading.Event(), threading.Event()

    class Hangs(Kept):
        def log(self, step, values, time):
            asked.set()
            goes_on.wait()

    log = log_to(tmp_path / "run", Hangs())
    step(log, 1)
    asked.wait()
    thread = log._thread
    join, waited = thread.join, []
    monkeypatch.setattr(thread, "join", lambda seconds: (waited.append(seconds), join(0.05)))
    closing = threading.Thread(target=log.close, daemon=True)
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        closing.start()
        closing.join(10)
        ended = not closing.is_alive()
    goes_on.set()
    join()
    assert (ended, waited) == (True, [10.0])
    assert [record.getMessage() for record in caplog.records] == [
        f"A logger of {log.path} has not taken its last steps within 10 s; it is left behind."
    ]
    assert not json.loads(log._notes_path.read_text()).get("clean")
