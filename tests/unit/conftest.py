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


@pytest.fixture(autouse=True)
def nothing_is_started() -> Iterator[None]:
    """Fail a test that does, on whatever thread."""
    global _started
    _started = seen = []
    yield
    _started = None
    assert seen == [], "move this test: see tests/unit/conftest.py"
