"""`Journal`: the records of a run, what they amount to, and the file that keeps them."""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from attrs.validators import instance_of, optional

from tinker_ext import forks
from tinker_ext.journal.file import JournalError, JournalFile

log = logging.getLogger("tinker_ext")

CHANGING: Final = frozenset({"forward_backward", "optim_step", "load_weights"})
"""Operations after which a checkpoint no longer shows the model as it is."""

FILLER: Final = "filler"
"""A forward pass without effect under the number of a request that was refused."""

KEPT_CHECKPOINTS: Final = 20
"""How many a run may go back to; older ones would only make the journal long."""


# A good checksum does not make a good record: one that was written by hand is refused by its types.
_TEXT: Final = instance_of(str)
_COUNT: Final = instance_of(int)
_OBJECT: Final = instance_of(dict)


def _makes_a_model(_: object, field: attrs.Attribute[Any], plan: Any) -> None:
    """Refuse a plan that names neither a saved state nor a base model with its rank."""
    if plan is None:
        return
    _OBJECT(_, field, plan)
    made = {"with_optimizer": True, **plan}
    saved = {"state": str, "with_optimizer": bool}
    forms = {"base_model": str, "rank": int} if made.get("state") is None else saved
    for name, form in forms.items():
        if not isinstance(made.get(name), form):
            raise TypeError(f"its plan has {made.get(name)!r} as {name}")


@attrs.frozen
class TrainedModel:
    """One model on a server that the run has trained.

    Attributes:
        process: Of a server that ends with its process, which one that was: the next one gives
            other models the same ids.
    """

    session_id: str = attrs.field(validator=_TEXT)
    model_id: str = attrs.field(validator=_TEXT)
    number: int = attrs.field(validator=_COUNT)
    first_seq_id: int = attrs.field(default=1, validator=_COUNT)
    base_url: str = attrs.field(default="", validator=_TEXT)
    process: str | None = attrs.field(default=None, validator=optional(_TEXT))


@attrs.frozen
class Checkpoint:
    """A saved state at the end of a step, from which a run can go on."""

    path: str = attrs.field(validator=_TEXT)
    next_step: int = attrs.field(validator=_COUNT)
    notes: Mapping[str, Any] = attrs.field(factory=dict, validator=_OBJECT)


@attrs.define
class RecordedRequest:
    """A request of the step under way, as far as the journal knows.

    Attributes:
        operation: For example `optim_step`.
        digest: Fingerprint of its body.
        name: Name of a checkpoint to save.
        request_id: What the server called it; None means that its answer was not seen.
        value: Its small result, as JSON.
        done: Whether its result was seen.
    """

    operation: str = attrs.field(validator=_TEXT)
    digest: str = attrs.field(validator=_TEXT)
    name: str | None = attrs.field(default=None, validator=optional(_TEXT))
    request_id: str | None = attrs.field(default=None, validator=optional(_TEXT))
    value: Mapping[str, Any] | None = attrs.field(default=None, validator=optional(_OBJECT))
    done: bool = False


