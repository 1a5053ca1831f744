"""The whole memory of one server and the few rules every handler relies on."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tinker_ext.mock import forking
from tinker_ext.mock.base_models import BaseModel, BaseModels
from tinker_ext.mock.clock import Clock, rfc3339
from tinker_ext.mock.faults import FaultPlan
from tinker_ext.mock.futures import Promise, Promises
from tinker_ext.mock.ids import IdMint
from tinker_ext.mock.log import RequestLog
from tinker_ext.mock.messages import HttpError
from tinker_ext.mock.results import Failure, Refusal, Result
from tinker_ext.mock.settings import Settings
from tinker_ext.mock.state.checkpoints import Checkpoints
from tinker_ext.mock.state.ledger import Ledger
from tinker_ext.mock.state.records import Model, Operation, Sampler, Session
from tinker_ext.mock.training_input import BadInput
from tinker_ext.mock.worker import Worker

if TYPE_CHECKING:
    from tinker_ext.mock.compute import Compute

logger = logging.getLogger(__name__)
DEFAULT_PROJECT = "default"


class World:
    """Sessions, models, samplers, checkpoints, promises and counters of one server.

    Handlers run under `lock`; jobs of the worker take it only to write their outcome down.

    Args:
        settings: How the server behaves.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = threading.RLock()
        # With keys it must not be guessed; without them nothing is guarded, and a seed repeats.
        self.secret = (
            hashlib.sha256(f"tinker-ext/{settings.seed}".encode()).digest()
            if settings.api_keys is None
            else secrets.token_bytes(32)
        )
        self.clock = Clock(settings.epoch)
        self.ids = IdMint(settings.seed, settings.ids)
        self.log = RequestLog(settings.log_size)
        self.faults = FaultPlan(settings.seed, settings.faults)
        self.worker = Worker(inline=settings.inline_engine)
        self.base_models = BaseModels(settings.models)
        self.promises = Promises(
            self.clock,
            self.lock,
            unread_ttl=settings.future_ttl,
            read_ttl=settings.delivered_ttl,
            latency=settings.latency,
        )
        self.checkpoints = Checkpoints(self.clock, "ttl_ignored" not in settings.bugs)
        self.ledger = Ledger(self.clock)
        self.sessions: dict[str, Session] = {}
        self.models: dict[str, Model] = {}
        self.samplers: dict[str, Sampler] = {}
        self.custom_losses: dict[str, dict[str, Any]] = {}
        self.telemetry: list[dict[str, Any]] = []
        self.copies: dict[str, str] = {}
        self.waiting_for_capacity: list[tuple[Promise, Callable[[], None]]] = []
        self.on_release: Callable[[str], None] = lambda model_id: None
        self._compute: Compute | None = None
        forking.register(self)

    @property
    def compute(self) -> Compute:
        """Return the engine, loaded on first use so that the server is ready at once."""
        if self._compute is None:
            from tinker_ext.mock.compute import Compute

            self._compute = Compute(self.settings, self.base_models)
        return self._compute

    def bug(self, name: str) -> bool:
        """Tell whether a mistake was planted."""
        return name in self.settings.bugs

    def now(self) -> str:
        """Return the calendar time as RFC 3339."""
        return rfc3339(self.clock.unix())

    def base_model(self, name: str) -> BaseModel:
        """Return a served base model.

        Raises:
            HttpError: 400 with the served names and how to add one.
        """
        if name in self.base_models:
            return self.base_models[name]
        if self.bug("unknown_model_accepted"):
            return next(iter(self.base_models.values()))
        raise HttpError(400, self.base_models.explain_missing(name))

    def session(self, session_id: str) -> Session:
        """Return a living session and note the sign of life.

        Raises:
            HttpError: 404 for an unknown one, 410 for one that ended.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise HttpError(404, f"session {session_id} is unknown")
        if session.lost or not session.active:
            raise HttpError(410, f"session {session_id} has ended; create a new one")
        now = self.clock.now()
        if now - session.last_seen > self.settings.session_ttl:
            self.lose_session(session_id)
            raise HttpError(
                410,
                f"session {session_id} expired after {self.settings.session_ttl:g} s without a "
                "heartbeat; create a new one",
            )
        session.last_seen = now
        return session

    def lose_session(self, session_id: str) -> None:
        """End a session from the server's side."""
        session = self.sessions.get(session_id)
        if session is not None:
            session.lost = True
            if session.active:
                session.status = {"type": "cancelled", "detail": "the session expired"}

    def model(self, model_id: str) -> Model:
        """Return a model of a living session.

        Raises:
            HttpError: 404 when it is unknown or unloaded, 410 when its session ended.
        """
        model = self.models.get(model_id)
        if model is None or model.unloaded:
            raise HttpError(404, f"model {model_id} is unknown or was unloaded")
        self.session(model.session_id)
        model.last_request = self.clock.unix()
        return model

    def promise(self, kind: str, *, durable: bool = True, **fields: Any) -> Promise:
        """Make a promise, paused first when the settings say so."""
        promise = Promise(self.ids.request(durable=durable), kind, self.clock.now(), **fields)
        pause = self.settings.pause
        if pause is not None and (not pause.operations or kind in pause.operations):
            promise.queue_state = pause.state
            promise.queue_reason = pause.reason
            promise.paused_until = promise.created + pause.seconds
        return self.promises.add(promise)

    def accept(
        self,
        model: Model,
        op: str,
        seq: int | None,
        digest: str,
        run: Callable[[], Result | Failure],
    ) -> Promise:
        """Admit a training operation in its place by seq_id; returns the promise of its result.

        Raises:
            HttpError: 409 by the profile's rule.
        """
        conflict = model.sequencer.late_conflict(seq)
        if conflict is not None:
            return self.fail_late(model, op, Refusal(409, conflict))
        repeated = model.sequencer.repeat(seq, digest)
        if repeated is not None:
            self.log.repeated(model.model_id, repeated)
            known = self.promises.find(repeated)
            return known or Promise(repeated, op, self.clock.now(), model.model_id)
        promise = self.promise(op, model_id=model.model_id, session_id=model.session_id)
        operation = Operation(op, seq, digest, promise, run)
        ready = model.sequencer.accept(seq, digest, promise.request_id, operation)
        self._start(model, ready)
        self.await_missing(model)
        return promise

    def fail_late(self, model: Model, op: str, end: Refusal | Failure) -> Promise:
        """Accept an operation that will not have its turn; its poll says why."""
        promise = self.promise(op, model_id=model.model_id, session_id=model.session_id)
        self.promises.settle(promise, end)
        return promise

    def await_missing(self, model: Model) -> None:
        """Note what held operations wait for, and give up after `reorder_wait` seconds."""
        missing = model.sequencer.missing()
        if missing is None:
            return
        if self.settings.seq == "gap":
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(self.settings.reorder_wait, self._give_up, model, missing)

    def _give_up(self, model: Model, missing: int) -> None:
        with self.lock:
            if model.sequencer.missing() == missing:
                self.on_release(model.model_id)
                self.release(model)

    def release(self, model: Model) -> None:
        """Run held operations without waiting for the missing number any longer."""
        self._start(model, model.sequencer.skip())
        self.await_missing(model)

    def _start(self, model: Model, ready: list[Operation]) -> None:
        for operation in ready:
            self.worker.submit("train", partial(self._execute, model, operation))

    def _execute(self, model: Model, operation: Operation) -> None:
        outcome = guarded(operation.run)
        with self.lock:
            model.steps += 1
            if isinstance(outcome, Failure) and outcome.category == "server":
                model.corrupted = True
            error = outcome.message if isinstance(outcome, Failure) else None
            twice = self.bug("seq_double") and model.steps % 3 == 0 and error is None
        if twice:
            guarded(operation.run)
        with self.lock:
            self.log.effect(
                model.model_id,
                operation.seq,
                operation.op,
                operation.promise.request_id,
                operation.digest,
                error,
            )
            self.promises.settle(operation.promise, outcome)

    def free(self, models: list[Model]) -> None:
        """Unload models behind their queued operations and let waiting ones take their place."""
        for model in models:
            model.unloaded = True

        def job() -> None:
            for model in models:
                model.trainable = None
            with self.lock:
                room = len(models)
                waiting = self.waiting_for_capacity[:room]
                del self.waiting_for_capacity[:room]
            for promise, submit in waiting:
                promise.paused_until = 0.0
                submit()

        self.worker.submit("train", job)

    def add_sampler(
        self, session: Session, number: int, base_model: str, path: str | None, weights: Any
    ) -> Sampler:
        """Register a sampling session under the client's number."""
        sampler_id = f"{session.session_id}:sample:{number}"
        sampler = Sampler(sampler_id, session.session_id, base_model, path, weights)
        self.samplers[sampler_id] = sampler
        session.samplers[number] = sampler_id
        return sampler

    def locks(self) -> list[Any]:
        """Every lock, in the order in which they are taken: jobs, then the state, then details."""
        *jobs, guard = self.worker.locks()
        details = [guard, self.log.lock, self.faults.lock]
        if self._compute is not None:
            details.append(self._compute.lock)
        return [*jobs, self.lock, *details]

    def after_fork(self) -> None:
        """Go on in a forked child: without the parent's threads and the loops that waited there."""
        self.worker.after_fork()
        self.promises.after_fork()
        for sampler in self.samplers.values():
            sampler.waiters.clear()

    def close(self) -> None:
        """Release waiting polls and end the threads."""
        self.promises.close()
        self.worker.close()


def guarded(run: Callable[[], Result | Failure]) -> Result | Failure:
    """Run an operation; bad input is the user's failure, anything else the server's."""
    try:
        return run()
    except (BadInput, ValueError, KeyError, OverflowError) as error:
        text = str(error.args[0]) if error.args else repr(error)
        return Failure(text, "user")
    except Exception as error:
        logger.exception("an operation failed")
        return Failure(f"{type(error).__name__}: {error}", "server")
