"""What a run leaves on disk and passes on: permissions, loggers that fail, where they go on."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from tinker_ext import SampleLog, log_to
from tinker_ext.observe import loggers
from tinker_ext.runlog import RunLog
from tinker_ext.types import ModelInput, SampledSequence, SampleResponse


class Taking:
    """A logger that notes its steps, and fails from a chosen one on."""

    def __init__(self, fails_at=None, flush_fails=False):
        self.steps, self.flushes, self.closed = [], 0, 0
        self._fails_at, self._flush_fails = fails_at, flush_fails

    def log(self, step, values, moment):
        if self._fails_at is not None and step >= self._fails_at:
            raise RuntimeError("no room")
        self.steps.append(step)

    def flush(self):
        self.flushes += 1
        if self._flush_fails:
            raise RuntimeError("no room")

    def close(self):
        self.closed += 1


class Other(Taking):
    """The same under another name."""


@pytest.fixture
def slow(monkeypatch):
    """The thread that follows a log does nothing in these tests; they pass steps on themselves."""
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 3600.0)


def test_a_logger_that_fails_gets_no_more_and_the_others_go_on(tmp_path, slow, caplog):
    """M34: it is said once, whatever the logger failed at."""
    failing, good = Taking(fails_at=2), Other()
    log = log_to(tmp_path / "run", failing, good)
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        for number in range(5):
            log.write("step", step=number, loss=0.5)
            log.forward()
        log.close()
    assert failing.steps == [0, 1]
    assert failing.closed == 0
    assert (good.steps, good.closed, good.flushes) == ([0, 1, 2, 3, 4], 1, 5)
    assert ["Taking takes no more steps" in record.getMessage() for record in caplog.records] == [
        True
    ]


def test_a_logger_that_cannot_write_is_left_out_too(tmp_path, slow, caplog):
    """M34: after its flush has failed it is not asked again."""
    failing = Taking(flush_fails=True)
    log = log_to(tmp_path / "run", failing)
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        for number in range(3):
            log.write("step", step=number, loss=0.5)
            log.forward()
        log.close()
    assert (failing.steps, failing.flushes, failing.closed) == ([0], 1, 0)
    assert len(caplog.records) == 1


def test_a_log_that_was_closed_is_not_passed_on_twice(tmp_path, slow):
    """M34: a later run begins behind what the loggers have; other lines are no steps."""
    for numbers, expected in (((0, 1), [0, 1]), ((2,), [2]), ((), [])):
        taking = Taking()
        log = log_to(tmp_path / "run", taking)
        log.write("start", operation="optim_step")
        for number in numbers:
            log.write("step", step=number, loss=0.5)
        log.close()
        assert taking.steps == expected
        assert taking.closed == 1


def test_after_a_crash_the_last_seconds_are_passed_on_again(tmp_path, slow, monkeypatch):
    """M34: what a logger had for three seconds is safe; what is newer may not have been written."""
    clock = [1000.0]
    monkeypatch.setattr(loggers.time, "monotonic", lambda: clock[0])
    taking = Taking()
    log = log_to(tmp_path / "run", taking)
    for number, clock[0] in enumerate((1000.0, 1001.0, 1003.0, 1004.0)):
        log.write("step", step=number, loss=0.5)
        log.forward()
    notes = json.loads((tmp_path / "run" / loggers.NOTES).read_text())
    assert notes["clean"] is False
    assert notes["safe"] < notes["time"]
    log._stop.set()  # as if the process had ended here
    again = Taking()
    later = log_to(tmp_path / "run", again)
    later.forward()
    assert again.steps == [2, 3]
    later.close()
    log._loggers.clear()
    log.close()


def test_old_steps_that_were_passed_on_just_now_are_passed_on_again_after_a_crash(tmp_path, slow):
    """M34: what counts is how long a logger has had a step, and not how old the step is."""
    steps = [{"type": "step", "step": number, "time": 100.0 * number} for number in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(step)}\n" for step in steps))
    for _ in range(2):
        taking = Taking()
        log = log_to(tmp_path, taking)
        log.forward()
        assert taking.steps == [1, 2, 3]
        log._loggers.clear()  # as if the process had ended here


def test_files_of_a_run_are_readable_and_samples_private(tmp_path):
    """M33: colleagues may look at losses; what was said is the owner's."""
    before = os.umask(0o022)
    try:
        log = RunLog(tmp_path / "run")
        log.write("step", step=1)
        log.close()
        samples = SampleLog(tmp_path / "run")
        reply = SampleResponse([SampledSequence("stop", tokens_np=np.array([5]))])
        samples.record(ModelInput.from_ints([1]), reply)
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o644
    assert stat.S_IMODE(samples.path.stat().st_mode) == 0o600


def test_mlflow_is_told_the_moment_in_milliseconds(tmp_path, slow, monkeypatch):
    """M34: a step stands where it was made, on the time axis too."""
    client, taken = Mock(), []
    client.log_batch.side_effect = lambda _, metrics: taken.append(list(metrics))
    monkeypatch.setitem(sys.modules, "mlflow", Mock())
    tracking = SimpleNamespace(MlflowClient=Mock(return_value=client))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    entities = SimpleNamespace(Metric=lambda *given: given)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    client.create_run.return_value.info.run_id = "R"
    logger = loggers._Mlflow(tmp_path, {}, "p", "n")
    for step in range(1801):
        logger.log(step, {"loss": 1.0}, 12.3456)
    logger.flush()
    assert [len(batch) for batch in taken] == [900, 900, 1]
    assert taken[-1] == [("loss", 1.0, 12345, 1800)]
    logger.flush()
    assert len(taken) == 3
