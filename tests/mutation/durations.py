"""A pytest plugin that notes how long each test took and whether it passed."""

from __future__ import annotations

import json
import os
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """Add one line to the file that MUTATION_DURATIONS names."""
    place = os.environ.get("MUTATION_DURATIONS")
    # Workers of xdist report to the one that started them; only that one writes.
    if place and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(place, "a") as file:
            file.write(json.dumps([report.nodeid, report.duration, report.passed]) + "\n")
