"""What the server saw and did, for tests to query: requests as they came, effects as they took."""

from __future__ import annotations

import base64
import threading
from collections import Counter, defaultdict, deque
from fnmatch import fnmatchcase
from typing import Any

import attrs
import orjson


@attrs.define
class Entry:
    """One HTTP request and its answer.

    Attributes:
        n: Running number.
        time: Monotonic seconds of the server's clock.
        status: Status answered; 0 when the connection was cut.
        faults: Kinds of the faults applied.
        body: Bytes of the request after decompression; empty for a body the log has no room for.
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
    body: bytes = attrs.field(default=b"", repr=False)

    @property
    def json(self) -> Any:
        """What was sent, decoded; None for a body that is not JSON (or not kept)."""
        try:
            return orjson.loads(self.body)
        except ValueError:
            return None

    def to_record(self) -> dict[str, Any]:
        """Return the entry as JSON; a protobuf body as base64 under `body_base64`."""
        record = attrs.asdict(self)
        body = record.pop("body")
        value = self.json
        if value is not None:
            record["json"] = value
        elif body:
            record["body_base64"] = base64.b64encode(body).decode()
        return record


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

    def __init__(self, size: int, body_bytes: int = 16 << 20) -> None:
        self._body_bytes = self._room = body_bytes
        self._with_body: deque[Entry] = deque()
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
        body: bytes = b"",
    ) -> None:
        """Remember a request; its body as long as there is room, the newest first."""
        with self.lock:
            self._n += 1
            self.counts[short(path)] += 1
            kept = body if len(body) <= self._body_bytes else b""
            entry = Entry(self._n, time, method, path, status, *sizes, faults, headers or {}, kept)
            if self._entries and len(self._entries) == self._entries.maxlen:
                self._forget_body(self._entries[0])
            self._entries.append(entry)
            if kept:
                self._room -= len(kept)
                self._with_body.append(entry)
            while self._room < 0 or (self._with_body and not self._with_body[0].body):
                self._forget_body(self._with_body.popleft())

    def _forget_body(self, entry: Entry) -> None:
        self._room += len(entry.body)
        entry.body = b""

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
            self._with_body.clear()
            self._room = self._body_bytes
            self.counts.clear()
            self.violations.clear()
