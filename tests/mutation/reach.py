"""Which tests reach which line: a run under coverage, a context per test.

What was measured is kept. A later run measures only the test files that changed since; lines of the
package that moved are found again by comparing the sources.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from coverage.numbits import numbits_to_nums
from mutation.plant import ROOT, Bug, core_files

PLACE = ROOT / ".nox" / "mutants"
ENTERED = PLACE / "entered.json"
"""Which scenario enters which `try`, see `tests/faults/test_unexpected_errors.py`."""
FOLDERS = (
    "tests/unit",
    "tests/transcripts",
    "tests/sockets",
    "tests/contract",
    "tests/faults",
    "tests/knobs",
    "tests/simulation",
    "tests/fleet",
    "tests/process",
)
# Slow, but the only ones that see what happens at the start and the end of a program.
LAST = "tests/process/"
# Tests of the server, of generated code and of the text of pages, which reach little of the core.
LEFT_OUT = (
    "tests/unit/mock/*",
    "tests/unit/quickstart/*",
    "tests/unit/cli/test_help.py",
    "tests/contract/test_conform.py",
    "tests/contract/test_examples.py",
    "tests/contract/test_generated_*",
    "tests/contract/test_server_*",
    "tests/contract/test_document_*",
)
# Tests that judge a kind of bug, by the file it is in.
MADE_FOR = {
    "wider except": "tests/faults/test_unexpected_errors.py"
    "::test_an_error_nobody_expects_passes_every_handler[{}]",
}
OWN = 8.0
"""So many times as long may a test in a file that is named after the bug's take."""
FEW = 8
"""With fewer tests than these, programs aside, others of the same file are asked as well."""
NARROW, BROAD = 50, 1000
"""A test that reaches so many lines of the package, or fewer, is as likely to be about one of them
as a test that reaches so many, or more, and takes a twentieth of the time."""
LEAST_SECONDS = 0.02
"""What a test takes at least, with all that is around it."""
# Tests that read what is there when a file is loaded, in whatever file; with all their parameters.
OF_WHAT_IS_LOADED = (
    "tests/unit/test_public_defaults.py::test_what_is_sent_when_an_argument_is_left_out",
    "tests/unit/types/test_records.py::test_bad_settings",
    "tests/unit/types/test_records.py::test_fields_are_given_by_name",
    "tests/unit/types/test_records.py::test_pickles_of_releases_before_a_field_was_added",
    "tests/unit/clients/test_opening.py::test_clients_can_be_mocked_and_patched",
    "tests/unit/test_reprs.py::test_what_is_printed_of_an_object_has_nothing_of_what_it_carries",
)
LOADED = "(loaded)"
"""Stands among the tests of a line that ran while files were loaded, before any test."""
PART = 20
LEAST_MOVED = 4
"""Lines in a row that tell where a part of a file has gone."""
# Programs that a test starts are measured too, each in the context of the test that started it.
PROGRAMS = """[run]
source = tinker_ext
parallel = true
data_file = {data}
context = ${{PYTEST_CURRENT_TEST-}}
"""

Lines = dict[str, dict[int, set[str]]]


