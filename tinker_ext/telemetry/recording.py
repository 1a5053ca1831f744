"""The run log as an observer: operations and steps become lines of `metrics.jsonl`."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tinker_ext._transport.observe import (
    Event,
    OperationFinished,
    QueueStateSeen,
    SessionEnded,
    SessionStarted,
)
from tinker_ext.runlog import Ledger, RunLog, Tokens, last_steps


@attrs.define
class _SinceStep:
    """What a model has done since its last step."""

    began: float
    tokens: Tokens = attrs.field(factory=Tokens)
    loss: float | None = None
    metrics: dict[str, float] = attrs.field(factory=dict)


class Recorder:
    """Writes what a client does; the schema is that of `tinker_ext.runlog`.

    Args:
        run_log: Where to.
        ledger: Its totals are written with every step.
        clock: Loop time.
    """

    def __init__(self, run_log: RunLog, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._log = run_log
        self._ledger = ledger
        self._clock = clock
        self._session_id: str | None = None
        self._steps = last_steps(run_log.path)
        self._open: dict[str, _SinceStep] = {}
        self._states: dict[str, str] = {}

    def notice(self, event: Event) -> None:
        """Write the event when it belongs into the log."""
        if isinstance(event, OperationFinished):
            self._operation(event)
        elif isinstance(event, QueueStateSeen):
            self._queue(event)
        elif isinstance(event, SessionStarted):
            self._session_id = event.session_id
            self._log.write("session_start", session=event.session_id)
        elif isinstance(event, SessionEnded):
            self._log.write(
                "session_end",
                session=event.session_id,
                seconds=round(event.seconds, 6),
                status=event.status,
                totals=self._ledger.totals(),
            )

    def _operation(self, event: OperationFinished) -> None:
        self._states.pop(event.request_id or "", None)
        self._log.write(
            "operation",
            session=self._session_id,
            operation=event.operation,
            target=event.target,
            model=event.model,
            seconds=round(event.seconds, 6),
            tokens_in=event.tokens_in,
            tokens_out=event.tokens_out,
            tokens=event.tokens.to_dict(),
            datums=event.datums,
            loss=event.loss,
            metrics=event.metrics,
            request_id=event.request_id,
            seq_id=event.seq_id,
            attempts=event.attempts,
            error=event.error,
        )
        since = self._open.get(event.target)
        if since is None:
            since = self._open[event.target] = _SinceStep(self._clock() - event.seconds)
        since.tokens += event.tokens
        if event.failure is not None:
            return
        if event.operation == "forward_backward":
            if event.loss is not None:
                since.loss = (since.loss or 0.0) + event.loss
            since.metrics.update(event.metrics)
        elif event.operation == "optim_step":
            self._step(event, since)

    def _step(self, event: OperationFinished, since: _SinceStep) -> None:
        number = self._steps[event.target] = self._steps.get(event.target, 0) + 1
        now = self._clock()
        self._log.write(
            "step",
            session=self._session_id,
            step=number,
            target=event.target,
            model=event.model,
            loss=since.loss,
            metrics={**since.metrics, **event.metrics},
            tokens=since.tokens.to_dict(),
            seconds=round(now - since.began, 6),
            totals=self._ledger.totals(),
        )
        self._open[event.target] = _SinceStep(now)

    def _queue(self, event: QueueStateSeen) -> None:
        if event.state == "active":
            self._states.pop(event.request_id, None)
        elif self._states.get(event.request_id) != event.state:
            self._states[event.request_id] = event.state
            self._log.write(
                "queue",
                session=self._session_id,
                operation=event.operation,
                target=event.target,
                state=event.state,
                reason=event.reason,
                request_id=event.request_id,
            )

    async def aclose(self) -> None:
        """Close the file."""
        self._log.close()
