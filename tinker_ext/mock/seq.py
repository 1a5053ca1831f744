"""Order and repetition of one model's operations, by seq_id, under the five server profiles."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from tinker_ext.mock.messages import HttpError

T = TypeVar("T")


@attrs.define
class Seen:
    """The first request that used a number, and how many arrived since."""

    digest: str
    request_id: str
    attempts: int = 1


class Sequencer(Generic[T]):
    """Decide for each arriving operation: new, a repeat, a conflict, or too early.

    Operations run in the order of their numbers whatever the order of arrival, since clients post
    the chunks of one call in parallel, the first chunk last.

    Args:
        profile: `dedupe`, `strict`, `ignore`, `gap` or `late`.
        any_body: Accept a repeat with another body (a planted bug).
    """

    def __init__(self, profile: str, *, any_body: bool = False) -> None:
        self.profile = profile
        self.any_body = any_body
        self.expected = 1
        self.seen: dict[int, Seen] = {}
        self.kept: set[int] = set()
        """Numbers of operations that a `late` server refused before it was their turn."""
        self._held: dict[int, list[T]] = {}

    def knows(self, seq: int | None) -> bool:
        """Whether a number was used before."""
        return seq is not None and seq in self.seen

    def late_conflict(self, seq: int | None) -> str | None:
        """Return why a `late` server refuses an accepted operation when it is polled."""
        if seq is None or self.profile != "late":
            return None
        seen = self.seen.get(seq)
        if seen is not None:
            seen.attempts += 1
        elif not (seq > self.expected and self.expected in self.kept):
            return None
        return f"Sequence conflict: expected {self.expected}, got {seq}."

    def repeat(self, seq: int | None, digest: str) -> str | None:
        """Return the request id a repeated operation stands for, None when it is to run.

        Raises:
            HttpError: 409, by the profile's rule.
        """
        seen = self.seen.get(seq) if seq is not None else None
        if seen is None or seq is None:
            return None
        seen.attempts += 1
        if self.profile == "ignore":
            return None
        if self.profile == "strict":
            raise HttpError(409, f"seq_id {seq} was already used by request {seen.request_id}")
        if seen.digest != digest and not self.any_body:
            raise HttpError(
                409,
                f"seq_id {seq} was already used by request {seen.request_id} with another body",
            )
        return seen.request_id

    def accept(self, seq: int | None, digest: str, request_id: str, operation: T) -> list[T]:
        """Take in an operation and return those that may run now, in order."""
        if seq is None:
            return [operation]
        self.seen.setdefault(seq, Seen(digest, request_id))
        if seq > self.expected:
            self._held.setdefault(seq, []).append(operation)
            return []
        ready = [operation]
        if seq == self.expected:
            self.expected += 1
            ready += self._drain()
        return ready

    def missing(self) -> int | None:
        """Return the number held operations wait for, None when nothing is held."""
        return self.expected if self._held else None

    def skip(self) -> list[T]:
        """Stop waiting for the missing number and return what may run now."""
        if not self._held:
            return []
        self.expected = min(self._held)
        return self._drain()

    def attempts(self, seq: int | None) -> int:
        """Count the requests that used a number."""
        seen = self.seen.get(seq) if seq is not None else None
        return seen.attempts if seen else 1

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps; held operations are replayed from the journal."""
        return {
            "expected": self.expected,
            "seen": {str(n): attrs.astuple(s) for n, s in self.seen.items()},
            "kept": sorted(self.kept),
        }

    def restore(self, record: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.expected = record["expected"]
        self.seen = {int(n): Seen(*s) for n, s in record["seen"].items()}
        self.kept = set(record.get("kept", ()))

    def _drain(self) -> list[T]:
        ready: list[T] = []
        while (batch := self._held.pop(self.expected, None)) is not None:
            ready += batch
            self.expected += 1
        return ready