@attrs.frozen
class Reach:
    """Lines and the tests that run them, with the seconds of a processor each test takes.

    Attributes:
        lines: File → line → tests.
        seconds: Test → seconds.
        breadth: Test → how many lines it reaches.
    """

    lines: Lines
    seconds: dict[str, float]
    breadth: Counter[str] = attrs.field(init=False)

    @breadth.default
    def _breadth(self) -> Counter[str]:
        tables = self.lines.values()
        return Counter(test for table in tables for tests in table.values() for test in tests)

    def loads(self, bug: Bug) -> bool:
        """Whether a bug is in what ran when files were loaded; also if a function ran there."""
        return bug.loads or LOADED in self.lines.get(bug.path, {}).get(bug.line, ())

    def tests(self, bug: Bug) -> list[str]:
        """Tests that reach a bug, the likeliest to notice it first.

        Quick ones before slow ones, one of every file before the next of it, and at an advantage
        those in files that are named after the bug's and those that reach little else. A test that
        is made for a kind of bug comes before all of them, and tests of whole programs after them.
        """
        table = self.lines.get(bug.path, {})
        made = MADE_FOR.get(bug.kind, "").format(bug.path.removeprefix("tinker_ext/"))
        found = {*table.get(bug.line, ()), *table.get(bug.statement, ())} - {LOADED}
        loads = self.loads(bug)
        first = self._using(bug) | (set() if bug.loads else found) if loads else set()
        if loads or not found:
            # What runs when a file is loaded may be noticed by whoever uses the file; so may what
            # runs where coverage does not look.
            found = {test for tests in table.values() for test in tests}
        found -= {made, LOADED}
        order = self._ordered(first, bug) + self._ordered(found - first, bug)
        near = [test for test in order if not is_last(test)]
        if len(near) < FEW:
            # Where a function runs when files are loaded, only programs of tests are seen; a file
            # of constants is reached by who imports it.
            tables = [table] + [self.lines.get(name, {}) for name in _importing(bug.path)]
            others = {test for each in tables for tests in each.values() for test in tests}
            more = self._ordered(others - {*order, made, LOADED}, bug)[: 3 * FEW]
            order = self._ordered({*order, *more}, bug)  # such programs are slow, too
        before = [made] if made else self._of_what_is_loaded() if loads or not near else []
        return before + sorted((test for test in order if test not in before), key=is_last)

    def _of_what_is_loaded(self) -> list[str]:
        return [test for test in self.seconds if test.partition("[")[0] in OF_WHAT_IS_LOADED]

    def _using(self, bug: Bug) -> set[str]:
        """Tests of a bug's file, and those that reach a line with the name that it changes."""
        own = {test for test in self.seconds if _is_named_after(test, bug)}
        bound = bug.bound if bug.loads else bug.function.rpartition(".")[2]
        if not bound:
            return own
        name = re.compile(rf"\b{bound}\b")
        return own | {
            test
            for path in _core()
            for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
            if name.search(line) and (path, number) != (bug.path, bug.statement)
            for test in self.lines.get(path, {}).get(number, ())
            if test != LOADED
        }

    def _ordered(self, tests: set[str], bug: Bug) -> list[str]:
        seen: Counter[str] = Counter()
        worth: dict[str, float] = {}
        for test in sorted(tests, key=self._cost):
            file = _file(test)
            seen[file] += 1
            advantage = OWN if _is_named_after(test, bug) else 1.0
            advantage *= BROAD / min(BROAD, max(NARROW, self.breadth[test]))
            worth[test] = (self._cost(test)[0] + LEAST_SECONDS) * seen[file] / advantage
        return sorted(worth, key=lambda test: (worth[test], test))

    def _cost(self, test: str) -> tuple[float, str]:
        return self.seconds.get(test, 9.0), test


def reach(*, kept_only: bool = False, anew: bool = False, workers: int = 2) -> Reach:
    """The reach of all tests.

    Args:
        kept_only: Take what was measured last, also of test files that changed since; only those
            that are new are measured.
        anew: Measure all of them: where the package has changed much, what was measured says less.
        workers: Processes that measure at a time.
    """
    PLACE.mkdir(parents=True, exist_ok=True)
    place = PLACE / "reach.json"
    kept = json.loads(place.read_text()) if place.exists() and not anew else {}
    files = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in test_files()}
    measured = kept.get("files", {})
    same = measured.keys() if kept_only else {n for n in files if measured.get(n) == files[n]}
    lines = _moved(kept, set(same))
    seconds = {test: took for test, took in kept.get("seconds", {}).items() if _file(test) in same}
    changed = [name for name in files if name not in same]
    known = {name: measured[name] for name in files if name in same}
    while changed:
        # In parts, so that a run that is ended early has not measured for nothing.
        print(f"measuring what {len(changed)} test files reach", flush=True)
        part, changed = changed[:PART], changed[PART:]
        _measure(part, lines, seconds, workers)
        known |= {name: files[name] for name in part}
        place.write_text(json.dumps(_written(lines, seconds, known)))
    return Reach(lines, seconds)


def is_last(test: str) -> bool:
    """Whether a test is asked after all others."""
    return test.startswith(LAST)


def _is_named_after(test: str, bug: Bug) -> bool:
    return Path(_file(test)).stem.startswith(f"test_{Path(bug.path).stem.strip('_')}")


def _file(test: str) -> str:
    return test.partition("::")[0]