@attrs.define
class State:
    """Where a run stands.

    Attributes:
        plan: How its model was made; None before that.
        model: The model that is trained now; `life` in the file.
        attached: How often a process has worked on it.
        next_step: The first step that is not complete.
        next_seq_id: Number of the first request of that step.
        notes: The user's notes when the last step was completed.
        requests: Those of the step under way, by number.
        checkpoints: What a run can go on from, oldest first.
        gradients: Whether gradients were left for a later step.
        ended: Why the run was closed last, None while it is open.
        wire: Form of the last training body.
    """

    plan: Mapping[str, Any] | None = attrs.field(default=None, validator=_makes_a_model)
    model: TrainedModel | None = None
    attached: int = attrs.field(default=0, validator=_COUNT)
    next_step: int = attrs.field(default=0, validator=_COUNT)
    next_seq_id: int = attrs.field(default=1, validator=_COUNT)
    notes: Mapping[str, Any] = attrs.field(factory=dict, validator=_OBJECT)
    requests: dict[int, RecordedRequest] = attrs.field(factory=dict)
    checkpoints: list[Checkpoint] = attrs.field(factory=list)
    gradients: bool = False
    ended: str | None = attrs.field(default=None, validator=optional(_TEXT))
    wire: str | None = attrs.field(default=None, validator=optional(_TEXT))

    @property
    def in_doubt(self) -> list[int]:
        """Numbers of the requests that were sent and whose answer was not seen."""
        return sorted(seq for seq, request in self.requests.items() if request.request_id is None)

    @property
    def names(self) -> list[str | None]:
        """What the requests since the last step save, in order; None for one that saves nothing."""
        return [r.name for _, r in sorted(self.requests.items()) if r.operation != FILLER]

    @property
    def unsaved(self) -> bool:
        """Whether steps were completed that no checkpoint shows."""
        last = self.checkpoints[-1].next_step if self.checkpoints else 0
        return self.next_step > last and self._sum()[0] is None

    @property
    def has_gradients(self) -> bool:
        """Whether gradients wait for an update; a checkpoint would lose them."""
        return self._sum()[1]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> State:
        """The state that `to_record` wrote."""
        model, checkpoints = record.get("life"), record.get("checkpoints") or ()
        fields = _known(record, cls) | {
            "model": None if model is None else TrainedModel(**_known(model, TrainedModel)),
            "checkpoints": [Checkpoint(**_known(each, Checkpoint)) for each in checkpoints],
        }
        return cls(**fields)

    def to_record(self) -> dict[str, Any]:
        """Everything there is to know between two steps, as one record."""
        fields = attrs.asdict(self)
        del fields["requests"]
        return {"t": "state", "life": fields.pop("model"), **fields}

    # -- records: a parameter is a key in the file, one with a default may be missing there ----

    def _on_plan(self, plan: Mapping[str, Any]) -> None:
        """How the model is made, before it is."""
        self.plan = plan

    def _on_model(
        self,
        session: str,
        model: str,
        number: int,
        seq: int,
        step: int,
        url: str = "",
        notes: Mapping[str, Any] | None = None,
        process: str | None = None,
    ) -> None:
        """The model that is trained from a step on."""
        self.model = TrainedModel(session, model, number, seq, url, process)
        self.attached, self.ended = 1, None
        self.next_step, self.next_seq_id, self.notes = step, seq, notes or {}
        self.requests, self.gradients = {}, False
        # Steps after this one are done again, so what was saved there is of another model.
        self.checkpoints = [c for c in self.checkpoints if c.next_step <= step]

    def _on_attach(self) -> None:
        """Another process goes on with the model."""
        self.attached += 1
        self.ended = None

    def _on_leave(
        self, op: str, seq: int, digest: str, name: str | None = None, wire: str | None = None
    ) -> None:
        """A request is about to be sent."""
        if type(seq) is not int:  # a key, which no validator sees; numbers are sorted later
            raise TypeError(f"its seq is {seq!r:.50}")
        self.requests[seq] = RecordedRequest(op, digest, name)
        self.wire = wire or self.wire
        if name is not None and self.model is not None:
            # From now on the server may hold other weights under this name.
            path = f"{self.model.model_id}/weights/{name}"
            self.checkpoints = [c for c in self.checkpoints if not c.path.endswith(path)]

    def _on_take(self, seq: int, request_id: str) -> None:
        """The server has taken a request."""
        if seq in self.requests:
            self.requests[seq].request_id = request_id

    def _on_done(self, seq: int, value: Mapping[str, Any] | None = None) -> None:
        """The result of a request was seen."""
        if seq in self.requests:
            self.requests[seq].done = True
            self.requests[seq].value = value

    def _on_void(self, seq: int) -> None:
        """A request was refused and had no effect."""
        self.requests.pop(seq, None)

    def _on_step(self, step: int, seq: int, notes: Mapping[str, Any] | None = None) -> None:
        """A step is complete; the next request gets the number `seq`."""
        self.next_step, self.notes = step + 1, notes or {}
        self._on_saved(seq)

    def _on_saved(self, seq: int) -> None:
        """Requests since the last step are settled; the next one gets the number `seq`."""
        saved, gradients = self._sum()
        self._keep(saved)
        self.next_seq_id, self.requests, self.gradients = seq, {}, gradients

    def _on_end(self, status: str) -> None:
        """The run was closed."""
        self.ended = status
        if status == "success":
            self._keep(self._sum()[0])

    def _keep(self, path: str | None) -> None:
        if path is not None:
            self.checkpoints.append(Checkpoint(path, self.next_step, self.notes))
            del self.checkpoints[:-KEPT_CHECKPOINTS]

    def _sum(self) -> tuple[str | None, bool]:
        """The saved state that shows the model as it is, if any, and whether gradients are left."""
        saved, gradients = None, self.gradients
        for _, request in sorted(self.requests.items()):
            if request.operation in CHANGING:
                saved, gradients = None, request.operation == "forward_backward"
            elif request.operation == "save_weights" and request.value and not gradients:
                saved = str(request.value.get("path") or "") or None
        return saved, gradients


