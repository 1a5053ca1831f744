"""What the records of a journal amount to: a pure fold, one record at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

CHANGING: Final = frozenset({"forward_backward", "optim_step", "load_weights"})
"""Operations after which a checkpoint no longer shows the model as it is."""

FILLER: Final = "filler"
"""A forward pass without effect under the number of a request that was refused."""

KEPT_CHECKPOINTS: Final = 20
"""How many a run may go back to; older ones would only make the journal long."""


@attrs.frozen
class Life:
    """One model on a server that the run has trained.

    Attributes:
        session_id: Its session.
        model_id: The model.
        number: Its number within the session.
        first_seq_id: Number of the first request of the run.
        base_url: The server.
    """

    session_id: str
    model_id: str
    number: int
    first_seq_id: int = 1
    base_url: str = ""


@attrs.frozen
class Checkpoint:
    """A saved state at the end of a step, from which a run can go on.

    Attributes:
        path: Where the server keeps it.
        next_step: The step that comes after it.
        notes: The user's notes at that time.
    """

    path: str
    next_step: int
    notes: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define
class Kept:
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
        life: The model that is trained now.
        attached: How often a process has worked on it.
        next_step: The first step that is not complete.
        next_seq_id: Number of the first request of that step.
        notes: The user's notes when the last step was completed.
        kept: Requests of the step under way, by number.
        checkpoints: What a run can go on from, oldest first.
        gradients: Whether gradients were left for a later step.
        ended: Why the run was closed last, None while it is open.
        wire: Form of the last training body.
    """

    plan: Mapping[str, Any] | None = None
    life: Life | None = None
    attached: int = 0
    next_step: int = 0
    next_seq_id: int = 1
    notes: Mapping[str, Any] = attrs.field(factory=dict)
    kept: dict[int, Kept] = attrs.field(factory=dict)
    checkpoints: list[Checkpoint] = attrs.field(factory=list)
    gradients: bool = False
    ended: str | None = None
    wire: str | None = None

    @property
    def in_doubt(self) -> list[int]:
        """Numbers of the requests that were sent and whose answer was not seen."""
        return sorted(seq for seq, kept in self.kept.items() if kept.request_id is None)

    @property
    def names(self) -> list[str | None]:
        """What the requests since the last step save, in order; None for one that saves nothing."""
        return [kept.name for _, kept in sorted(self.kept.items()) if kept.operation != FILLER]

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
        del fields["kept"]
        return {"t": "state", **fields}

    def _on_state(self, record: Mapping[str, Any]) -> None:
        for name, value in _known(State, record).items():
            if name == "life":
                self.life = None if value is None else Life(**_known(Life, value))
            elif name == "checkpoints":
                self.checkpoints = [Checkpoint(**_known(Checkpoint, each)) for each in value]
            else:
                setattr(self, name, value)
        self.kept = {}

    def _on_plan(self, record: Mapping[str, Any]) -> None:
        self.plan = record["plan"]

    def _on_model(self, record: Mapping[str, Any]) -> None:
        self.life = Life(
            record["session"],
            record["model"],
            record["number"],
            record["seq"],
            record.get("url", ""),
        )
        self.attached = 1
        self.next_seq_id = self.life.first_seq_id
        self.next_step = record["step"]
        self.notes = record.get("notes", {})
        self.kept = {}
        self.gradients = False
        self.ended = None
        # Steps after this one are done again, so what was saved there is of another life.
        self.checkpoints = [c for c in self.checkpoints if c.next_step <= self.next_step]

    def _on_attach(self, record: Mapping[str, Any]) -> None:
        self.attached += 1
        self.ended = None

    def _on_leave(self, record: Mapping[str, Any]) -> None:
        name = record.get("name")
        self.kept[record["seq"]] = Kept(record["op"], record["digest"], name)
        self.wire = record.get("wire", self.wire)
        if name is not None and self.life is not None:
            # From now on the server may hold other weights under this name.
            path = f"{self.life.model_id}/weights/{name}"
            self.checkpoints = [c for c in self.checkpoints if not c.path.endswith(path)]

    def _on_take(self, record: Mapping[str, Any]) -> None:
        if record["seq"] in self.kept:
            self.kept[record["seq"]].request_id = record["request_id"]

    def _on_done(self, record: Mapping[str, Any]) -> None:
        if record["seq"] in self.kept:
            kept = self.kept[record["seq"]]
            kept.done = True
            kept.value = record.get("value")

    def _on_void(self, record: Mapping[str, Any]) -> None:
        self.kept.pop(record["seq"], None)

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
        self.kept = {}

    def _sum(self) -> tuple[str | None, bool]:
        """What the requests since the last step amount to.

        Returns:
            Path of the state that was saved and still shows the model as it is; whether gradients
            are left.
        """
        saved, gradients = None, self.gradients
        for _, kept in sorted(self.kept.items()):
            if kept.operation in CHANGING:
                saved, gradients = None, kept.operation == "forward_backward"
            elif kept.operation == "save_weights" and kept.value and not gradients:
                saved = str(kept.value.get("path") or "") or None
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
    names = {field.name for field in attrs.fields(cls)} - {"kept"}
    return {name: value for name, value in fields.items() if name in names}
