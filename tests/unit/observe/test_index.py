"""The index that a run keeps beside its own log: a page opens it without reading the log."""

import io
import os
import threading
from types import SimpleNamespace

import pytest
from in_process import MODEL, adam, client, datum, run, server

from tinker_ext.observe import index, run_log
from tinker_ext.observe.index import LogIndex
from tinker_ext.observe.run_log import RunLogObserver
from tinker_ext.runlog import Ledger, RunLog, read
from tinker_ext.telemetry import OperationFinished, OperationStarted
from tinker_ext.ui.shown import Shown


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Logs of a few lines are long ones here."""
    monkeypatch.setattr(run_log, "INDEXED_CALLS", 2)
    for module in (run_log, index):
        monkeypatch.setattr(module, "SAVE_BYTES", 1000)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


async def train(path, steps, app=None):
    async with client(app or server(seed=3), run_log=path) as service:
        training = await service.create_lora_training_client_async(MODEL, rank=4)
        for _ in range(steps):
            await (await training.forward_backward_async([datum(4)], "cross_entropy"))
            await (await training.optim_step_async(adam()))
            yield LogIndex(path).step


async def steps_known(*args):
    return [step async for step in train(*args)]


def as_read_anew(path):
    path.with_name("metrics.jsonl.index").unlink()
    log = Shown(path)
    log.advance()
    return log.details(1e9)


def test_a_run_keeps_an_index_of_its_log(path):
    """F29: up to a few calls ago while it runs, and whole when it has ended."""
    known = run(lambda: steps_known(path, 8))
    assert 0 < known[-1] <= 8
    assert known == sorted(known)
    log = Shown(path)
    assert (log.offset, log.ended) == (path.stat().st_size, "success")
    assert log.details(1e9) == as_read_anew(path)


def test_a_run_that_goes_on_in_its_log_reads_on(path):
    """F29: the index has the steps of both; also when the first one's was lost."""
    run(lambda: steps_known(path, 8))
    for lost in (False, True):
        if lost:
            path.with_name("metrics.jsonl.index").unlink()
        run(lambda: steps_known(path, 8))
        assert LogIndex(path).offset == path.stat().st_size
    assert Shown(path).details(1e9) == as_read_anew(path)


def test_two_that_write_one_log_keep_one_index(path):
    """F29: each reads what both have written."""

    async def scenario():
        apps = server(seed=3), server(seed=4)
        runs = [train(path, 8, app) for app in apps]
        for _ in range(8):
            for each in runs:
                await anext(each)
        for each in runs:
            assert [step async for step in each] == []

    run(scenario)
    log = Shown(path)
    log.advance()
    assert (len(log.steps), log.step) == (2, 8)
    assert log.details(1e9) == as_read_anew(path)


def test_a_log_that_is_moved_away_takes_no_part_in_the_index_of_the_new_one(path, monkeypatch):
    """Bad input: rotated during the run."""
    monkeypatch.setattr("tinker_ext.runlog.LOOK_SECONDS", 0.0)

    async def scenario():
        async for step in train(path, 12):
            if step and not path.with_name("old.jsonl").exists():
                path.rename(path.with_name("old.jsonl"))

    run(scenario)
    log = Shown(path)
    log.advance()
    assert log.step == 12
    assert 0 < len(log.steps[log.target].table) // len(log.steps[log.target].names) < 12
    assert log.details(1e9)["step"] == as_read_anew(path)["step"]


def test_a_run_goes_on_without_an_index_where_none_can_be_written(path):
    """M34: a folder that takes no new file costs the index only."""
    path.with_name("metrics.jsonl.index").mkdir()
    assert run(lambda: steps_known(path, 8)) == [0] * 8
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}.index"}
    log = Shown(path)
    log.advance()
    assert (log.step, log.ended) == (8, "success")


def test_a_log_whose_name_leaves_no_room_for_an_index_loses_no_line(tmp_path):
    """M34: nor a step: the name of the index would be longer than a file's can be."""
    path = tmp_path / ("x" * 245 + ".jsonl")
    assert run(lambda: steps_known(path, 8)) == [0] * 8
    lines = [each["type"] for each in read(path)]
    assert (lines.count("step"), lines.count("operation")) == (8, lines.count("start"))


