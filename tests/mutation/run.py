"""Plant bugs in the core by seed and see which the tests catch: `nox -s mutation -- --bugs 300`.

Each bug is planted in a copy of the tree, and the tests that reach its line are run, the likeliest
to notice it first, until one fails; two copies work at a time, each with a process that has all
tests loaded and forks for each bug. Bugs that survive are printed;
`survivors.toml` lists those that were read and change nothing a user could see, each with its
reason; an entry that fits no line any more fails the run. `--since REV` plants only in lines that
changed since a revision; `--skip 50 --bugs 50` are the second fifty of a seed. Which test caught a
bug is kept: a run that was ended goes on where it was, until the package or that test changes.
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import hashlib
import json
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
for place in (HERE.parents[2] / "generated", HERE.parents[2], HERE.parents[1]):
    sys.path.insert(0, str(place))

from mutation.plant import ROOT, Bug, bugs_of, core_files, drawn, left_out  # noqa: E402
from mutation.reach import ENTERED, MADE_FOR, PLACE, Reach, is_last, reach, test_files  # noqa: E402

COPIED = ("tinker_ext", "generated", "tests", "openapi", "codegen", "examples", "docs")
KEPT = HERE.with_name("survivors.toml")
LOAD_SECONDS = 240.0
"""What it may take on a busy machine until the first test begins."""
TEST_SECONDS = 20.0
"""The same for a test that takes no time; one that takes some has eight times that as well."""
CONFIRMED = 24
"""So many tests are run again on the file as it is loaded when none of all has noticed a bug."""


def main() -> int:
    """Plant, run, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bugs", type=int, default=30, help="how many; 300 is the long form")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many first")
    parser.add_argument("--kind", default="*", help="only of a kind that matches")
    parser.add_argument("--since", help="only in lines changed since this revision")
    parser.add_argument("--only", default="*", help="only in files that match")
    parser.add_argument("--kept", action="store_true", help="measure new test files only")
    parser.add_argument("--anew", action="store_true", help="measure all test files again")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes that measure, and bugs judged, at a time"
    )
    parser.add_argument(
        "--seconds", type=float, default=90.0, help="processor time of the tests of one bug"
    )
    parser.add_argument("--least", type=float, default=0.9, help="part that must be caught")
    parser.add_argument("--json", type=Path, help="also write the outcome of each bug there")
    options = parser.parse_args()
    found = reach(kept_only=options.kept, anew=options.anew, workers=options.workers)
    files = [p for p in core_files() if fnmatch.fnmatch(str(p.relative_to(ROOT)), options.only)]
    bugs = [bug for path in files for bug in bugs_of(path)]
    bugs = [bug for bug in bugs if fnmatch.fnmatch(bug.kind, options.kind)]
    if options.since:
        changed = changed_lines(options.since)
        bugs = [bug for bug in bugs if bug.line in changed.get(bug.path, ())]
    if gone := survivors_gone([bug for path in core_files() for bug in bugs_of(path)]):
        print("\n".join(gone))
        return 1
    chosen = drawn(bugs, options.skip + options.bugs, options.seed)[options.skip :]
    print(f"{len(chosen)} of {len(bugs)} possible bugs in {len(files)} files")
    for reason, count in sorted(left_out(files).items()):
        print(f"{count:5} more would change only {reason}; they are not planted")
    sys.stdout.flush()
    outcomes = judged(chosen, found, options.seconds, options.workers)
    return report(outcomes, options.least, options.json)


def judged(bugs: list[Bug], found: Reach, seconds: float, workers: int) -> list[tuple[Bug, str]]:
    """The outcome of each bug, a few judged at a time, each worker in a copy of its own."""
    first = Copy(seconds, PLACE / f"tree-{os.getpid()}", ROOT)
    more = [PLACE / f"tree-{os.getpid()}-{number}" for number in range(1, min(workers, len(bugs)))]
    copies = [first, *(Copy(seconds, place, first.place) for place in more)]
    caught, known = Caught(), read_survivors()
    outcomes = {bug: before for bug in bugs if (before := caught.known(bug))}
    print(f"{len(outcomes)} of them were caught before", flush=True)
    # Every test that reaches one of these would be run, for nothing.
    listed = [bug for bug in bugs if changes_nothing(bug, known)]
    outcomes |= {bug: "survived" for bug in listed if bug not in outcomes}
    left = iter(bugs)

    def work(copy: Copy) -> None:
        for bug in left:
            if bug not in outcomes:
                outcomes[bug], by = copy.judge(bug, found)
                caught.note(bug, outcomes[bug], by)

    try:
        with ThreadPoolExecutor(len(copies)) as pool:
            for done in [pool.submit(work, copy) for copy in copies]:
                done.result()
    finally:
        for copy in copies:
            copy.remove()
    return [(bug, outcomes[bug]) for bug in bugs]


