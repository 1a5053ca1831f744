"""Runs tests in forks of a warm process: one JSON order a line, one JSON answer a line.

Everything tests load is loaded once, except the package itself, which each fork loads with its bug.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from typing import Any

LOADED = (
    "asyncio",
    "attrs",
    "httpcore",
    "httptools",
    "httpx",
    "hypothesis",
    "numpy",
    "numpy.testing",
    "orjson",
    "pytest",
    "pytest_timeout",
    "tenacity",
    "uvicorn",
    "yaml",
    "zstandard",
    "google.protobuf",
    "jsonschema_rs",
)


class Told:
    """Writes the test that begins, and again the one that failed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.failed = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        os.write(self._pipe, nodeid.encode() + b"\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take a report in."""
        if report.failed and not self.failed:
            self.failed = True
            os.write(self._pipe, report.nodeid.encode() + b"\n")


def main() -> None:
    """Answer orders until the input ends."""
    for name in LOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for line in sys.stdin:
        order = json.loads(line)
        outcome, test = judged(order["tests"], order["seconds"])
        print(json.dumps({"outcome": outcome, "test": test}), flush=True)


def judged(tests: list[str], seconds: float) -> tuple[str, str]:
    """Run the tests in a fork: `survived`, `hangs` or `caught`, and the test where that was."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setpgid(0, 0)
        _quiet()
        import pytest

        code = 9
        try:
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
            # Files as they were compiled: rewriting their asserts takes longer than most tests.
            options += ["-p", "no:cov", "--assert=plain"]
            code = pytest.main([*options, *tests], plugins=[Told(writing)])
        finally:
            os._exit(int(code))
    os.close(writing)
    os.set_blocking(reading, False)
    told = b""
    deadline = time.monotonic() + seconds
    outcome = "hangs"
    while time.monotonic() < deadline:
        told += _read(reading)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            outcome = "survived" if os.waitstatus_to_exitcode(status) == 0 else "caught"
            break
        time.sleep(0.02)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    told += _read(reading)
    os.close(reading)
    return outcome, "" if outcome == "survived" else told.decode().strip().rpartition("\n")[2]


def _read(pipe: int) -> bytes:
    """What stands in a pipe now; a program that a test left behind may hold its other end."""
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""


def _quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


main()
