"""Runs tests in forks of a process that has collected them all: a JSON order a line, and an answer.

A bug in the body of a function is put into the functions of the fork, which then has nothing to
load. For a bug in what runs when a file is loaded the fork forgets the package and the tests, and
loads what it needs again.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Files as they were compiled: rewriting their asserts takes longer than most tests.
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-p", "no:cov"]
OPTIONS += ["--assert=plain"]
# What a test allows a thread of a busy machine; a bug that keeps something keeps it for ever.
PATIENCE = 8.0

Functions = dict[tuple[str, str, int], list[types.FunctionType]]


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


class Judge:
    """Answers orders where the collected tests would be run."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers = orders, answers
        self._tests: dict[str, pytest.Item] = {}
        self._functions: Functions = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer until the orders end."""
        self._tests = {item.nodeid: item for item in session.items}
        self._functions = _functions()
        self._answer({"there": list(self._tests)})
        with os.fdopen(self._orders) as orders:
            for line in orders:
                order = json.loads(line)
                run = self._again if order["loads"] else self._here
                outcome, test = judged(lambda told, r=run, o=order: r(session, o, told), order)
                self._answer({"outcome": outcome, "test": test})
        return True

    def _answer(self, value: dict[str, Any]) -> None:
        text = json.dumps(value).encode() + b"\n"
        while text:
            text = text[os.write(self._answers, text) :]

    def _here(self, session: pytest.Session, order: dict[str, Any], told: Told) -> int:
        """Run tests that are loaded, in this fork."""
        from _pytest.main import pytest_runtestloop

        _hurry()
        if order["path"] and not put_in(Path(order["path"]), order["line"], self._functions):
            return self._again(session, order, told)
        session.config.pluginmanager.register(told)
        session.items = [self._tests[test] for test in order["tests"]]
        pytest_runtestloop(session)
        return 0 if session.testsfailed == 0 else 1

    def _again(self, _: pytest.Session, order: dict[str, Any], told: Told) -> int:
        """Load the package and the tests again, and run them."""
        here = os.getcwd()
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None) or ""
            # What is generated has no bug, and the messages of a protocol can be made only once.
            if place.startswith(here) and not place.startswith(f"{here}/generated"):
                del sys.modules[name]
        gc.unfreeze()
        return pytest.main([*OPTIONS, "-s", *order["tests"]], plugins=[told, Hurried()])


class Hurried:
    """Shortens waits once the tests are loaded."""

    def pytest_collection_finish(self) -> None:
        """The tests are loaded."""
        _hurry()


def _hurry() -> None:
    for name, attribute in (("given_back", "PATIENCE"), ("virtual_clock", "_JumpingSelector")):
        module = sys.modules.get(name)
        if module is None:
            continue
        if attribute == "PATIENCE":
            module.PATIENCE = PATIENCE  # type: ignore[attr-defined]
        else:
            getattr(module, attribute).patience = PATIENCE


def _functions() -> Functions:
    """The functions of the package, by file, name and line."""
    gc.unfreeze()  # what is frozen is not listed
    package = os.path.join(os.getcwd(), "tinker_ext") + os.sep
    found: Functions = {}
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType):
            code = each.__code__
            if code.co_filename.startswith(package):
                key = (code.co_filename, code.co_qualname, code.co_firstlineno)
                found.setdefault(key, []).append(each)
    gc.freeze()
    return found


def put_in(path: Path, line: int, functions: Functions) -> bool:
    """Give the functions around a line the code that stands in the file now, if that can be."""
    source = path.read_bytes()
    around = {
        min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and node.lineno <= line <= (node.end_lineno or 0)
    }
    codes: dict[tuple[str, str, int], types.CodeType] = {}
    for code in _codes(compile(source, str(path), "exec", dont_inherit=True)):
        key = (str(path), code.co_qualname, code.co_firstlineno)
        if code.co_firstlineno in around and key in functions:
            if key in codes:
                return False  # two in a line
            codes[key] = code
    for key, code in codes.items():
        for function in functions[key]:
            if function.__code__.co_freevars != code.co_freevars:
                return False
            function.__code__ = code
    return bool(codes)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


def judged(run: Any, order: dict[str, Any]) -> tuple[str, str]:
    """Run tests in a fork: `survived`, `hangs` or `caught`, and the test where that was.

    Every test has a time limit of its own, from its beginning.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setpgid(0, 0)
        code = 9
        try:
            code = run(Told(writing))
        finally:
            os._exit(int(code))
    os.close(writing)
    os.set_blocking(reading, False)
    told, begun = b"", 0
    deadline = time.monotonic() + order["load"]
    outcome = "hangs"
    while time.monotonic() < deadline:
        told += _read(reading)
        if told.count(b"\n") > begun:
            begun = told.count(b"\n")
            deadline = time.monotonic() + order["limits"].get(_last(told, order), order["load"])
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            outcome = "survived" if os.waitstatus_to_exitcode(status) == 0 else "caught"
            break
        time.sleep(0.01)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    told += _read(reading)
    os.close(reading)
    return outcome, "" if outcome == "survived" else _last(told, order)


def _last(told: bytes, order: dict[str, Any]) -> str:
    """The test that was named last; a bug may have written to the pipe as well."""
    lines = told.decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line in order["limits"]), "")


def _read(pipe: int) -> bytes:
    """What stands in a pipe now; a program that a test left behind may hold its other end."""
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""


def main(tests: list[str]) -> None:
    """Collect, then answer."""
    orders, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    pytest.main([*OPTIONS, "-s", *tests], plugins=[Judge(orders, answers)])


if __name__ == "__main__":
    main(sys.argv[1:])
