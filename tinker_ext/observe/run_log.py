"""The run log as an observer: calls and steps become lines of `metrics.jsonl`."""

from __future__ import annotations

import asyncio

import attrs

from tinker_ext import forks
from tinker_ext._transport.events import (
    Event,
    OperationFinished,
    OperationStarted,
    QueueStateSeen,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
    SessionEnded,
    SessionStarted,
)
from tinker_ext._version import __version__
from tinker_ext.observe.waits import Waits
from tinker_ext.runlog import VERSION, Ledger, RunLog, Tokens, last_steps


@attrs.define
class _Model:
    """One model: its calls in the order they were made, and what came since its last step.

    A large result may be read after that of a later, smaller call; steps count calls in order.
    """

    step: int
    began: float
    calls: dict[int, OperationFinished | None] = attrs.field(factory=dict)
    tokens: Tokens = attrs.field(factory=Tokens)
    loss: float | None = None
    trained: int = 0
    metrics: dict[str, float] = attrs.field(factory=dict)

    def in_order(self) -> list[OperationFinished]:
        """Take the calls that have ended and have no earlier call under way."""
        ended = []
        for event in self.calls.values():
            if event is None:
                break
            ended.append(event)
        for event in ended:
            del self.calls[event.number]
        return ended

    def add(self, event: OperationFinished) -> None:
        """Count a call towards the next step."""
        self.tokens += event.tokens
        if event.operation == "forward_backward" and event.failure is None:
            if event.loss is not None:
                self.loss = (self.loss or 0.0) + event.loss
                self.trained += event.trained or 0
            self.metrics.update(event.metrics)


class RunLogObserver:
    """Writes what a client does; the schema is that of `tinker_ext.runlog`.

    Args:
        run_log: Where to.
        ledger: Its totals are written with every step.
        waits: Writes what calls wait for.
    """

    def __init__(self, run_log: RunLog, ledger: Ledger, waits: Waits) -> None:
        self._log = run_log
        self._ledger = ledger
        self._clock = waits.clock
        self._waits = waits
        self._lock = forks.lock()
        self._session_id: str | None = None
        self._steps = last_steps(run_log.path)
        self._models: dict[str, _Model] = {}
        self._states: dict[str, str] = {}

    def notice(self, event: Event) -> None:
        """Write the event when it belongs into the log."""
        if isinstance(event, RequestStarted | RequestFinished):
            self._waits.request(event)
        elif isinstance(event, RetryScheduled):
            self._retry(event)
        elif isinstance(event, OperationStarted):
            self._started(event)
        elif isinstance(event, OperationFinished):
            self._finished(event)
        elif isinstance(event, QueueStateSeen):
            self._queue(event)
        elif isinstance(event, SessionStarted):
            self._session_id = self._waits.session_id = event.session_id
            self._log.write(
                "session_start",
                session=event.session_id,
                version=VERSION,
                client=__version__,
                **self._ledger.terms(),
            )
        elif isinstance(event, SessionEnded):
            self._waits.flush()
            self._log.write(
                "session_end",
                session=event.session_id,
                seconds=round(event.seconds, 6),
                status=event.status,
                totals=self._ledger.totals(),
            )

    def _started(self, event: OperationStarted) -> None:
        if event.operation != "asample":
            with self._lock:
                model = self._models.get(event.target)
                if model is None:
                    step = self._steps.get(event.target, 0)
                    model = self._models[event.target] = _Model(step, self._clock())
                model.calls[event.number] = None
        self._log.write(
            "start",
            session=self._session_id,
            number=event.number,
            operation=event.operation,
            target=event.target,
            model=event.model,
        )
        self._waits.started(event)

    def _finished(self, event: OperationFinished) -> None:
        self._states.pop(event.request_id or "", None)
        self._waits.finished(event)
        self._log.write(
            "operation",
            session=self._session_id,
            number=event.number,
            operation=event.operation,
            target=event.target,
            model=event.model,
            seconds=round(event.seconds, 6),
            tokens_in=event.tokens_in,
            tokens_out=event.tokens_out,
            tokens=event.tokens.to_dict(),
            datums=event.datums,
            loss=event.loss,
            loss_per_token=_per_token(event.loss, event.trained),
            metrics=event.metrics,
            request_id=event.request_id,
            seq_id=event.seq_id,
            attempts=event.attempts,
            retries=event.retries,
            effect=event.effect,
            error=event.error,
        )
        with self._lock:
            model = self._models.get(event.target)
            if model is None or event.number not in model.calls:
                return
            model.calls[event.number] = event
            for each in model.in_order():
                model.add(each)
                if each.operation == "optim_step" and each.failure is None:
                    self._step(each, model)

    def _step(self, event: OperationFinished, model: _Model) -> None:
        model.step += 1
        now = self._clock()
        self._log.write(
            "step",
            session=self._session_id,
            step=model.step,
            target=event.target,
            model=event.model,
            loss=model.loss,
            loss_per_token=_per_token(model.loss, model.trained),
            metrics={**model.metrics, **event.metrics},
            tokens=model.tokens.to_dict(),
            seconds=round(now - model.began, 6),
            totals=self._ledger.totals(),
        )
        model.began, model.tokens, model.metrics = now, Tokens(), {}
        model.loss, model.trained = None, 0

    def _retry(self, event: RetryScheduled) -> None:
        self._waits.retried(event)
        self._log.write(
            "retry",
            session=self._session_id,
            number=event.number,
            operation=event.operation,
            lane=event.lane.value,
            attempt=event.attempt,
            reason=event.reason,
            delay=round(event.delay, 6),
            source=event.source,
        )

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
        self._waits.close()
        if self._log.closes_slowly:
            await asyncio.to_thread(self._log.close)
        else:
            self._log.close()


def _per_token(loss: float | None, trained: int | None) -> float | None:
    return loss / trained if loss is not None and trained else None
