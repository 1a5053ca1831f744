"""`Journal`: the file and what it amounts to, kept together while a run writes to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tinker_ext import forks
from tinker_ext.journal.file import JournalError, JournalFile

CHANGING: Final = frozenset({"forward_backward", "optim_step", "load_weights"})
"""Operations after which a checkpoint no longer shows the model as it is."""

FILLER: Final = "filler"
"""A forward pass without effect under the number of a request that was refused."""

KEPT_CHECKPOINTS: Final = 20
"""How many a run may go back to; older ones would only make the journal long."""


@attrs.frozen
class TrainedModel:
    """One model on a server that the run has trained."""

    session_id: str
    model_id: str
    number: int
    first_seq_id: int = 1
    base_url: str = ""


@attrs.frozen
class Checkpoint:
    """A saved state at the end of a step, from which a run can go on."""

    path: str
    next_step: int
    notes: Mapping[str, Any] = attrs.field(factory=dict)


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

    operation: str
    digest: str
    name: str | None = None
    request_id: str | None = None
    value: Mapping[str, Any] | None = None
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

    plan: Mapping[str, Any] | None = None
    model: TrainedModel | None = None
    attached: int = 0
    next_step: int = 0
    next_seq_id: int = 1
    notes: Mapping[str, Any] = attrs.field(factory=dict)
    requests: dict[int, RecordedRequest] = attrs.field(factory=dict)
    checkpoints: list[Checkpoint] = attrs.field(factory=list)
    gradients: bool = False
    ended: str | None = None
    wire: str | None = None

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

    def apply(self, record: Mapping[str, Any]) -> None:
        """Take one record in; kinds that are not known are of no consequence."""
        change = getattr(self, f"_on_{record.get('t')}", None)
        if change is not None:
            change(record)

    def to_record(self) -> dict[str, Any]:
        """Everything there is to know between two steps, as one record."""
        fields = attrs.asdict(self)
        del fields["requests"]
        return {"t": "state", "life": fields.pop("model"), **fields}

    def _on_state(self, record: Mapping[str, Any]) -> None:
        model = record.get("life", self.model)
        known = isinstance(model, Mapping)
        self.model = TrainedModel(**_known(TrainedModel, model)) if known else model
        for name, value in _known(State, record).items():
            if name == "checkpoints":
                self.checkpoints = [Checkpoint(**_known(Checkpoint, each)) for each in value]
            else:
                setattr(self, name, value)
        self.requests = {}

    def _on_plan(self, record: Mapping[str, Any]) -> None:
        self.plan = record["plan"]

    def _on_model(self, record: Mapping[str, Any]) -> None:
        self.model = TrainedModel(
            record["session"],
            record["model"],
            record["number"],
            record["seq"],
            record.get("url", ""),
        )
        self.attached = 1
        self.next_seq_id = self.model.first_seq_id
        self.next_step = record["step"]
        self.notes = record.get("notes", {})
        self.requests = {}
        self.gradients = False
        self.ended = None
        # Steps after this one are done again, so what was saved there is of another model.
        self.checkpoints = [c for c in self.checkpoints if c.next_step <= self.next_step]

    def _on_attach(self, record: Mapping[str, Any]) -> None:
        self.attached += 1
        self.ended = None

    def _on_leave(self, record: Mapping[str, Any]) -> None:
        name = record.get("name")
        self.requests[record["seq"]] = RecordedRequest(record["op"], record["digest"], name)
        self.wire = record.get("wire", self.wire)
        if name is not None and self.model is not None:
            # From now on the server may hold other weights under this name.
            path = f"{self.model.model_id}/weights/{name}"
            self.checkpoints = [c for c in self.checkpoints if not c.path.endswith(path)]

    def _on_take(self, record: Mapping[str, Any]) -> None:
        if record["seq"] in self.requests:
            self.requests[record["seq"]].request_id = record["request_id"]

    def _on_done(self, record: Mapping[str, Any]) -> None:
        if record["seq"] in self.requests:
            request = self.requests[record["seq"]]
            request.done = True
            request.value = record.get("value")

    def _on_void(self, record: Mapping[str, Any]) -> None:
        self.requests.pop(record["seq"], None)

    def _on_step(self, record: Mapping[str, Any]) -> None:
        self.next_step = record["step"] + 1
        self.next_seq_id = record["seq"]
        self.notes = record.get("notes", {})
        self._settle()

    def _on_saved(self, record: Mapping[str, Any]) -> None:
        self.next_seq_id = record["seq"]
        self._settle()

    def _settle(self) -> None:
        """Take in what the requests since the last step amount to, and forget them."""
        saved, self.gradients = self._sum()
        if saved is not None:
            self._keep(saved)
        self.requests = {}

    def _sum(self) -> tuple[str | None, bool]:
        """What the requests since the last step amount to.

        Returns:
            Path of the state that was saved and still shows the model as it is; whether gradients
            are left.
        """
        saved, gradients = None, self.gradients
        for _, request in sorted(self.requests.items()):
            if request.operation in CHANGING:
                saved, gradients = None, request.operation == "forward_backward"
            elif request.operation == "save_weights" and request.value and not gradients:
                saved = str(request.value.get("path") or "") or None
        return saved, gradients

    def _keep(self, path: str) -> None:
        self.checkpoints.append(Checkpoint(path, self.next_step, self.notes))
        del self.checkpoints[:-KEPT_CHECKPOINTS]

    def _on_end(self, record: Mapping[str, Any]) -> None:
        self.ended = record["status"]
        saved, _ = self._sum() if self.ended == "success" else (None, False)
        if saved is not None:
            self._keep(saved)


def _known(cls: type[attrs.AttrsInstance], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a class has; a later writer of the same version may add others."""
    names = {field.name for field in attrs.fields(cls)} - {"model", "requests"}
    return {name: value for name, value in fields.items() if name in names}


