"""How long an operation may take: the configured time, or what `deadline(seconds)` says here."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_override: contextvars.ContextVar[float | None] = contextvars.ContextVar(
    "tinker_ext_deadline", default=None
)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Give every operation started inside the block this many seconds.

    Args:
        seconds: Time from the call to the result. It replaces `Config.operation_deadline`.

    Example:
        >>> with deadline(30.0):
        ...     allowed_seconds(7200.0)
        30.0
    """
    if not seconds > 0:
        raise ValueError(f"deadline must be more than 0 seconds, got {seconds!r}")
    token = _override.set(float(seconds))
    try:
        yield
    finally:
        _override.reset(token)


def chosen_seconds() -> float | None:
    """What `deadline(seconds)` says here; None outside of it."""
    return _override.get()


def allowed_seconds(configured: float) -> float:
    """Seconds an operation started now may take, given the configured value."""
    seconds = _override.get()
    return configured if seconds is None else seconds
