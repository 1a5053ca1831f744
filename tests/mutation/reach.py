"""Which tests reach which line: one run under coverage, a context per test, kept by its tree."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import attrs
from coverage.numbits import numbits_to_nums
from mutation.plant import ROOT, Bug

PLACE = ROOT / ".nox" / "mutation"
# Tests that run the core in their own process; a subprocess would not be seen.
FOLDERS = ("tests/unit", "tests/contract", "tests/faults", "tests/knobs", "tests/simulation")
LEFT_OUT = (
    "tests/unit/cli",
    "tests/unit/mock",
    "tests/unit/compat",
    "tests/unit/quickstart",
    "tests/unit/ui",
    "tests/contract/test_cli.py",
    "tests/contract/test_cli_process.py",
    "tests/contract/test_conform.py",
    "tests/contract/test_examples.py",
    "tests/contract/test_server_*",
    "tests/contract/test_document_*",
    "tests/faults/test_clean_ends.py",
    "tests/faults/test_crash_resume.py",
    "tests/faults/test_embedded_state.py",
    "tests/faults/test_forks.py",
    "tests/faults/test_process_life.py",
    "tests/faults/test_proxies.py",
)


@attrs.frozen
class Reach:
    """Lines and the tests that run them, with the seconds each test takes.

    Attributes:
        lines: File → line → tests.
        imported: File → lines that run when it is loaded; any test of the file may notice them.
        seconds: Test → seconds.
    """

    lines: dict[str, dict[int, list[str]]]
    imported: dict[str, set[int]]
    seconds: dict[str, float]

    def tests(self, bug: Bug) -> list[str]:
        """Tests that reach a bug, quickest first."""
        table = self.lines.get(bug.path, {})
        found = {*table.get(bug.line, ()), *table.get(bug.statement, ())}
        if bug.statement in self.imported.get(bug.path, ()):
            found.update(test for tests in table.values() for test in tests)
        if not found:
            # Measured on another tree, or run where coverage does not look: whoever loads the file
            # may notice.
            found.update(test for tests in table.values() for test in tests)
        return sorted(found, key=lambda test: (self.seconds.get(test, 9.0), test))


def tree_name(root: Path = ROOT) -> str:
    """A digest of the package and its tests."""
    digest = hashlib.sha256()
    for folder in ("tinker_ext", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def reach(*, newest: bool = False) -> Reach:
    """The reach of all tests; measured once per tree.

    Args:
        newest: Take the last measurement, of whatever tree. Lines that nobody reached then are
            judged by the tests of the whole file.
    """
    PLACE.mkdir(parents=True, exist_ok=True)
    kept = PLACE / f"reach-{tree_name()}.json"
    if newest and not kept.exists():
        kept = max(PLACE.glob("reach-*.json"), key=lambda p: p.stat().st_mtime, default=kept)
    if not kept.exists():
        _measure(kept)
    data = json.loads(kept.read_text())
    names: list[str] = data["names"]
    lines = {
        path: {int(n): [names[i] for i in tests] for n, tests in table.items()}
        for path, table in data["lines"].items()
    }
    imported = {path: set(numbers) for path, numbers in data["imported"].items()}
    return Reach(lines, imported, data["seconds"])


def _measure(kept: Path) -> None:
    """Run the tests under coverage, two at a time, and keep what they reached."""
    report = PLACE / "durations.jsonl"
    report.unlink(missing_ok=True)
    database = PLACE / ".coverage"
    for old in PLACE.glob(".coverage*"):
        old.unlink()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "mutation.durations", "--cov=tinker_ext", "--cov-context=test"]
    command += ["--cov-report=", "-n", "2", *FOLDERS]
    command += [f"--ignore-glob={ROOT / folder}" for folder in LEFT_OUT]
    environment = {
        **os.environ,
        "COVERAGE_FILE": str(database),
        "MUTATION_DURATIONS": str(report),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "generated", ROOT / "tests"))),
    }
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    seconds = {}
    for line in report.read_text().splitlines():
        test, took, passed = json.loads(line)
        if passed:
            seconds[test] = round(seconds.get(test, 0.0) + took, 3)
    kept.write_text(json.dumps(_read(database, seconds)))


def _read(database: Path, seconds: dict[str, float]) -> dict[str, object]:
    names: dict[str, int] = {}
    lines: dict[str, dict[int, list[int]]] = {}
    imported: dict[str, list[int]] = {}
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "select file.path, context.context, line_bits.numbits from line_bits "
            "join file on file.id = line_bits.file_id "
            "join context on context.id = line_bits.context_id"
        )
        for path, context, bits in rows:
            test = context.split("|")[0]
            name = str(Path(path).relative_to(ROOT))
            if not test:
                imported[name] = numbits_to_nums(bits)
            if test not in seconds:
                continue
            table = lines.setdefault(name, {})
            number = names.setdefault(test, len(names))
            for line in numbits_to_nums(bits):
                known = table.setdefault(line, [])
                if number not in known[-3:]:
                    known.append(number)
    return {"names": list(names), "lines": lines, "imported": imported, "seconds": seconds}
