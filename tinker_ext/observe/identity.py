"""Who reports: one id per process, a new one in a forked child."""

from __future__ import annotations

import os
import platform
import uuid

import attrs


@attrs.frozen(eq=False)
class Process:
    """This process as telemetry names it; compared by identity, to notice a fork."""

    uuid: str = attrs.field(factory=lambda: str(uuid.uuid4()))


_current = Process()


def current() -> Process:
    """The identity of the running process."""
    return _current


def platform_name() -> str:
    """The operating system, for example `Linux`."""
    return platform.system() or "unknown"


def _after_fork() -> None:
    global _current
    _current = Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