log = logging.getLogger("tinker_ext")

_MADE_BY = (
    "base_model",
    "rank",
    "seed",
    "train_mlp",
    "train_attn",
    "train_unembed",
    "optimizer",
    "state",
)
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
        self.file = JournalFile(path, repair=repair)
        self.state = State()
        self._lock = forks.reentrant_lock()
        for record in self.file.records:
            self.state.apply(record)

    def __repr__(self) -> str:
        return f"Journal({str(self.file.path)!r})"

    def _note(self, record: dict[str, Any]) -> None:
        with self._lock:
            self.file.append(record)
            self.state.apply(record)

    # -- the model -------------------------------------------------------------------------

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Note how the model is made, before it is.

        Raises:
            JournalError: The journal belongs to a model that was made in another way.
        """
        self.check({name: plan.get(name) for name in _MADE_BY})
        if self.state.plan != plan:
            self._note({"t": "plan", "plan": dict(plan)})

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

    def began(
        self,
        *,
        session_id: str,
        model_id: str,
        number: int,
        first_seq_id: int,
        step: int,
        base_url: str,
        notes: Mapping[str, Any],
    ) -> None:
        """Note the model that is trained from `step` on."""
        self._note(
            {
                "t": "model",
                "session": session_id,
                "model": model_id,
                "number": number,
                "seq": first_seq_id,
                "step": step,
                "url": base_url,
                "notes": dict(notes),
            }
        )

    def attached(self) -> None:
        """Note that this process goes on with the model of an earlier one."""
        self._note({"t": "attach"})

    # -- requests --------------------------------------------------------------------------

    def leaving(
        self, operation: str, seq_id: int, digest: str, *, name: str | None, wire: str | None
    ) -> RecordedRequest | None:
        """Note that a request is about to be sent.

        Returns:
            What is known about it when an earlier process sent it and saw it accepted; then it
            must not be sent.

        Raises:
            JournalError: An earlier process sent something else under this number.
        """
        with self._lock:
            known = self.state.requests.get(seq_id)
            if known is not None:
                if (known.operation, known.digest) != (operation, digest):
                    raise JournalError(
                        f"Step {self.state.next_step} is not repeated as it was: seq_id {seq_id} "
                        f"was {known.operation} before the crash, and is {operation} now"
                        f"{'' if known.operation != operation else ' with other data'}. Nothing "
                        "was sent. Make the steps depend on the step number (and notes) alone, or "
                        "resume with reattach=False to go back to the last checkpoint."
                    )
                return known if known.request_id is not None else None
            self.send_again(operation, seq_id, digest, name=name, wire=wire)
            return None

    def send_again(
        self, operation: str, seq_id: int, digest: str, *, name: str | None, wire: str | None
    ) -> None:
        """Note the request under this number, whatever was there."""
        more = {key: text for key, text in (("name", name), ("wire", wire)) if text is not None}
        self._note({"t": "leave", "op": operation, "seq": seq_id, "digest": digest, **more})

    def accepted(self, seq_id: int, request_id: str) -> None:
        """Note that the server has taken a request."""
        self._note({"t": "take", "seq": seq_id, "request_id": request_id})

    def done(self, seq_id: int, value: Mapping[str, Any] | None) -> None:
        """Note that the result of a request was seen."""
        more = {} if value is None else {"value": dict(value)}
        self._note({"t": "done", "seq": seq_id, **more})

    def void(self, seq_id: int) -> None:
        """Note that a request was refused and had no effect."""
        if seq_id in self.state.requests:
            self._note({"t": "void", "seq": seq_id})

    # -- steps -----------------------------------------------------------------------------

    def step_done(self, step: int, next_seq_id: int, notes: Mapping[str, Any]) -> None:
        """Note that a step is complete; the next request gets `next_seq_id`."""
        self._note({"t": "step", "step": step, "seq": next_seq_id, "notes": dict(notes)})
        if self.file.size > self.long_bytes:
            try:
                self.file.rewrite(self.state.to_record())
            except JournalError as error:  # then it stays long
                log.warning("%s", error)

    def saved(self, next_seq_id: int) -> None:
        """Note that all requests since the last step were saves; the next gets `next_seq_id`."""
        self._note({"t": "saved", "seq": next_seq_id})

    def end(self, status: str) -> None:
        """Note why the run is closed."""
        self._note({"t": "end", "status": status})

    def close(self) -> None:
        """Give the file back."""
        self.file.close()
