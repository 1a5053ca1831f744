"""`Watchers`: from a user's call to the event of its end, with the tokens it used.

`begin` is called in the user's thread before anything is sent, and is where a budget stops a call.
The event of the end is delivered in the context of the call, so that a trace finds its parent.
"""

from __future__ import annotations

import contextvars
import itertools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

import attrs

import tinker_ext._statuses as statuses
from tinker_ext.errors import APIStatusError, InvalidInputError, TinkerError
from tinker_ext.ledger import Hold, Ledger, Tokens
from tinker_ext.telemetry import Observers, OperationFinished, OperationStarted
from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.sampling import SampleResponse

if TYPE_CHECKING:
    from tinker_ext.core.in_flight import Entry

log = logging.getLogger("tinker_ext")


class Watchers:
    """Everybody who is told what one client does, and the ledger that may stop it."""

    def __init__(
        self, observers: Observers, clock: Callable[[], float], ledger: Ledger | None = None
    ) -> None:
        self.observers = observers
        self.clock = clock
        self.ledger = ledger
        self.live: dict[int, Entry] = {}
        """Calls under way by number, for observers that ask how they stand."""
        self._models: dict[str, str] = {}
        # `next` on it is atomic, so any thread may take a number.
        self._numbers = itertools.count(1)

    def name_model(self, target: str | None, model: str | None) -> None:
        """Remember the base model of a model id or sampling session, for its price."""
        if target and model:
            self._models[target] = model

    def model_of(self, target: str) -> str | None:
        """Name of the base model behind a target, where it is known."""
        run_id = target.partition("://")[2].partition("/")[0]
        return self._models.get(target) or self._models.get(run_id)

    def begin_training(self, operation: str, target: str, data: Sequence[Datum]) -> Watch | None:
        """Note a call that works on a batch (or on none); None when nobody wants to know.

        Raises:
            BudgetExceededError: The call could exceed the budget.
        """
        if self.ledger is None and not self.observers:
            return None
        count = sum(count_tokens(datum.model_input) for datum in data)
        trains = operation == "forward_backward"
        tokens = Tokens(train=count) if trains else Tokens(prefill=count)
        return self._begin(operation, target, tokens, count, len(data))

    def begin_sample(
        self, target: str, prompt: ModelInput, num_samples: int, max_tokens: int | None
    ) -> Watch | None:
        """Note a sample; at most `num_samples * max_tokens` tokens are held.

        Raises:
            BudgetExceededError: The call could exceed the budget.
        """
        if self.ledger is None and not self.observers:
            return None
        count = count_tokens(prompt)
        tokens = Tokens(prefill=count, sample=num_samples * (max_tokens or 0))
        return self._begin("asample", target, tokens, count, num_samples)

    def _begin(
        self, operation: str, target: str, most: Tokens, tokens_in: int, datums: int
    ) -> Watch:
        model = self.model_of(target)
        hold = None if self.ledger is None else self.ledger.hold(most, model, operation)
        started = OperationStarted(next(self._numbers), operation, target, model)
        return Watch(self, started, most, hold, tokens_in, datums)


@attrs.define
class Watch:
    """A call somebody wants to know about, from `begin` to the end of its future."""

    _watchers: Watchers
    _started: OperationStarted
    _most: Tokens
    _hold: Hold | None
    _tokens_in: int
    _datums: int
    _call: Entry | None = None
    _context: contextvars.Context = attrs.field(factory=contextvars.copy_context)

    def follow(self, call: Entry, future: Future[Any]) -> None:
        """Tell about the call when its future is done."""
        self._call = call
        call.number = self._started.number
        self._watchers.live[call.number] = call
        if self._watchers.observers:
            self._watchers.observers.notice(self._started)
        future.add_done_callback(self._ended)

    def drop(self) -> None:
        """The call did not happen after all."""
        if self._hold is not None:
            self._hold.release()

    def _ended(self, future: Future[Any]) -> None:
        try:
            self._tell(future)
        except Exception:
            log.debug("an observer failed on %s", self._started.operation, exc_info=True)
        finally:
            self._watchers.live.pop(self._started.number, None)

    def _tell(self, future: Future[Any]) -> None:
        call, started = self._call, self._started
        assert call is not None
        failure = CancelledError() if future.cancelled() else future.exception()
        value = future.result() if failure is None else None
        tokens_out = _tokens_out(value)
        used = self._used(call, failure, tokens_out)
        if self._hold is not None:
            self._hold.settle(used)
        if not self._watchers.observers:
            return
        event = OperationFinished(
            number=started.number,
            operation=started.operation,
            target=started.target,
            model=started.model,
            seconds=max(0.0, self._watchers.clock() - call.started),
            tokens=used,
            tokens_in=self._tokens_in,
            tokens_out=tokens_out,
            datums=self._datums,
            loss=_loss(value),
            trained=_trained(value),
            metrics=_metrics(value),
            request_id=call.request_id,
            seq_id=call.seq_id,
            attempts=call.attempt,
            retries=call.retries,
            effect=_effect(call, failure),
            failure=failure,
        )
        self._context.run(self._watchers.observers.notice, event)

    def _used(self, call: Entry, failure: BaseException | None, tokens_out: int) -> Tokens:
        if failure is None:
            return Tokens(self._most.train, self._most.prefill, tokens_out)
        # What the server may have done counts; what it refused or never got does not.
        return Tokens() if _effect(call, failure) == "no" else self._most


def _effect(call: Entry, failure: BaseException | None) -> str:
    if failure is None:
        return "yes"
    if call.stage == "waiting" and isinstance(failure, APIStatusError):
        return "unknown"  # the server has accepted it, and this is its answer to a poll
    return "no" if call.stage == "queued" or _is_refused(failure) else "unknown"


def _is_refused(failure: BaseException) -> bool:
    if isinstance(failure, TinkerError) and (failure.parts_taken or failure.in_doubt):
        return False
    if isinstance(failure, APIStatusError):
        return failure.status_code not in statuses.MAY_HAVE_ACTED
    return isinstance(failure, InvalidInputError)


def count_tokens(prompt: ModelInput) -> int:
    """Tokens of an input; an image of undeclared length counts as none."""
    total = 0
    for chunk in prompt.chunks:
        try:
            total += chunk.length
        except ValueError:
            continue
    return total


def _tokens_out(value: Any) -> int:
    if not isinstance(value, SampleResponse):
        return 0
    return sum(
        len(sequence.tokens) if sequence.tokens_np is None else len(sequence.tokens_np)
        for sequence in value.sequences
    )


def _loss(value: Any) -> float | None:
    if not isinstance(value, ForwardBackwardOutput):
        return None
    try:
        return float(value.loss)
    except (InvalidInputError, TypeError):
        return None


def _trained(value: Any) -> int | None:
    # A mean is per token already.
    if isinstance(value, ForwardBackwardOutput) and "loss:sum" in value.metrics:
        return value.trained
    return None


def _metrics(value: Any) -> dict[str, float]:
    metrics = getattr(value, "metrics", None)
    return dict(metrics) if isinstance(metrics, dict) else {}
