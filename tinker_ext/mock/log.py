"""What the server saw and did, for tests to query: requests as they came, effects as they took."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from fnmatch import fnmatchcase

import attrs


@attrs.frozen
class Entry:
    """One HTTP request and its answer.

    Attributes:
        n: Running number.
        time: Monotonic seconds of the server's clock.
        status: Status answered; 0 when the connection was cut.
        faults: Kinds of the faults applied.
    """

    n: int
    time: float
    method: str
    path: str
    status: int
    request_bytes: int
    response_bytes: int
    faults: tuple[str, ...] = ()
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)


@attrs.define
class Effect:
    """One training operation that took effect.

    Attributes:
        order: Position among the effects of its model, from 0.
        seq: The client's seq_id, None when it gave none.
        op: Operation name.
        body_hash: Digest of the request body.
        attempts: How many requests carried this seq_id so far.
        error: Message when the operation failed.
    """

    order: int
    model_id: str
    seq: int | None
    op: str
    request_id: str
    body_hash: str
    attempts: int = 1
    error: str | None = None


def short(path: str) -> str:
    """Cut everything up to and including `/api/v1/`."""
    _, found, rest = path.partition("/api/v1/")
    return rest if found else path.lstrip("/")


def matches(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern such as `optim_step`, `sessions/*` or a full path."""
    return fnmatchcase(short(path), short(pattern)) or fnmatchcase(path, pattern)


class RequestLog:
    """Bounded memory of requests and complete memory of effects."""

    def __init__(self, size: int) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._effects: dict[str, list[Effect]] = defaultdict(list)
        self.lock = threading.Lock()
        self._n = 0
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def record(
        self,
        time: float,
        method: str,
        path: str,
        status: int,
        sizes: tuple[int, int],
        faults: tuple[str, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        """Remember a request."""
        with self.lock:
            self._n += 1
            self.counts[short(path)] += 1
            self._entries.append(
                Entry(self._n, time, method, path, status, *sizes, faults, headers or {})
            )

    def effect(
        self,
        model_id: str,
        seq: int | None,
        op: str,
        request_id: str,
        body_hash: str,
        error: str | None = None,
    ) -> None:
        """Remember that a training operation took effect."""
        with self.lock:
            effects = self._effects[model_id]
            effects.append(Effect(len(effects), model_id, seq, op, request_id, body_hash, 1, error))

    def repeated(self, model_id: str, request_id: str) -> None:
        """Count one more request for an effect that is there or under way."""
        with self.lock:
            for effect in reversed(self._effects[model_id]):
                if effect.request_id == request_id:
                    effect.attempts += 1
                    return

    def violation(self, text: str) -> None:
        """Remember a reply that does not fit the document."""
        with self.lock:
            self.violations.append(text)

    def requests(
        self,
        path: str | None = None,
        *,
        method: str | None = None,
        status: int | None = None,
        fault: str | None = None,
    ) -> list[Entry]:
        """Return matching requests in order of their answers.

        Args:
            path: Pattern such as `optim_step`, `sessions/*` or a full path.
            method: HTTP method.
            status: Status answered (0: connection cut).
            fault: Kind of a fault that was applied.
        """
        with self.lock:
            entries = list(self._entries)
        return [
            entry
            for entry in entries
            if (path is None or matches(entry.path, path))
            and method in (None, entry.method)
            and status in (None, entry.status)
            and (fault is None or fault in entry.faults)
        ]

    def training(self, model_id: str | None = None) -> list[Effect]:
        """Return the training operations that took effect, in order.

        Args:
            model_id: One model; None returns those of all models.
        """
        with self.lock:
            if model_id is not None:
                return list(self._effects.get(model_id, ()))
            return [effect for effects in self._effects.values() for effect in effects]

    def clear(self) -> None:
        """Forget requests and violations; effects stay."""
        with self.lock:
            self._entries.clear()
            self.counts.clear()
            self.violations.clear()
