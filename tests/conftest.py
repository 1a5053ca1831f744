"""What holds for all tests: they do not depend on how the test command itself was started."""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from given_back import Taken, watched
from hypothesis import settings

from tinker_ext import compat
from tinker_ext._transport import connection, limits
from tinker_ext._wire import dialect
from tinker_ext.clients import handles

# Before numpy is loaded, here and in the programs that tests start. Workers share the processors,
# and threads of BLAS that wait for each other spin: small products take a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
# Tests of a lane or a budget itself, which end with some of it taken.
OF_PARTS = ("unit/_transport/test_limits.py", "unit/test_given_back.py")
TAKEN = pytest.StashKey[Taken]()


# Hooks and not fixtures: there are seven thousand tests, and fixtures take longer than these.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Whatever a test did to its clients, on whatever loop: nothing is taken when it ends.

    `@pytest.mark.keeps` is for a test whose point is a client that is left as it is.
    """
    place = item.path.relative_to(HERE).as_posix()
    if place.startswith(OF_PARTS) or item.get_closest_marker("keeps"):
        return (yield)
    with watched(weak=True) as item.stash[TAKEN]:
        try:
            return (yield)
        finally:
            del item.stash[TAKEN]  # items stay until the last test


def pytest_runtest_setup() -> None:
    """What was found out about a server is remembered by its URL, and ports are used again."""
    for known in (
        connection._answered,
        dialect._wires,
        handles._told,
        limits._backoffs,
        limits._shared,
    ):
        known.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Look at what is taken when everything that the test had set up is gone."""
    yield
    if taken := item.stash.get(TAKEN, None):
        assert taken.left_by_threads() == []


_stand_ins: dict[str, ModuleType] = {}


@pytest.fixture
def stand_in() -> Iterator[ModuleType]:
    """`import tinker` means us until the test ends; later ones must not depend on it."""
    compat.install()
    sys.modules.update(_stand_ins)
    yield importlib.import_module("tinker")
    sys.path.remove(str(compat.directory()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tinker"]:
        _stand_ins[name] = sys.modules.pop(name)


# A shell starts background jobs with Ctrl-C ignored, and children inherit that; the tests that
# interrupt programs of their own would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is not a fault of what is tested: no example has to end within 200 ms.
# The same few examples each time: a change is not judged by luck. `--hypothesis-profile thorough`
# takes many others.
settings.register_profile("patient", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of every later garbage collection: it takes seconds."""
    gc.collect()
    gc.freeze()
