"""The run log file: whole lines, continued files, patient readers."""

import itertools
import json
import logging
import shutil

import numpy as np

from tinker_ext.cli.watch import _tail
from tinker_ext.observe.loggers import _steps
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
    assert [step for step, *_ in _steps(path, 0)[0]] == [4]


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
