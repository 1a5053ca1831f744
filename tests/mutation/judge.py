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


def main() -> None:
    """Answer orders until the input ends."""
    for name in LOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps({"outcome": judged(order["tests"], order["seconds"])}), flush=True)


def judged(tests: list[str], seconds: float) -> str:
    """Run the tests in a fork: `survived` when all pass, `hangs` when they do not end."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _quiet()
        import pytest

        code = 9
        try:
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
            code = pytest.main([*options, "-p", "no:cov", *tests])
        finally:
            os._exit(int(code))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "caught"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def _quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


main()
