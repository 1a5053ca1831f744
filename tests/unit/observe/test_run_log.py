"""The run log file: whole lines, continued files, patient readers."""

import errno
import itertools
import json
import logging
import os
import shutil
import time
from unittest.mock import Mock

import numpy as np
import pytest

from tinker_ext import SampleLog, SampleResponse, log_to
from tinker_ext.cli.watch import _tail
from tinker_ext.runlog import RunLog, last_steps, read


def test_lines_are_json_and_numbers_json_lacks_are_null(tmp_path):
    """M34: every line is an object that any JSON reader takes."""
    log = RunLog(tmp_path / "deep" / "metrics.jsonl")
    log.write("operation", loss=float("nan"), metrics={"a": np.float32(1.5), "b": float("inf")})
    log.close()
    (line,) = log.path.read_text().splitlines()
    record = json.loads(line, parse_constant=lambda _: 1 / 0)
    assert record["loss"] is None
    assert record["metrics"] == {"a": 1.5, "b": None}
    assert record["time"] > 0


def test_a_directory_means_metrics_jsonl_in_it(tmp_path):
    """M34: the file is called metrics.jsonl unless the user names one."""
    RunLog(tmp_path).write("step", step=1)
    assert [line["step"] for line in read(tmp_path)] == [1]
    assert (tmp_path / "metrics.jsonl").exists()


def test_a_torn_last_line_costs_that_line_only(tmp_path):
    """M34: a log whose writer was killed is read and continued."""
    path = tmp_path / "m.jsonl"
    path.write_text('{"type":"step","step":1,"target":"m"}\n{"type":"step","st')
    assert [line["step"] for line in read(path)] == [1]
    RunLog(path).write("step", step=2, target="m")
    assert [line["step"] for line in read(path)] == [1, 2]
    assert last_steps(path) == {"m": 2}


def test_foreign_lines_are_passed_over(tmp_path):
    """M34: a reader leaves out what it does not know."""
    path = tmp_path / "m.jsonl"
    path.write_text('[1]\n{"step": 3}\n\nnoise\n{"type":"step","step":4}\n')
    assert [line["step"] for line in read(path)] == [4]
    assert last_steps(tmp_path / "none.jsonl") == {}


def test_a_line_nested_without_end_is_passed_over_by_every_reader(tmp_path):
    """M34: a run continues a log with such a line, `watch` and other loggers read past it."""
    path = tmp_path / "m.jsonl"
    deep = "[" * 100_000
    path.write_text(
        f'{deep}\n{{"type":"step","x":{deep}\n{{"type":"step","step":4,"time":1,"target":"m"}}\n'
    )
    assert [line["step"] for line in read(path)] == [4]
    assert last_steps(path) == {"m": 4}
    assert [line["step"] for line in next(_tail(path))] == [4]
    printer = Mock()
    log_to(path, printer).close()
    assert [call.args[0] for call in printer.log.call_args_list] == [4]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, caplog):
    """M34: a full or missing disk is reported once, and the run goes on."""
    (tmp_path / "file").write_text("")
    log = RunLog(tmp_path / "file" / "metrics.jsonl")
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        log.write("step", step=1)
        log.write("step", step=2)
    assert len(caplog.records) == 1


def test_a_log_deleted_during_a_run_goes_on_in_a_new_file(tmp_path, caplog, monkeypatch):
    """M34: said once; what follows is found under the same name, and nothing is stopped."""
    now = itertools.count(1.7e9, 2.0)
    monkeypatch.setattr("tinker_ext.runlog.time.time", lambda: next(now))
    log = RunLog(tmp_path / "run" / "metrics.jsonl")
    log.write("step", step=1)
    for step in (2, 4):
        shutil.rmtree(tmp_path / "run")
        with caplog.at_level(logging.WARNING, "tinker_ext"):
            log.write("step", step=step)
            log.write("step", step=step + 1)
        assert [line["step"] for line in read(log.path)] == [step, step + 1]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        f"The run log {log.path} was deleted during the run. What was in it is lost; a new file "
        "with the same name has what follows."
    )


def test_the_end_of_a_run_is_in_the_log_that_has_its_name(tmp_path):
    """M34: also when it was rotated just before, or who follows it would wait for ever."""
    log = RunLog(tmp_path / "m.jsonl")
    log.write("session_start", session="s")
    log._looked = time.time()
    log.path.rename(tmp_path / "m.jsonl.1")
    log.write("session_end", session="s", status="success")
    log.close()
    assert [line["type"] for line in read(log.path)] == ["session_start", "session_end"]


def test_a_log_rotated_during_a_run_goes_on_in_a_new_file(tmp_path, caplog, monkeypatch):
    """M34: said once; the old file is whole, the new one can be read by itself."""
    now = itertools.count(1.7e9, 2.0)
    monkeypatch.setattr("tinker_ext.runlog.time.time", lambda: next(now))
    log = RunLog(tmp_path)
    tail = _tail(log.path)
    log.write("session_start", version=1, currency="USD")
    log.write("step", step=1)
    assert [line["type"] for line in next(tail)] == ["session_start", "step"]
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        for number in (2, 3):
            old = log.path.rename(tmp_path / f"metrics.jsonl.{number}")
            assert next(tail) == []
            if number == 3:
                log.path.touch()  # as `logrotate` does with `create`
            log.write("step", step=number)
            lines = list(read(log.path))
            assert [line.get("step") for line in lines] == [None, number]
            assert lines[0]["currency"] == "USD"
            assert [line.get("step") for line in read(old)] == [None, number - 1]
            assert next(tail) == lines
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        f"The run log {log.path} was moved during the run: rotated, perhaps. A new file with the "
        "same name has what follows."
    )


@pytest.mark.parametrize("room", [0, 20])
@pytest.mark.parametrize("kind", [RunLog, SampleLog])
def test_a_line_cut_off_by_a_full_disk_costs_itself_only(tmp_path, caplog, monkeypatch, kind, room):
    """M34 F29: the next line does not run into it once there is space again; said once."""
    log, write, space = kind(tmp_path), os.write, [1 << 30]

    def bounded(file, data):
        if not space[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        space[0] -= (written := write(file, data[: space[0]]))
        return written

    def record(number):
        if kind is RunLog:
            log.write("step", step=number)
        else:
            log.record("prompt", SampleResponse([]), step=number)

    monkeypatch.setattr(os, "write", bounded)
    record(1)
    space[0] = room
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with caplog.at_level(logging.WARNING, "tinker_ext"):
        record(2)
        record(3)
    space[0] = 1 << 30
    record(4)
    record(5)
    assert [line["step"] for line in read(log.path)] == [1, 4, 5]
    assert len(log.path.read_bytes().splitlines()) == 3 + (room > 0)
    (said,) = [each.getMessage() for each in caplog.records]
    assert "No space left on device" in said
    if files is not None:
        assert len(os.listdir("/proc/self/fd")) <= files
