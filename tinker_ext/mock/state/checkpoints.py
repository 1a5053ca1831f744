"""Saved weights by path, with expiry and publication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinker_ext.mock.clock import Clock, rfc3339
from tinker_ext.mock.messages import HttpError
from tinker_ext.mock.state.records import Checkpoint

KINDS = ("weights", "sampler_weights", "external_weights")
TTL_RANGE = (3600, 10 * 365 * 86400)


def parse_path(path: str) -> tuple[str, str, str]:
    """Split `tinker://run/kind/name`.

    Raises:
        ValueError: The path has another form.
    """
    scheme, _, rest = path.partition("tinker://")
    parts = rest.split("/")
    if scheme or len(parts) != 3 or parts[1] not in KINDS or not parts[2]:
        raise ValueError(
            f"{path!r} is no checkpoint path; expected tinker://<run>/<kind>/<name> with kind "
            f"{', '.join(KINDS)}"
        )
    return parts[0], parts[1], parts[2]


class Checkpoints:
    """All checkpoints of a server.

    Args:
        clock: Calendar for expiry.
        expiring: False never lets a checkpoint expire (a planted bug).
    """

    def __init__(self, clock: Clock, expiring: bool = True) -> None:
        self._clock = clock
        self._expiring = expiring
        self._table: dict[str, Checkpoint] = {}

    def __iter__(self) -> Iterator[Checkpoint]:
        self._sweep()
        return iter(list(self._table.values()))

    def put(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint under its path."""
        self._table[checkpoint.path] = checkpoint

    def find(self, path: str) -> Checkpoint | None:
        """Return the checkpoint at a path, None without one."""
        self._sweep()
        return self._table.get(path)

    def get(self, path: str) -> Checkpoint:
        """Return the checkpoint at a path.

        Raises:
            ValueError: It does not exist; the text says what to check.
        """
        parse_path(path)
        found = self.find(path)
        if found is None:
            raise ValueError(f"no checkpoint at {path}; it was deleted, expired or never saved")
        return found

    def of_run(self, run_id: str) -> list[Checkpoint]:
        """Return the checkpoints of one run, oldest first."""
        return [checkpoint for checkpoint in self if checkpoint.run_id == run_id]

    def remove(self, path: str) -> None:
        """Delete a checkpoint."""
        self._table.pop(path, None)

    def expiry(self, ttl_seconds: int | None) -> float | None:
        """Turn a time to live into the Unix time of its end.

        Raises:
            HttpError: 400 outside one hour … ten years.
        """
        if ttl_seconds is None:
            return None
        low, high = TTL_RANGE
        if not low <= ttl_seconds <= high:
            raise HttpError(400, f"ttl_seconds must lie in {low}…{high}, got {ttl_seconds}")
        return self._clock.unix() + ttl_seconds if self._expiring else None

    def _sweep(self) -> None:
        if not self._expiring:
            return
        now = self._clock.unix()
        dead = [p for p, c in self._table.items() if c.expires is not None and c.expires <= now]
        for path in dead:
            del self._table[path]


def describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the Checkpoint of the REST surface."""
    value: dict[str, Any] = {
        "checkpoint_id": checkpoint.checkpoint_id,
        "checkpoint_type": checkpoint.type,
        "time": rfc3339(checkpoint.created),
        "tinker_path": checkpoint.path,
        "size_bytes": checkpoint.size,
        "public": checkpoint.public,
    }
    if checkpoint.user_metadata is not None:
        value["user_metadata"] = checkpoint.user_metadata
    if checkpoint.expires is not None:
        value["expires_at"] = rfc3339(checkpoint.expires)
    return value
