"""Telemetry and the run log of several processes."""

import multiprocessing
import os
import time
from types import SimpleNamespace

import pytest
from unit.observe.test_reporter import QUIET, Endpoint, make
from virtual_clock import run_virtual

from tinker_ext.observe.reporter import process_uuid
from tinker_ext.observe.run_log import RunLogObserver
from tinker_ext.runlog import Ledger, RunLog, read
from tinker_ext.telemetry import OperationStarted, SessionEnded

# Python 3.12 and later warn of any fork beside threads; what is tested is that it goes well.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def said_by_child(act, say):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            os.write(writing, say().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    os.waitpid(child, 0)
    return said


def test_a_forked_child_has_its_own_id_and_leaves_the_parents_events_to_it():
    """M34: process_uuid changes after a fork, and nothing is reported twice."""
    endpoint = Endpoint()

    async def scenario():
        reporter = make(endpoint)
        reporter.notice(QUIET)
        said = said_by_child(
            lambda: reporter.notice(QUIET),
            lambda: f"{process_uuid()} {reporter.queued}",
        )
        assert reporter.queued == 2
        return said

    uuid, queued = run_virtual(scenario())
    assert queued == "1"
    assert uuid != process_uuid()


def test_a_forked_child_leaves_the_parents_lines_to_it(tmp_path):
    """M34: a call that the parent has not written yet is in the log once."""
    idle = SimpleNamespace(time=time.monotonic, call=lambda *_: None)
    observer = RunLogObserver(RunLog(tmp_path), Ledger(), idle, {})
    observer.notice(OperationStarted(1, "forward", "m"))

    def end():
        observer.notice(SessionEnded("s", "success", None, 1.0))

    said_by_child(end, str)
    end()
    kinds = [line["type"] for line in read(tmp_path)]
    assert (kinds.count("start"), kinds.count("session_end")) == (1, 2)


def _append(path, name, count):
    log = RunLog(path)
    for number in range(count):
        log.write("operation", operation=name, number=number, padding="x" * 300)


def test_processes_append_whole_lines(tmp_path):
    """M34: lines of several writers never mix."""
    path = tmp_path / "m.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(path, str(i), 200)) for i in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = list(read(path))
    assert len(lines) == len(path.read_text().splitlines()) == 600
    assert {(line["operation"], line["number"]) for line in lines} == {
        (str(i), n) for i in range(3) for n in range(200)
    }
