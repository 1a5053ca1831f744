"""Copies of a sampling client: each numbers its requests in a range of its own."""

from __future__ import annotations

import random
import threading

from tinker_api import operations as api

from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import FeatureMissingError, NotFoundError

CLONE_STEP = 1_000_000_000
"""The requests of a copy are numbered from copy × 10⁹ on, as official ones are."""


def new_clone_id() -> int:
    """A number for a copy of a client; drawn at random, since copies cannot ask each other."""
    return random.SystemRandom().randint(1, CLONE_STEP)


class Numbers:
    """Request numbers of one client.

    Args:
        clone_id: Number of the copy; 0 is the original.
    """

    def __init__(self, clone_id: int = 0) -> None:
        self._lock = threading.Lock()
        self.renumber(clone_id)

    def renumber(self, clone_id: int) -> None:
        """Start over in the range of another copy."""
        self.clone_id = clone_id
        self._next = clone_id * CLONE_STEP

    def __call__(self) -> int:
        """The next number; from any thread."""
        with self._lock:
            number = self._next
            self._next += 1
            return number


async def join(holder: Workspace, sampling_session_id: str) -> int | None:
    """Ask the server for the number of a new copy.

    Returns:
        The number; None where the server gives none, so that a random one must do.
    """
    dialect = await holder.server.ready()
    if not dialect.config.sample_join_sampling_session:
        return None
    try:
        reply = await holder.server.call(
            api.JOIN_SAMPLING_SESSION, sampling_session_id=sampling_session_id
        )
    except (FeatureMissingError, NotFoundError):
        return None
    return int(reply.client_counter)