def _known(fields: Mapping[str, Any], described: Callable[..., Any]) -> dict[str, Any]:
    """The fields that are known; a later writer of the same version may add others."""
    return {name: fields[name] for name in _names(described) if name in fields}


@functools.cache
def _names(described: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(described).parameters)


ADAPTER = ("rank", "seed", "train_mlp", "train_attn", "train_unembed")
_MADE_BY = ("base_model", *ADAPTER, "optimizer", "state")
_UNLESS_GIVEN = {"optimizer": {"type": "adamw"}}
"""What a server takes where a plan has None, so that spelling it out makes no other run."""


class Journal:
    """The journal of one run; safe from any thread.

    Args:
        path: The file; it is made when it does not exist.
        repair: Cut off a torn last line (see `JournalFile`).

    Raises:
        JournalError: The file cannot be used; it is left as it is.
    """

    long_bytes = 1 << 20
    """A longer file is replaced by its sum at the end of a step."""

    def __init__(self, path: str | os.PathLike[str], *, repair: bool = False) -> None:
        self.state = State()
        self._lock = forks.reentrant_lock()
        self.file = JournalFile(path, repair=repair, take_in=self._apply)

    def __repr__(self) -> str:
        return f"Journal({str(self.file.path)!r})"

    def _apply(self, record: Mapping[str, Any]) -> None:
        kind = record.get("t")
        if kind == "state":
            self.state = State.of(record)
        # A kind that is not known is of no consequence.
        elif (change := getattr(self.state, f"_on_{kind}", None)) is not None:
            change(**_known(record, change))

    def note(self, kind: str, **fields: Any) -> None:
        """Write a record, and take it in when it is on disk; a field that is None is left out."""
        record = {"t": kind, **{k: v for k, v in fields.items() if v is not None}}
        with self._lock:
            self.file.append(record)
            self._apply(record)

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Note how the model is made, before it is; refuse one that is made in another way."""
        self.check({name: plan.get(name) for name in _MADE_BY})
        if self.state.plan != plan:
            self.note("plan", plan=dict(plan))

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse to go on with a model that was made with other settings.

        Raises:
            JournalError: One of them differs from what the journal has.
        """
        plan = self.state.plan
        for name, value in settings.items() if plan is not None else ():
            known = None if plan is None else plan.get(name)
            known, value = (_UNLESS_GIVEN.get(name) if v is None else v for v in (known, value))
            if known != value:
                raise JournalError(
                    f"The journal {self.file.path} belongs to a run with {name} = {known!r}, not "
                    f"{value!r}. Nothing was changed. Use the same settings to resume that run, "
                    "or another journal."
                )

    def leaving(
        self,
        op: str,
        seq: int,
        digest: str,
        *,
        name: str | None = None,
        wire: str | None = None,
        again: bool = False,
    ) -> str | None:
        """Note that a request is about to be sent; again if it replaces one under this number.

        Returns:
            Its request id when an earlier process saw it accepted; then it must not be sent.

        Raises:
            JournalError: An earlier process sent something else under this number.
        """
        with self._lock:
            known = self.state.requests.get(seq)
            if known is None or again:
                self.note("leave", op=op, seq=seq, digest=digest, name=name, wire=wire)
                return None
            if (known.operation, known.digest) != (op, digest):
                raise JournalError(
                    f"Step {self.state.next_step} is not repeated as it was: seq_id {seq} was "
                    f"{known.operation} before the crash, and is {op} now"
                    f"{'' if known.operation != op else ' with other data'}. Nothing was sent. "
                    "Make the steps depend on the step number (and notes) alone, or resume with "
                    "reattach=False to go back to the last checkpoint."
                )
            return known.request_id

    def step_done(self, step: int, next_seq_id: int, notes: Mapping[str, Any]) -> None:
        """Note that a step is complete; the next request gets `next_seq_id`."""
        self.note("step", step=step, seq=next_seq_id, notes=dict(notes))
        if self.file.size > self.long_bytes:
            try:
                self.file.rewrite(self.state.to_record())
            except JournalError as error:  # then it stays long
                log.warning("%s", error)

    def close(self) -> None:
        """Give the file back."""
        self.file.close()
