"""What a run log says about a run right now: its last steps, what waits, and what it has used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs

KEPT = 400
"""Losses kept for the curve, and the most steps a rate is taken over."""


@attrs.define
class Pending:
    """A call that has not ended.

    Attributes:
        operation: For example `forward_backward`.
        target: Model or sampler it works on.
        since: Unix time of the call.
        state: Queue state the server reported; `active` when it reported none.
        reason: Why the server holds it back, in its words.
    """

    operation: str
    target: str
    since: float
    state: str = "active"
    reason: str | None = None


@attrs.define
class Snapshot:
    """A run log read so far; feed it new lines with `add`.

    Attributes:
        session: Id of the last session.
        ended: How the session ended, None while it runs.
        step: Number of the last step.
        target: Model of the last step.
        model: Base model, where it is known.
        losses: Loss of the last steps.
        per_token: Whether that is the loss per token, or a sum over the batch.
        metrics: Metrics of the last step.
        tokens: Tokens trained, prefilled and sampled in all.
        cost: What they cost; None without prices.
        seconds_per_step: Mean over the last steps.
        tokens_per_second: Trained tokens over the last steps.
        operations: How many operations of each name have ended.
        errors: How many of them failed, by the name of the error.
        pending: Calls that have not ended, oldest first, by session and number.
        updated: Unix time of the last line.
    """

    session: str | None = None
    ended: str | None = None
    step: int = 0
    target: str | None = None
    model: str | None = None
    losses: list[float] = attrs.field(factory=list)
    per_token: bool = True
    metrics: dict[str, Any] = attrs.field(factory=dict)
    tokens: dict[str, Any] = attrs.field(factory=dict)
    cost: float | None = None
    seconds_per_step: float | None = None
    tokens_per_second: float | None = None
    operations: dict[str, int] = attrs.field(factory=dict)
    errors: dict[str, int] = attrs.field(factory=dict)
    pending: dict[tuple[Any, Any], Pending] = attrs.field(factory=dict)
    updated: float | None = None
    _spans: list[tuple[float, float]] = attrs.field(factory=list)

    def add(self, records: Iterable[Mapping[str, Any]]) -> list[int]:
        """Take in lines of the log; return the numbers of the steps among them."""
        steps: list[int] = []
        for record in records:
            with suppress(*_ODD):
                self._add(record, steps)
        return steps

    def _add(self, record: Mapping[str, Any], steps: list[int]) -> None:
        self.updated = _number(record.get("time")) or self.updated
        self.session = _text(record.get("session")) or self.session
        kind = record.get("type")
        if kind == "session_start":
            self.ended = None
        elif kind == "session_end":
            self.ended = str(record.get("status") or "ended")
            self.pending.clear()
            self._totals(record.get("totals"))
        elif kind == "start":
            self._start(record)
        elif kind == "operation":
            self._operation(record)
        elif kind == "queue":
            self._queue(record)
        elif kind == "step":
            self._step(record)
            steps.append(self.step)

    def _start(self, record: Mapping[str, Any]) -> None:
        self.pending[record.get("session"), record.get("number")] = Pending(
            str(record.get("operation")),
            str(record.get("target") or ""),
            _number(record.get("time")) or 0.0,
        )

    def _operation(self, record: Mapping[str, Any]) -> None:
        name = str(record.get("operation"))
        self.operations[name] = self.operations.get(name, 0) + 1
        # A call that opened the session began before the session had an id.
        for session in (record.get("session"), None):
            self.pending.pop((session, record.get("number")), None)
        if record.get("error"):
            error = str(record["error"])
            self.errors[error] = self.errors.get(error, 0) + 1

    def _queue(self, record: Mapping[str, Any]) -> None:
        what = (record.get("operation"), record.get("target"))
        for item in self.pending.values():
            if (item.operation, item.target) == what:
                item.state, item.reason = str(record.get("state")), _text(record.get("reason"))
                return
        self.pending[record.get("session"), record.get("request_id")] = Pending(
            str(what[0]),
            str(what[1] or ""),
            _number(record.get("time")) or 0.0,
            str(record.get("state")),
            _text(record.get("reason")),
        )

    @property
    def first_loss(self) -> int:
        """The step of the first loss that is kept."""
        return max(self.step - len(self.losses) + 1, 1)

    @property
    def held_back(self) -> list[Pending]:
        """The calls the server holds back."""
        return [item for item in self.pending.values() if item.state != "active"]

    def _step(self, record: Mapping[str, Any]) -> None:
        self.step = int(_number(record.get("step")) or self.step + 1)
        self.target = _text(record.get("target")) or self.target
        self.model = _text(record.get("model")) or self.model
        self.metrics = dict(record.get("metrics") or {})
        # A log of an older version has the sum only.
        per_token = _number(record.get("loss_per_token"))
        self.per_token = per_token is not None
        loss = per_token if self.per_token else _number(record.get("loss"))
        if loss is not None:
            self.losses = [*self.losses[1 - KEPT :], loss]
        trained = _number((record.get("tokens") or {}).get("train")) or 0.0
        seconds = _number(record.get("seconds"))
        if seconds is not None:
            self._spans = [*self._spans[-19:], (seconds, trained)]
            total = sum(span for span, _ in self._spans)
            self.seconds_per_step = total / len(self._spans)
            done = sum(count for _, count in self._spans)
            self.tokens_per_second = done / total if total else None
        self._totals(record.get("totals"))

    def _totals(self, totals: Mapping[str, Any] | None) -> None:
        if totals:
            self.tokens = {key: value for key, value in totals.items() if key != "cost"}
            self.cost = _number(totals.get("cost"))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        hidden = ("_spans", "pending")
        values = {
            field.name: getattr(self, field.name)
            for field in attrs.fields(type(self))
            if field.name not in hidden
        }
        return values | {"pending": [attrs.asdict(item) for item in self.pending.values()]}


_ODD = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""What a line raises that is not as it should be; it costs itself only."""


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