def test_files() -> list[str]:
    """Files whose tests judge bugs."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return [name for name in names if not any(fnmatch.fnmatch(name, each) for each in LEFT_OUT)]


def _written(lines: Lines, seconds: dict[str, float], files: dict[str, str]) -> dict[str, Any]:
    numbers = {test: number for number, test in enumerate((*seconds, LOADED))}
    return {
        "files": files,
        "names": list(numbers),
        "seconds": seconds,
        "sources": {name: (ROOT / name).read_text() for name in _core() if name in lines},
        "lines": {
            name: {line: [numbers[test] for test in tests] for line, tests in table.items()}
            for name, table in lines.items()
        },
    }


def _importing(path: str) -> list[str]:
    """Files of the core that import another one by its name."""
    module = path.removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    marks = (f"import {module} ", f"from {module} import", f"from {package} import {name}")
    return [each for each in _core() if any(mark in (ROOT / each).read_text() for mark in marks)]


def _core() -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in core_files()]


def _moved(kept: dict[str, Any], files: set[str]) -> Lines:
    """What was measured, by the numbers that the lines have now.

    A line that is new is reached by the tests of the one before it and of the one behind it: it may
    begin or end a branch. Lines of a file that is gone are looked for in all others, and those of a
    new file in all that were there.
    """
    names = kept.get("names", [])
    asked = {*files, LOADED}
    sources = {name: text.splitlines() for name, text in kept.get("sources", {}).items()}
    gone = [name for name in sources if not (ROOT / name).exists()]
    found: Lines = {}
    for name in _core():
        now = (ROOT / name).read_text().splitlines()
        place: dict[int, tuple[str, int]] = {}
        for origin in [name, *gone] if name in sources else sources:
            least = 1 if origin == name else LEAST_MOVED
            matcher = difflib.SequenceMatcher(None, sources[origin], now, autojunk=False)
            for a, b, size in matcher.get_matching_blocks():
                if size >= least:
                    for i in range(size):
                        place.setdefault(b + i, (origin, a + i))
        behind = [place.get(number) for number in range(len(now))]
        for number in reversed(range(len(now) - 1)):
            behind[number] = behind[number] or behind[number + 1]
        before: tuple[str, int] | None = None
        for number in range(len(now)):
            before = place.get(number, before)
            tests: set[str] = set()
            for origin, line in filter(None, (before, behind[number])):
                old = kept.get("lines", {}).get(origin, {})
                tests.update(names[test] for test in old.get(str(line + 1), ()))
            if tests := {test for test in tests if _file(test) in asked}:
                found.setdefault(name, {})[number + 1] = tests
    return found


def _measure(files: list[str], lines: Lines, seconds: dict[str, float], workers: int) -> None:
    """Run tests under coverage, a few at a time, and add what they reached."""
    report = PLACE / "durations.jsonl"
    report.unlink(missing_ok=True)
    for old in PLACE.glob(".coverage*"):
        old.unlink()
    programs = PLACE / "programs.ini"
    programs.write_text(PROGRAMS.format(data=PLACE / ".coverage"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "mutation.durations", "--cov=tinker_ext", "--cov-context=test"]
    command += ["--cov-report=", "-n", str(workers), "--dist", "worksteal", *files]
    environment = {
        **os.environ,
        "PYTEST_PLUGINS": "pytest_cov",
        "COVERAGE_FILE": str(PLACE / ".coverage"),
        "MUTATION_DURATIONS": str(report),
        "MUTATION_PROGRAMS": str(programs),
        "MUTATION_ENTERED": str(ENTERED),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "generated", ROOT / "tests"))),
    }
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    failed = set()
    for line in report.read_text().splitlines():
        test, took, passed = json.loads(line)
        seconds[test] = round(seconds.get(test, 0.0) + took, 3)
        if not passed:
            failed.add(test)
    for test in failed:
        del seconds[test]
    for database in PLACE.glob(".coverage*"):
        _read(database, lines, seconds)
    core = set(_core())
    for name in [name for name in lines if name not in core]:
        del lines[name]


def _read(database: Path, lines: Lines, seconds: dict[str, float]) -> None:
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "select file.path, context.context, line_bits.numbits from line_bits "
            "join file on file.id = line_bits.file_id "
            "join context on context.id = line_bits.context_id"
        )
        for path, context, bits in rows:
            test = context.split("|")[0]
            for phase in (" (setup)", " (call)", " (teardown)"):
                test = test.removesuffix(phase)
            test = test or LOADED
            if not (test in seconds or test == LOADED) or not Path(path).is_relative_to(ROOT):
                continue
            table = lines.setdefault(Path(path).relative_to(ROOT).as_posix(), {})
            for line in numbits_to_nums(bits):
                table.setdefault(line, set()).add(test)
