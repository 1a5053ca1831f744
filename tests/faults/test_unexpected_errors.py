"""An error that nobody expects is nobody's to handle: a mistake of ours is never taken for theirs.

Every `try` of the core that a scenario enters is broken once, at its start, by an error of a class
that no handler can name. It must leave the block as it is. Places that take whatever comes are
listed here, each with the reason; nothing else may join them unseen.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import time
from pathlib import Path

import attrs
import pytest
from breaking import NOT_CORE, Block, Broken, Stopped, core_files, installed
from faults.entering import SCENARIOS

import tinker_ext

# Given to whoever waits, as the error of the call; or cleaned up after, and raised again.
ANY = {
    "_transport/connection.py Connection.send": "told to observers, then judged or raised",
    "auth.py CredentialStore._write": "half a file is removed",
    "clients/arguments.py awaited_or_given_up.twin": "the call is given up",
    "clients/arguments.py chained.done": "given to who waits",
    "clients/losses.py LossRegistry.finish": "the upload is forgotten",
    "clients/training.py TrainingClient._reserve": "the budget is given back",
    "clients/service.py ServiceClient.__init__": "its place in a fleet is given back",
    "clients/training.py TrainingClient._place": "the place is given up, and the budget given back",
    "core/future.py LightFuture.settle": "callbacks of the user raise what they like",
    "core/loop.py _outcome": "given to who waits",
    "core/loop.py Runtime.submit": "the coroutine is closed",
    "core/training_queue.py TrainingQueue._post": "what becomes of its number is decided",
    "core/workspace.py Workspace.open": "what was opened is closed",
    "core/workspace.py Workspace.submit": "the coroutine is closed",
    "core/workspace.py Workspace.run": "given to who waits",
    "journal/file.py JournalFile.__init__": "the file is closed",
    "journal/file.py JournalFile._replace": "half a file is removed",
    "journal/file.py JournalFile._open 2": "the file is closed",
    "runs.py Run.__init__": "the run is closed",
    "runs.py Run.close": "the journal is closed",
    "runs.py Run.close_async": "the journal is closed",
}
# The same, but for what ends a program or a task.
ERRORS = {
    "_transport/bridge.py send_foreign": "a transport of the user raises what it likes",
    "_transport/connection.py Connection.conclude": "the reply is shown although it does not read",
    "clients/losses.py trace 2": "a loss of the user raises what it likes",
    "core/sample_pool.py SamplePool._run": "given to who waits",
    "core/training_queue.py TrainingQueue._drive": "given to all who wait",
    "core/training_queue.py TrainingQueue._carry": "given to who waits",
    "core/training_queue.py TrainingQueue._carry 2": "given to who waits",
    "core/training_queue.py TrainingQueue._fill_number": "given to who waits",
    "core/training_queue.py _Delivery._other_wire": "the other wire cannot carry it",
    "forks.py _in_child": "the other clients of the child are reset",
    "journal/recorder.py _ends": "the end of a request is noted",
    "observe/loggers.py _Forwarding._guard": "a logger of another package raises what it likes",
    "observe/watchers.py Watch._ended": "what watches never hurts what it watches",
    "runs.py Run._finish": "what was trained and saved before stays",
    "tokenizers.py fetch": "a package raises what it likes",
    "tokenizers.py Tokenizer.from_file": "a package raises what it likes",
    "telemetry.py Observers.notice": "an observer of the user raises what it likes",
    "core/in_flight.py InFlight._tell": "an observer of the user raises what it likes",
}


@pytest.fixture(scope="module")
def breaks():
    for module in pkgutil.walk_packages(tinker_ext.__path__, "tinker_ext."):
        if module.name.split(".")[1] not in (*NOT_CORE, "__main__"):
            importlib.import_module(module.name)
    with installed() as made:
        yield made


@pytest.fixture(scope="module")
def scenario_of(breaks, tmp_path_factory):
    """The quickest scenario that enters each block.

    Playing all scenarios takes longer than the rest, so what was found is kept in a file: for the
    other workers of this run, and by `nox -s mutation`, which asks once for each bug.
    """
    place = os.environ.get("MUTATION_ENTERED")
    if place is None and "PYTEST_XDIST_WORKER" in os.environ:
        place = str(tmp_path_factory.getbasetemp().parent / "entered.json")
    made_of = [sorted(SCENARIOS), sorted(map(attrs.astuple, breaks.blocks))]
    if place and os.path.exists(place):
        kept = json.loads(Path(place).read_text())
        if kept["made_of"] == json.loads(json.dumps(made_of)):
            return {Block(*block): name for block, name in kept["found"]}
    found = _played(breaks, tmp_path_factory)
    if place:
        rows = [(attrs.astuple(block), name) for block, name in found.items()]
        written = Path(f"{place}.{os.getpid()}")
        written.write_text(json.dumps({"made_of": made_of, "found": rows}))
        written.replace(place)
    return found


def _played(breaks, tmp_path_factory) -> dict[Block, str]:
    found: dict[Block, tuple[float, str]] = {}
    for name, play in SCENARIOS.items():
        breaks.entered.clear()
        began = time.process_time()
        with contextlib.suppress(Exception):
            play(tmp_path_factory.mktemp("scenario"))
        took = time.process_time() - began
        for block in breaks.entered:
            found[block] = min(found.get(block, (took, name)), (took, name))
    return {block: name for block, (_, name) in found.items()}


@pytest.mark.keeps
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", core_files())
def test_an_error_nobody_expects_passes_every_handler(breaks, scenario_of, tmp_path_factory, path):
    """M15: a mistake of ours is shown as what it is, not read as a refusal or a lost connection."""
    wrong = []

    def broken(block, error):
        breaks.arm(block, error)
        with contextlib.suppress(BaseException):
            SCENARIOS[scenario_of[block]](tmp_path_factory.mktemp("broken"))
        return breaks.raised is not None

    for block in [block for block in scenario_of if block.path == path]:
        last = block.handlers - 1
        if block.name in ANY or block.name in ERRORS:
            # The handler for everything is the last one; those before it name what they take.
            if broken(block, Broken) and breaks.taken_by not in (last, None):
                wrong.append(f"{block.name}: handler {breaks.taken_by + 1} took it")
        elif broken(block, Broken) and not breaks.passed:
            wrong.append(f"{block.name}: handler {breaks.taken_by} took it, {breaks.left_by!r}")
        if block.name in ERRORS and broken(block, Stopped) and not breaks.passed:
            wrong.append(f"{block.name} took the end of a program")
    assert wrong == [], "\n".join(wrong)


def test_most_blocks_are_entered(breaks, scenario_of):
    """The scenarios reach the core, and the lists of places name no place that is gone."""
    names = {block.name for block in breaks.blocks}
    assert {*ANY, *ERRORS} <= names
    missed = sorted(names - {block.name for block in scenario_of})
    assert len(missed) <= 5, "\n".join(missed)
