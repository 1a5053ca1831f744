"""The types users see: a checker accepts the calls, and refuses the mistakes, line by line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.timeout(600)
def test_calls_are_accepted_and_mistakes_refused():
    """M16 M39: mypy --strict over both files; every marked line, and no other, is an error."""
    # The options of `nox -s types`, so that its cache serves here too.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "tests/typing/calls.py", "tests/typing/mistakes.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    errors = re.findall(
        r"^tests.typing.(\w+\.py):(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M
    )
    reported = {(name, int(number), code) for name, number, code in errors}
    marked = {
        ("mistakes.py", number, mark[1])
        for number, text in enumerate((HERE / "mistakes.py").read_text().splitlines(), 1)
        if (mark := re.search(r"# refused: ([a-z-]+)$", text))
    }
    assert len(marked) > 10
    assert reported == marked, done.stdout
