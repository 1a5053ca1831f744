"""A pytest plugin that notes how much processor time each test took and whether it passed.

It also has the programs that tests start measured, see `reach`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

_used = 0.0


def pytest_configure() -> None:
    """Let what tests start write down what it reaches; not the workers, which pytest-cov starts."""
    if "MUTATION_PROGRAMS" in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
        os.environ["COVERAGE_PROCESS_START"] = os.environ["MUTATION_PROGRAMS"]


def pytest_runtest_logstart() -> None:
    """A test begins; what was used before it, to load the tests, is not its own."""
    global _used
    _used = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Report the time of processors, programs included: how busy the machine is does not count."""
    global _used
    report = yield
    before, _used = _used, sum(os.times()[:4])
    report.duration = _used - before  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Add one line to the file that MUTATION_DURATIONS names."""
    place = os.environ.get("MUTATION_DURATIONS")
    # Workers of xdist report to the one that started them; only that one writes.
    if place and "PYTEST_XDIST_WORKER" not in os.environ:
        passed = not report.failed
        with open(place, "a") as file:
            file.write(json.dumps([report.nodeid, report.duration, passed]) + "\n")
