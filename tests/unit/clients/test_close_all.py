"""Which clients the end of a process closes, how they are told why, and how long that takes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tinker_ext.clients import endings
from tinker_ext.core.future import LightFuture
from tinker_ext.core.loop import LoopThread


class Loop(LoopThread):
    """Runs nothing: notes what it is to run."""

    def __init__(self, fails: bool = False) -> None:
        self.waited: list[float] = []
        self.fails = fails

    def submit(self, coro: Any) -> Any:
        if self.fails:
            raise RuntimeError("no loop")
        made: LightFuture[None] = LightFuture()
        made.settle(None)
        made.result = self.waited.append  # type: ignore[method-assign,assignment]
        return made


class Client:
    """A workspace, as far as its end is concerned."""

    def __init__(self, session: str | None = "S", *, closed: bool = False, loop: Any = None):
        self.session = SimpleNamespace(session_id=session)
        self.closed, self.ended = closed, []
        self.runtime = Loop() if loop is None else loop

    def end(self, status: str) -> None:
        self.ended.append(status)


@pytest.fixture
def opened(monkeypatch):
    """No client but those of the test."""
    table: Any = weakref.WeakKeyDictionary()
    monkeypatch.setattr(endings, "_open", table)
    monkeypatch.setattr(endings, "_abandoned", set())
    return table


@pytest.mark.parametrize(
    ("client", "mine", "ended"),
    [
        (Client(), True, ["errored"]),
        (Client(closed=True), True, []),
        (Client(), False, []),  # the session of another process is that one's to end
        (Client(None), True, []),  # nothing was opened
        (Client(loop=SimpleNamespace()), True, []),  # its loop is the caller's
    ],
)
def test_open_sessions_of_this_process_are_ended(opened, client, mine, ended):
    """M21: with the reason that the program ends for; nothing is closed twice."""
    opened[client] = os.getpid() if mine else os.getpid() + 1
    endings.close_all("errored")
    assert client.ended == ended
    assert len(opened) == 0
    endings.close_all("errored")
    assert client.ended == ended


def test_the_end_takes_little_more_than_a_second(opened, monkeypatch):
    """M21: for all together, those included that were forgotten before; a broken one costs none."""
    clock = iter([100.0, 100.0, 100.5, 101.0, 105.0])
    monkeypatch.setattr(endings.time, "monotonic", lambda: next(clock))
    loop = Loop()
    forgotten = loop.submit(None)
    endings._abandoned.add(forgotten)
    clients = [
        Client(loop=loop),
        Client(loop=Loop(fails=True)),
        Client(loop=loop),
        Client(loop=loop),
    ]
    for client in clients:
        opened[client] = os.getpid()
    endings.close_all("success")
    assert loop.waited == pytest.approx([1.2, 0.7, 0.2, 0.0])


def test_a_forgotten_client_is_kept_until_it_has_ended(opened):
    """M21: the end of the program waits for it, and not for those that have ended."""
    closing = LightFuture()
    runtime = SimpleNamespace(submit=lambda _: closing)
    client = SimpleNamespace(runtime=runtime, end=lambda _: None, retire_unused=lambda: False)
    endings.abandon(client)
    assert endings._abandoned == {closing}
    closing.settle(None)
    assert endings._abandoned == set()
    client.retire_unused = lambda: True  # it was never used
    runtime.submit = None
    endings.abandon(client)
    assert endings._abandoned == set()


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (None, "success", None),
        (SystemExit(), "success", None),
        (SystemExit(0), "success", None),
        (SystemExit(2), "errored", "SystemExit"),
        (SystemExit("no"), "errored", "SystemExit"),
        (ValueError("secret"), "errored", "ValueError"),
        (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
    ],
)
def test_why_a_block_ended(error, status, detail):
    """M21 M33: the name of the error, never its text."""
    assert endings.status_of(error) == status
    assert endings.detail_of(error) == detail


def test_sigterm_ends_sessions_as_interrupted_and_then_the_process(monkeypatch):
    """M21: the signal does what it would have done, once the server knows why."""
    done: list[Any] = []
    monkeypatch.setattr(endings.signal, "signal", lambda *given: done.append(("handler", *given)))
    monkeypatch.setattr(endings, "close_all", lambda status: done.append(("close", status)))
    monkeypatch.setattr(endings.os, "kill", lambda *given: done.append(("kill", *given)))
    endings._on_sigterm(signal.SIGTERM, None)
    assert done == [
        ("handler", signal.SIGTERM, signal.SIG_DFL),
        ("close", "interrupted"),
        ("kill", os.getpid(), signal.SIGTERM),
    ]


@pytest.mark.parametrize(
    ("last", "code", "status"),
    [
        (None, None, "success"),
        (None, 0, "success"),
        (None, 3, "errored"),
        (ValueError("x"), None, "errored"),
        (KeyboardInterrupt(), 0, "interrupted"),
    ],
)
def test_the_end_of_the_interpreter_says_why(monkeypatch, last, code, status):
    """M21: from the exception that ended the main thread, else from what `sys.exit` was given."""
    told: list[str] = []
    monkeypatch.setattr(endings, "close_all", told.append)
    monkeypatch.setattr(endings, "_exit_code", code)
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(sys, name, raising=False)
    if last is not None:
        monkeypatch.setattr(sys, "last_value", last, raising=False)
    endings._at_exit()
    assert told == [status]


@pytest.mark.parametrize(
    ("handler", "main", "takes", "handled"),
    [
        (signal.SIG_DFL, True, True, 1),
        (signal.SIG_IGN, True, True, 0),
        (print, True, True, 0),  # the program's own
        (signal.SIG_DFL, False, True, 0),  # Python sets handlers on its main thread only
        (signal.SIG_DFL, True, False, 0),  # nor in an interpreter within the process
    ],
)
def test_sigterm_is_handled_once_and_only_where_nobody_does(
    opened, monkeypatch, handler, main, takes, handled
):
    """M21: whoever handles it decides how the program ends."""
    done: list[Any] = []

    def handle(*given: Any) -> None:
        if not takes:
            raise ValueError("signal only works in main thread of the main interpreter")
        done.append(given)

    monkeypatch.setattr(endings.signal, "getsignal", lambda _: handler)
    monkeypatch.setattr(endings.signal, "signal", handle)
    monkeypatch.setattr(endings, "_handler_set", False)
    monkeypatch.setattr(sys, "exit", sys.exit)
    clients = [Client(), Client()]
    for client in clients:
        if main:
            endings.watch(client)
        else:
            beside = threading.Thread(target=endings.watch, args=[client])
            beside.start()
            beside.join()
    assert done == [(signal.SIGTERM, endings._on_sigterm)] * handled
    assert dict(opened) == dict.fromkeys(clients, os.getpid())


def test_what_the_main_thread_gives_to_exit_is_remembered(opened, monkeypatch):
    """M21: once, however many clients there are; a thread that leaves ends nothing."""
    real = sys.exit
    monkeypatch.setattr(sys, "exit", real)
    monkeypatch.setattr(endings, "_handler_set", True)
    monkeypatch.setattr(endings, "_exit_code", None)
    if hasattr(real, "__wrapped__"):  # by an earlier test
        monkeypatch.setattr(sys, "exit", real.__wrapped__)
    endings.watch(Client())
    noting = sys.exit
    with pytest.raises(SystemExit) as caught:
        sys.exit(3)
    assert (caught.value.code, endings._exit_code) == (3, 3)
    endings.watch(Client())
    assert (sys.exit, endings._exit_code) == (noting, None)

    def leave() -> None:
        with pytest.raises(SystemExit):
            sys.exit(4)

    beside = threading.Thread(target=leave)
    beside.start()
    beside.join()
    assert endings._exit_code is None


def test_a_forked_child_waits_for_no_client_that_its_parent_has_forgotten(opened):
    """F19: the threads that end them are not there; a session that it opens is its own to end."""
    client = Client()
    opened[client] = os.getpid() + 1
    endings._abandoned.add(LightFuture())
    endings._after_fork()
    assert endings._abandoned == set()
    assert dict(opened) == {client: os.getpid()}
