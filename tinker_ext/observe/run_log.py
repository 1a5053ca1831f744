"""The run log as an observer: calls, steps and what is waited for become lines of `metrics.jsonl`.

Each moment counts once, for what the oldest pending call is doing; without one it is the program's
own. Events mark the moments exactly; while calls are pending a timer writes what has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext import forks
from tinker_ext._transport.messages import Lane
from tinker_ext._version import __version__
from tinker_ext.observe.index import BEHIND, SAVE_BYTES, LogIndex
from tinker_ext.runlog import KINDS, VERSION, Ledger, RunLog, Tokens, last_steps, moment
from tinker_ext.telemetry import (
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

if TYPE_CHECKING:
    from tinker_ext.core.in_flight import Entry
    from tinker_ext.core.loop import Runtime

SHOWN = 16
"""Calls written in a line; the oldest."""

TICK_SECONDS = 0.5
CALLS_SECONDS = 1.0
SAME_SECONDS = 5.0
TIME_SECONDS = 10.0
"""How often calls are looked at; how often they are written with news, and without; how often the
time is."""

INDEXED_CALLS = 64
INDEXED_BYTES = 1 << 20
"""After how many calls the index beside the log is brought up to date, and what is read for it at
most: at most a few milliseconds, so that a page opens a log of any length at once."""

MOST_UNWRITTEN = 64
"""Lines about calls that are written together at most."""

REFUSALS = ("402", "429")
POLL = Lane.POLL  # asked for by every request; a member of an enum is slow to find


class Waits:
    """Writes the `waiting` and `time` lines of a run log; safe from any thread."""

    def __init__(
        self,
        run_log: RunLog,
        runtime: Runtime,
        live: Mapping[int, Entry],
        totals: Callable[[], dict[str, Any]],
        flush: Callable[[], None],
    ) -> None:
        self.session_id: str | None = None
        self._log = run_log
        self._runtime = runtime
        self._live = live
        self._totals = totals
        self._flush = flush
        self._lock = forks.lock()
        self._pending: dict[int, tuple[OperationStarted, Entry]] = {}
        self._lanes: dict[str, Lane] = {}
        self._spent = dict.fromkeys(KINDS, 0.0)
        self._unwritten = 0.0
        self._since: float | None = None
        self._written = -CALLS_SECONDS
        self._last: tuple[Any, Any] = (None, None)
        self._called = self._ticking = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def after_fork(self) -> None:
        """Forget the calls of the parent, whose loop and timer are not here; in the child."""
        self._pending.clear()
        self._called = self._ticking = False
        self._timer = self._since = None

    def started(self, event: OperationStarted) -> None:
        """Take in a call that has begun."""
        call = self._live.get(event.number)
        with self._lock:
            if not self._pending:
                self._account()
            if call is not None:
                self._pending[event.number] = event, call
            self._called = True
            tick = not (self._ticking or self._closed)
            self._ticking = self._ticking or tick
        if tick:
            self._runtime.call(self._tick)

    def finished(self, event: OperationFinished) -> None:
        """Take in that a call has ended."""
        with self._lock:
            self._account()
            self._pending.pop(event.number, None)

    def sent(self, event: RequestStarted) -> None:
        """Take in that a request has left: its call was taken for being sent already."""
        if event.lane is not POLL:
            self._lanes[event.operation] = event.lane

    def answered(self, event: RequestFinished) -> None:
        """Take in that a request was answered; a poll changes what is waited for by its state."""
        if event.lane is not POLL:
            with self._lock:
                self._account()

    def moved(self) -> None:
        """Take in that what a call waits for is about to change."""
        with self._lock:
            self._account()

    def flush(self) -> None:
        """Write where the time went since the last such line."""
        with self._lock:
            self._account()
            self._write_time()

    def close(self) -> None:
        """Stop looking; on the loop."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _account(self) -> None:
        now = self._runtime.time()
        if self._since is not None and now > self._since:
            self._spent[self._kind()] += now - self._since
            self._unwritten += now - self._since
        self._since = now
        if self._unwritten >= TIME_SECONDS:
            self._write_time()

    def _kind(self) -> str:
        if not self._pending:
            return "us"
        _, call = next(iter(self._pending.values()))
        if call.stage == "queued":
            return "queue"
        if call.stage == "waiting":
            return "server" if call.queue_state in (None, "active") else "queue"
        return "queue" if call.cause in REFUSALS else "network"

    def _write_time(self) -> None:
        spent = {name: round(seconds, 4) for name, seconds in self._spent.items()}
        total = round(self._unwritten, 4)
        self._spent, self._unwritten = dict.fromkeys(KINDS, 0.0), 0.0
        if total:
            self._log.write(
                "time", session=self.session_id, seconds=total, **spent, totals=self._totals()
            )

    def _tick(self) -> None:
        with self._lock:
            self._account()
            now = self._runtime.time()
            self._flush()
            if now - self._written >= CALLS_SECONDS:
                self._write_calls(now)
            # A program that makes one call after the other has moments without any.
            if self._closed or not (self._pending or self._called):
                self._ticking, self._timer = False, None
                return
            self._called = False
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _write_calls(self, now: float) -> None:
        oldest = list(islice(self._pending.values(), SHOWN))
        # News is what calls wait for; that others wait for the same, or were polled, can wait.
        news = {(e.operation, c.stage, c.retries, c.queue_state, c.reason) for e, c in oldest}
        numbers = [event.number for event, _ in oldest]
        soon = news != self._last[0]
        if not soon and (numbers == self._last[1] or now - self._written < SAME_SECONDS):
            return
        self._last, self._written = (news, numbers), now
        apart = time.time() - now
        calls = [
            {
                "number": event.number,
                "operation": event.operation,
                "target": event.target,
                "lane": self._lanes.get(event.operation),
                "stage": call.stage,
                "since": round(call.started + apart, 3),
                "deadline": round(call.deadline + apart, 3),
                "attempts": call.attempt,
                "retries": call.retries,
                "cause": call.cause,
                "state": call.queue_state,
                "reason": call.reason,
                "request_id": call.request_id,
                "seq_id": call.seq_id,
            }
            for event, call in oldest
        ]
        self._log.write("waiting", session=self.session_id, count=len(self._pending), calls=calls)


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
    """Writes what a client does; `docs/telemetry.md` lists its fields."""

    def __init__(
        self, run_log: RunLog, ledger: Ledger, runtime: Runtime, live: Mapping[int, Entry]
    ) -> None:
        self._log = run_log
        self._ledger = ledger
        self._clock = runtime.time
        self._waits = Waits(run_log, runtime, live, ledger.totals, self._flush)
        self._lock = forks.lock()
        self._steps = last_steps(run_log.path)
        self._index = LogIndex(run_log.path)
        self._indexing = forks.lock()
        self._models: dict[str, _Model] = {}
        self._states: dict[str, str] = {}
        self._unwritten: deque[tuple[float, float, OperationStarted | OperationFinished]] = deque()
        self._most_unwritten = MOST_UNWRITTEN
        forks.register(self)
        # Called for every request, so without asking for one type after the other.
        self._takers: dict[type[Event], Callable[[Any], None]] = {
            RequestStarted: self._waits.sent,
            RequestFinished: self._waits.answered,
            RetryScheduled: self._retry,
            OperationStarted: self._started,
            OperationFinished: self._finished,
            QueueStateSeen: self._queue,
            SessionStarted: self._session_started,
            SessionEnded: self._session_ended,
        }

    def notice(self, event: Event) -> None:
        """Write the event when it belongs into the log."""
        if take := self._takers.get(type(event)):
            take(event)

    def _write(self, kind: str, event: Event, *same: str, **other: Any) -> None:
        """Write a line with the fields of an event that mean the same in both, and others."""
        self._flush()
        fields = {name: getattr(event, name) for name in same}
        self._log.write(kind, session=self._waits.session_id, **fields, **other)

    def _session_started(self, event: SessionStarted) -> None:
        self._flush()
        self._waits.session_id = event.session_id
        terms = self._ledger.terms()
        self._write("session_start", event, version=VERSION, client=__version__, **terms)

    def _session_ended(self, event: SessionEnded) -> None:
        self._flush()
        self._waits.flush()
        seconds, totals = round(event.seconds, 6), self._ledger.totals()
        self._write("session_end", event, "status", seconds=seconds, totals=totals)
        with self._indexing:
            self._index.advance(BEHIND)
            if self._index.offset > SAVE_BYTES:
                self._index.save()

    def _started(self, event: OperationStarted) -> None:
        self._waits.started(event)
        self._later(event)

    def _finished(self, event: OperationFinished) -> None:
        self._states.pop(event.request_id or "", None)
        self._waits.finished(event)
        self._later(event)
        if event.operation == "optim_step" or event.failure is not None:
            self._flush()
        # Last, and by one at a time: neither a call nor a line waits for the index.
        if event.number % INDEXED_CALLS == 0 and self._indexing.acquire(blocking=False):
            try:
                self._index.advance(INDEXED_BYTES)
            finally:
                self._indexing.release()

    def _later(self, event: OperationStarted | OperationFinished) -> None:
        """Write about a call with what comes next, at the latest when pending calls are looked at.

        To write each by itself takes twice as long as to encode it.
        """
        self._unwritten.append((moment(), self._clock(), event))
        if len(self._unwritten) > self._most_unwritten:
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            events = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
            lines = [line for each in events for line in self._lines(*each)]
            if lines:
                self._log.append(*lines)

    def _lines(
        self, time: float, now: float, event: OperationStarted | OperationFinished
    ) -> Iterator[dict[str, Any]]:
        model = self._models.get(event.target)
        head = {
            "time": time,
            "session": self._waits.session_id,
            "number": event.number,
            "operation": event.operation,
            "target": event.target,
            "model": event.model,
        }
        if isinstance(event, OperationStarted):
            if event.operation != "asample":
                if model is None:
                    step = self._steps.get(event.target, 0)
                    model = self._models[event.target] = _Model(step, now)
                model.calls[event.number] = None
            yield {"type": "start", **head}
            return
        # In this order: the page passes over calls without trouble by the ends of their lines.
        yield {
            "type": "operation",
            **head,
            "seconds": round(event.seconds, 6),
            "tokens_in": event.tokens_in,
            "tokens_out": event.tokens_out,
            "tokens": event.tokens.to_dict(),
            "datums": event.datums,
            "loss": event.loss,
            "loss_per_token": _per_token(event.loss, event.trained),
            "metrics": event.metrics,
            "request_id": event.request_id,
            "seq_id": event.seq_id,
            "attempts": event.attempts,
            "retries": event.retries,
            "effect": event.effect,
            "error": event.error,
        }
        if model is not None and event.number in model.calls:
            model.calls[event.number] = event
            for each in model.in_order():
                model.add(each)
                if each.operation == "optim_step" and each.failure is None:
                    yield self._step(each, model, time, now)

    def _step(
        self, event: OperationFinished, model: _Model, time: float, now: float
    ) -> dict[str, Any]:
        model.step += 1
        line = {
            "type": "step",
            "time": time,
            "session": self._waits.session_id,
            "step": model.step,
            "target": event.target,
            "model": event.model,
            "loss": model.loss,
            "loss_per_token": _per_token(model.loss, model.trained),
            "metrics": {**model.metrics, **event.metrics},
            "tokens": model.tokens.to_dict(),
            "seconds": round(now - model.began, 6),
            "totals": self._ledger.totals(),
        }
        model.began, model.tokens, model.metrics = now, Tokens(), {}
        model.loss, model.trained = None, 0
        return line

    def after_fork(self) -> None:
        """Leave to the parent what it has not written yet; in the child."""
        self._unwritten.clear()
        self._most_unwritten = 0  # a child of multiprocessing ends without a word
        self._waits.after_fork()

    def _retry(self, event: RetryScheduled) -> None:
        lane, delay = event.lane.value, round(event.delay, 6)
        same = ("number", "operation", "attempt", "reason", "source")
        self._write("retry", event, *same, lane=lane, delay=delay)

    def _queue(self, event: QueueStateSeen) -> None:
        self._waits.moved()
        if event.state == "active":
            self._states.pop(event.request_id, None)
        elif self._states.get(event.request_id) != event.state:
            self._states[event.request_id] = event.state
            self._write("queue", event, "operation", "target", "state", "reason", "request_id")

    async def aclose(self) -> None:
        """Close the file."""
        self._waits.close()
        self._flush()
        if self._log.closes_slowly:
            await asyncio.to_thread(self._log.close)
        else:
            self._log.close()


def _per_token(loss: float | None, trained: int | None) -> float | None:
    return loss / trained if loss is not None and trained else None
