"""Servers across a fork: held still while the process is copied, so that the child's copy works."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

PATIENCE = 5.0
"""Seconds to wait for the job and the requests under way; a hung one must not stop the fork."""

_lock = threading.Lock()
_held: list[Any] = []


class Forkable(Protocol):
    """What can be held still."""

    def locks(self) -> Iterable[Any]:
        """Every lock, in the order in which they are taken."""

    def after_fork(self) -> None:
        """Forget threads and loops of the parent; called in the child, with all locks free."""


_servers: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(server: Forkable) -> None:
    """Hold a server still whenever this process forks."""
    with _lock:
        _servers.add(server)


def _before() -> None:
    # Without this a child could copy weights that a job had half written.
    _held.extend(lock for lock in _locks() if lock.acquire(timeout=PATIENCE))


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    _held.clear()
    for lock in _locks():
        # The standard library's own way; also frees what a thread held that is not here.
        lock._at_fork_reinit()
    for server in list(_servers):
        server.after_fork()


def _locks() -> list[Any]:
    return [_lock, *(lock for server in list(_servers) for lock in server.locks())]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
