"""What belongs to one process: a forked child renews it, and a pickle cannot carry it."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from pathlib import Path
from typing import Any, Protocol, Self

from tinker_ext.errors import WrongTypeError

log = logging.getLogger("tinker_ext")


class Forkable(Protocol):
    """Something that a forked child cannot use as it was copied."""

    def after_fork(self) -> None:
        """Forget the parent's threads, loops and work; in the child, before it does anything."""


class OfThisProcess:
    """Something with connections or threads behind it: a copy of it is itself, a pickle an error.

    Attributes:
        elsewhere: What to do in another process instead.
    """

    elsewhere = "Make a client of its own there."

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise WrongTypeError(
            f"A {type(self).__name__} belongs to its process and cannot be pickled. "
            f"{self.elsewhere}"
        )


def own(fd: int) -> bool:
    """Take a file for this process, if nobody has it; the system gives it back when that ends."""
    try:
        import fcntl
    except ImportError:  # not on this system: two processes must then not share a file
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_name(fd: int, path: Path) -> bool:
    """Whether an open file still is the one of that name."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_registered: dict[int, weakref.ref[Any]] = {}


def lock() -> threading.Lock:
    """A `threading.Lock` that is free in a forked child, whoever held it in the parent."""
    made = threading.Lock()
    _locks.add(made)
    return made


def reentrant_lock() -> threading.RLock:
    """The same as a `threading.RLock`."""
    made = threading.RLock()
    _locks.add(made)
    return made


def fork_lock() -> threading.RLock:
    """A `threading.RLock` that a fork waits for: no child is made while another thread holds it."""
    made = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=made.acquire, after_in_parent=made.release, after_in_child=made.release
        )
    return made


def register(thing: Forkable) -> None:
    """Call `thing.after_fork()` in every forked child, in the order of registration."""
    key = id(thing)  # a weak set has no order, and needs a hash
    _registered[key] = weakref.ref(thing, lambda _: _registered.pop(key, None))


def _in_child() -> None:
    for held in list(_locks):
        # The standard library's own way: logging and threading renew their locks with it.
        held._at_fork_reinit()
    for reference in list(_registered.values()):
        thing = reference()
        if thing is not None:
            try:
                thing.after_fork()
            except Exception:
                log.exception("%s could not be renewed after a fork.", type(thing).__name__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