def changed_lines(revision: str) -> dict[str, set[int]]:
    """Lines of each file that differ from a revision."""
    diff = subprocess.run(
        ["git", "diff", "--unified=0", revision, "--", "tinker_ext"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines: dict[str, set[int]] = {}
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


class Caught:
    """Which test caught which bug of this package, as long as neither has changed."""

    def __init__(self) -> None:
        self._place = PLACE / "caught.json"
        files = sorted((ROOT / "tinker_ext").rglob("*.py"))
        self._package = _digest(*files)
        kept = json.loads(self._place.read_text()) if self._place.exists() else {}
        self._bugs: dict[str, list[str]] = kept.get(self._package, {})
        self._lock = threading.Lock()

    def known(self, bug: Bug) -> str | None:
        """`caught` or `hangs` when that is known."""
        outcome, test, digest = self._bugs.get(_mark(bug), ("", "", ""))
        return outcome if test and digest == _digest(ROOT / test.partition("::")[0]) else None

    def note(self, bug: Bug, outcome: str, test: str) -> None:
        """Keep that a test caught a bug."""
        if test:
            with self._lock:
                digest = _digest(ROOT / test.partition("::")[0])
                self._bugs[_mark(bug)] = [outcome, test, digest]
                self._place.write_text(json.dumps({self._package: self._bugs}, indent=1))


def _mark(bug: Bug) -> str:
    return f"{bug.path} {bug.start} {bug.end} {bug.text}"


def _digest(*paths: Path) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()


class Copy:
    """A copy of the tree in which bugs are planted, and the process that runs its tests.

    The process has loaded what tests need but the package; each bug is judged by a fork of it.
    """

    def __init__(self, seconds: float, place: Path, origin: Path) -> None:
        self._seconds = seconds
        self.place = place
        self.there: set[str] = set()
        """The tests there are; one that was measured may have another name by now."""
        self._sound: set[str] = set()
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules")
        for name in COPIED:
            if (origin / name).exists():
                shutil.copytree(
                    origin / name, place / name, ignore=ignored if origin == ROOT else None
                )
        for name in ("pyproject.toml", "noxfile.py", "README.md", "CHANGELOG.md"):
            shutil.copy(origin / name, place / name)
        paths = [str(place / name) for name in ("", "generated", "tests")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MUTATION_ENTERED": str(ENTERED),
        }
        if origin == ROOT:
            # Checked by content: a bug that is planted and taken out within a second is seen.
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            for name in ("tinker_ext", "generated", "tests"):
                compileall.compile_dir(place / name, quiet=2, invalidation_mode=mode)
        self._process = subprocess.Popen(
            [sys.executable, str(HERE.with_name("judge.py")), *test_files()],
            cwd=place,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def judge(self, bug: Bug, found: Reach) -> tuple[str, str]:
        """`caught`, `hangs`, `survived` or `unreached`, and the test that noticed the bug."""
        began = time.monotonic()
        if not self.there:
            self.there = set(self._answer()["there"])
        chosen, spent = [], {False: 0.0, True: 0.0}
        for test in found.tests(bug):
            if test in self.there:
                last, seconds = is_last(test), found.seconds.get(test, 9.0)
                # A third is kept for those that are asked last.
                if chosen and spent[last] + seconds > self._seconds * (1 if last else 2) / 3:
                    continue
                chosen.append(test)
                spent[last] += seconds
        outcome, by = "survived" if chosen else "unreached", ""
        # One that is made for a kind of bug is run alone: it is slow, and right about it.
        alone = 1 if chosen and bug.kind in MADE_FOR else 0
        for part in (chosen[:alone], chosen[alone:]):
            if part and outcome == "survived":
                outcome, by = self._noticed(bug, part, found, loads=found.loads(bug))
        if outcome == "survived" and not found.loads(bug):
            # What ran when the files were loaded ran without the bug.
            outcome, by = self._noticed(bug, chosen[:CONFIRMED], found, loads=True)
        took = time.monotonic() - began
        told = f"  by {by}" if by else ""
        print(f"{outcome:9} {took:5.1f} s {len(chosen):4} tests  {bug.name}{told}", flush=True)
        return outcome, by

    def _noticed(self, bug: Bug, tests: list[str], found: Reach, *, loads: bool) -> tuple[str, str]:
        """Whether one of the tests notices a bug, and which."""
        left = list(tests)
        while left:
            outcome, by = self._run(bug, left, found, loads=loads)
            if outcome == "survived":
                return outcome, ""
            if not by:
                if self._run(None, left[:1], found, loads=loads)[0] != "survived":
                    raise TimeoutError("no test can be run; the machine is too busy")
                return outcome, by  # nothing could be loaded
            # A test that fails or hangs without the bug as well, or just then, has caught nothing;
            # those before it have passed.
            if not self._is_sound(by, found):
                self.there.discard(by)
            elif (outcome == "caught" and len(tests) == 1) or (
                self._run(bug, [by], found, loads=loads)[0] != "survived"
            ):
                return outcome, by
            left = left[left.index(by) + 1 :]
        return "survived", ""

    def _is_sound(self, test: str, found: Reach) -> bool:
        """Whether a test passes without a bug."""
        if test not in self._sound:
            if self._run(None, [test], found, loads=False)[0] != "survived":
                return False
            self._sound.add(test)
        return True

    def _run(
        self, bug: Bug | None, tests: list[str], found: Reach, *, loads: bool
    ) -> tuple[str, str]:
        """Run tests with a bug, or without one."""
        assert self._process.stdin is not None
        target = source = None
        if bug is not None:
            target = self.place / bug.path
            source = target.read_bytes()
            target.write_bytes(bug.planted(source))
        limits = {test: TEST_SECONDS + 8 * found.seconds.get(test, 9.0) for test in tests}
        order = {
            "tests": tests,
            "limits": limits,
            "load": LOAD_SECONDS,
            "loads": loads,
            "path": None if target is None else str(target),
            "line": 0 if bug is None else bug.line,
        }
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
            return answer["outcome"], answer["test"]
        finally:
            if target is not None and source is not None:
                target.write_bytes(source)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the tests cannot be collected; run pytest --collect-only")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def remove(self) -> None:
        """End the process and delete the copy."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
        shutil.rmtree(self.place, ignore_errors=True)


def report(outcomes: list[tuple[Bug, str]], least: float, place: Path | None) -> int:
    """Print what was caught and what was not; 0 when enough was."""
    known = read_survivors()
    rows = [
        (bug, "no change" if outcome == "survived" and changes_nothing(bug, known) else outcome)
        for bug, outcome in outcomes
    ]
    if place is not None:
        place.write_text(json.dumps([[bug.name, outcome] for bug, outcome in rows], indent=1))
    counts = Counter(outcome for _, outcome in rows)
    by_kind: dict[str, Counter[str]] = {}
    for bug, outcome in rows:
        by_kind.setdefault(bug.kind, Counter())[outcome] += 1
    print()
    for kind, count in sorted(by_kind.items()):
        caught = count["caught"] + count["hangs"]
        print(f"{kind:20} {caught:4} of {count.total() - count['no change']:4} caught")
    changing = len(rows) - counts["no change"]
    caught = counts["caught"] + counts["hangs"]
    part = caught / changing if changing else 1.0
    print(
        f"{caught} of {changing} bugs that change something were caught ({part:.0%}); "
        f"{counts['survived']} survived, {counts['unreached']} on lines no test reaches, "
        f"{counts['no change']} known to change nothing"
    )
    return 0 if part >= least else 1


Key = tuple[str, str, str, str]
Survivors = dict[Key, set[str]]
"""Bugs that were read and change nothing, each with what it may stand in; "" is anything."""


def read_survivors() -> Survivors:
    """What `survivors.toml` lists."""
    known: Survivors = {}
    for row in tomllib.loads(KEPT.read_text())["bug"]:
        key = row["path"], row["in"], row["was"], row["text"]
        known.setdefault(key, set()).add(row.get("of", ""))
    return known


def changes_nothing(bug: Bug, known: Survivors) -> bool:
    """Whether a bug is listed."""
    return not known.get(_key(bug), set()).isdisjoint(("", *bug.around))


def survivors_gone(every: list[Bug]) -> list[str]:
    """A line for each entry that fits no bug any more."""
    there = {(_key(bug), of) for bug in every for of in ("", *bug.around)}
    return [
        f"{KEPT.name}: no {was!r} -> {text!r} in {of or function} of {path} any more"
        for (path, function, was, text), places in read_survivors().items()
        for of in places
        if ((path, function, was, text), of) not in there
    ]


def _key(bug: Bug) -> Key:
    was, text = (" ".join(part.split()) for part in (bug.was, bug.text))
    return bug.path, bug.function, was, text


if __name__ == "__main__":
    sys.exit(main())
