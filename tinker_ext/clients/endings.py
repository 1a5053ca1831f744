"""How clients end: close, the end of the interpreter, Ctrl-C and SIGTERM, being forgotten."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Generator
from types import FrameType
from typing import Any, Literal, NoReturn

from tinker_ext import forks
from tinker_ext.core.future import AwaitableConcurrentFuture, LightFuture
from tinker_ext.core.loop import LoopThread
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import ClientClosedError

EXIT_SECONDS = 1.2
"""Time to report the end of all sessions when the process ends; under two seconds in all."""

Status = Literal["success", "errored", "interrupted"]

_open: weakref.WeakKeyDictionary[Workspace, int] = weakref.WeakKeyDictionary()
_abandoned: set[LightFuture[None]] = set()
# A signal or a finalizer may come while this thread holds it.
_lock = forks.reentrant_lock()
_handler_set = False
_exit_code: Any = None


class Closing(AwaitableConcurrentFuture[None]):
    """The future of a close; done when the loop thread has ended too, if it was the last user."""

    def __init__(self, workspace: Workspace, status: str, detail: str | None) -> None:
        self._workspace = workspace
        super().__init__(workspace.close(status, detail))

    def result(self, timeout: float | None = None) -> None:
        """Wait until everything has ended."""
        super().result(timeout)
        runtime = self._workspace.runtime
        if isinstance(runtime, LoopThread):
            runtime.join()

    async def result_async(self, timeout: float | None = None) -> None:
        """Async form of `result`."""
        await super().result_async(timeout)
        runtime = self._workspace.runtime
        if isinstance(runtime, LoopThread):
            await asyncio.get_running_loop().run_in_executor(None, runtime.join)

    def __await__(self) -> Generator[Any, None, None]:
        return self.result_async().__await__()


def status_of(error: BaseException | None) -> Status:
    """Why a block ended, from the exception that left it."""
    if isinstance(error, SystemExit):
        return _status_of_code(error.code)
    if error is None:
        return "success"
    return "errored" if isinstance(error, Exception) else "interrupted"


def _status_of_code(code: object) -> Status:
    """What the argument of `sys.exit` says: a number above 0 and a text mean a failure."""
    return "success" if code is None or code == 0 else "errored"


def detail_of(error: BaseException | None) -> str | None:
    """What the server is told about it: its name only, a message may hold what is private."""
    return None if status_of(error) == "success" else type(error).__name__


def abandon(workspace: Workspace) -> None:
    """End a workspace whose client was forgotten: nothing is reported, nothing stays."""
    if not workspace.retire_unused():
        with contextlib.suppress(RuntimeError, ClientClosedError):
            closing = workspace.runtime.submit(workspace.end("success"))
            # Without this the end of the program, which often comes right after, would be faster.
            _abandoned.add(closing)
            closing.add_done_callback(_abandoned.discard)


def end_with(owner: object, workspace: Workspace) -> weakref.finalize[[Workspace], object]:
    """Let a workspace end when its owner is forgotten; the finalizer that does it can be undone."""
    workspace.owner = weakref.ref(owner)
    finalizer = weakref.finalize(owner, abandon, workspace)
    finalizer.atexit = False
    return finalizer


def watch(workspace: Workspace) -> None:
    """Note a workspace, so that the end of the process reports the end of its session."""
    with _lock:
        _open[workspace] = os.getpid()
    _handle_sigterm()
    _remember_exit()


def close_all(status: str, seconds: float = EXIT_SECONDS) -> None:
    """Close every open workspace of this process, waiting at most `seconds` in all."""
    with _lock:
        mine = [w for w, pid in _open.items() if pid == os.getpid() and not w.closed]
        _open.clear()
        closings = list(_abandoned)
    for workspace in mine:
        if workspace.session.session_id is not None and isinstance(workspace.runtime, LoopThread):
            with contextlib.suppress(Exception):
                closings.append(workspace.runtime.submit(workspace.end(status)))
    deadline = time.monotonic() + seconds
    for closing in closings:
        with contextlib.suppress(BaseException):
            closing.result(max(0.0, deadline - time.monotonic()))


def _at_exit() -> None:
    """Report why the interpreter ends, from the exception that ended the main thread."""
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    close_all(_status_of_code(_exit_code) if last is None else status_of(last))


def _remember_exit() -> None:
    """Note what the program gives to `sys.exit`, which nothing else tells when it ends."""
    global _exit_code
    _exit_code = None  # a program that makes a client after an exit has caught that one
    leave = sys.exit
    if getattr(leave, "notes_for_tinker_ext", False):
        return

    @functools.wraps(leave)
    def noting_exit(status: Any = None, /) -> NoReturn:
        global _exit_code
        if threading.current_thread() is threading.main_thread():
            _exit_code = status
        leave(status)

    noting_exit.notes_for_tinker_ext = True  # type: ignore[attr-defined]
    sys.exit = noting_exit


def _handle_sigterm() -> None:
    """Report an interrupted session on SIGTERM, unless the program handles it itself."""
    global _handler_set
    if _handler_set or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _handler_set = True
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    close_all("interrupted")
    os.kill(os.getpid(), number)


def _after_fork() -> None:
    """Forget what threads of the parent were doing; a child does not have them."""
    _abandoned.clear()
    for workspace in list(_open):  # a session that the child opens is its own to end
        _open[workspace] = os.getpid()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