def test_an_index_that_fails_costs_no_line(path, monkeypatch):
    """M34: whatever is wrong with it."""
    monkeypatch.setattr(LogIndex, "advance", lambda *_: 1 // 0)
    run(lambda: steps_known(path, 8))
    lines = [each["type"] for each in read(path)]
    assert (lines.count("step"), lines.count("operation")) == (8, lines.count("start"))


def test_no_call_waits_for_the_index(path, monkeypatch):
    """M34: while one thread reads for it, the calls of others begin and end."""
    reading, go_on = threading.Event(), threading.Event()

    def advance(*_):
        reading.set()
        go_on.wait(60)

    monkeypatch.setattr(LogIndex, "advance", advance)
    runtime = SimpleNamespace(time=lambda: 0.0, call=lambda *_: None)
    writer = RunLogObserver(RunLog(path), Ledger(), runtime, {})

    def call(number):
        writer.notice(OperationStarted(number, "optim_step", "m", None))
        writer.notice(
            OperationFinished(number=number, operation="optim_step", target="m", seconds=1.0)
        )

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in (2, 4)]
    for thread in threads:
        thread.start()
        assert reading.wait(60)
    threads[1].join(10)
    try:
        assert [each["step"] for each in read(path) if each["type"] == "step"] == [1, 2]
    finally:
        go_on.set()
    threads[0].join()


@pytest.mark.parametrize("between", [True, False])
def test_a_page_opened_later_does_not_say_that_a_log_was_replaced(path, monkeypatch, between):
    """F29: moved away during the run or before it; the page has only ever seen the new one."""
    monkeypatch.setattr("tinker_ext.runlog.LOOK_SECONDS", 0.0)

    async def scenario():
        async for step in train(path, 12):
            if step and not between and not path.with_name("old.jsonl").exists():
                path.rename(path.with_name("old.jsonl"))

    run(scenario)
    if between:
        path.rename(path.with_name("old.jsonl"))
        stale = path.with_name("metrics.jsonl.index").read_bytes()
        run(scenario)
        shown = Shown(path).details(1e9)
        path.with_name("metrics.jsonl.index").write_bytes(stale)
        log = Shown(path)
        log.advance()
        assert log.details(1e9) == shown
    log = Shown(path)
    log.advance()
    assert log.details(1e9) == as_read_anew(path)


def test_a_log_that_was_edited_between_two_runs_is_read_anew(path):
    """Bad input: a line was taken out, and the log has grown beyond its index again."""
    run(lambda: steps_known(path, 8))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(each for each in lines if b'"step":7,' not in each))
    run(lambda: steps_known(path, 8))
    shown = Shown(path).details(1e9)
    assert len(shown["spark"]) == 15
    assert shown == as_read_anew(path)


class Growing(io.FileIO):
    """A file whose writer goes on when it was read to its end for the first time."""

    rest = b""

    def readinto(self, buffer):
        count = super().readinto(buffer)
        if not count:
            with open(self.name, "ab") as file:
                file.write(Growing.rest)
            Growing.rest = b""
        return count


@pytest.mark.parametrize("reader", ["index", "read"])
def test_a_line_that_is_written_while_it_is_read_is_one(path, monkeypatch, reader):
    """M50: a reader that comes to the end amid a line gets the rest of it a moment later."""
    lines = RunLog(path)
    for number in range(1, 4):
        lines.write("step", step=number, target="m", loss=2.5)
    whole = path.read_bytes()
    end = whole.index(b'"step":2')
    path.write_bytes(whole[:end])
    monkeypatch.setattr(Growing, "rest", whole[end:])
    if reader == "read":
        monkeypatch.setattr(type(path), "open", lambda *_: io.BufferedReader(Growing(path)))
        assert [each["step"] for each in read(path)] == [1, 2, 3]
        return
    monkeypatch.setattr(index, "opened", lambda _: io.BufferedReader(Growing(path)))
    log = LogIndex(path)
    log.advance()
    path.write_bytes(whole)
    log.advance()
    assert (list(log.steps["m"].columns["step"]), log.bad) == ([1.0, 2.0, 3.0], 0)


def test_what_is_not_a_file_is_not_kept_open(tmp_path):
    """F29: a pipe in place of a log is refused at once, and its writer finds nobody."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file") as caught:
        index.opened(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))
    assert caught.tb is not None  # it keeps what was not closed
