"""What a unit test is: it starts no interpreter, forks nothing and serves on no port.

Such tests belong to tests/process and tests/sockets, so that this folder stays quick.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

_started: list[str] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _started is None:
        return
    if event in ("os.fork", "socket.bind") or (
        event == "subprocess.Popen" and sys.executable in arguments[1]
    ):
        _started.append(event)


sys.addaudithook(_note)


def pytest_runtest_setup() -> None:
    """Note what the test starts, on whatever thread."""
    global _started
    _started = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that did."""
    global _started
    yield
    seen, _started = _started, None
    assert not seen, "move this test: see tests/unit/conftest.py"
