"""`Journal`: the file and what it amounts to, kept together while a run writes to it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from tinker_ext import forks
from tinker_ext.journal.file import JournalError, JournalFile
from tinker_ext.journal.state import Kept, State

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
            JournalError: One of them differs from what is written down.
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
    ) -> Kept | None:
        """Note that a request is about to be sent.

        Returns:
            What is known about it when an earlier process sent it and saw it accepted; then it
            must not be sent.

        Raises:
            JournalError: An earlier process sent something else under this number.
        """
        with self._lock:
            kept = self.state.kept.get(seq_id)
            if kept is not None:
                if (kept.operation, kept.digest) != (operation, digest):
                    raise JournalError(
                        f"Step {self.state.next_step} is not repeated as it was: seq_id {seq_id} "
                        f"was {kept.operation} before the crash, and is {operation} now"
                        f"{'' if kept.operation != operation else ' with other data'}. Nothing "
                        "was sent. Make the steps depend on the step number (and notes) alone, or "
                        "resume with reattach=False to go back to the last checkpoint."
                    )
                return kept if kept.request_id is not None else None
            self.send_again(operation, seq_id, digest, name=name, wire=wire)
            return None

    def send_again(
        self, operation: str, seq_id: int, digest: str, *, name: str | None, wire: str | None
    ) -> None:
        """Note the request under this number, whatever was there."""
        record: dict[str, Any] = {"t": "leave", "op": operation, "seq": seq_id, "digest": digest}
        if name is not None:
            record["name"] = name
        if wire is not None:
            record["wire"] = wire
        self._note(record)

    def accepted(self, seq_id: int, request_id: str) -> None:
        """Note that the server has taken a request."""
        self._note({"t": "take", "seq": seq_id, "request_id": request_id})

    def done(self, seq_id: int, value: Mapping[str, Any] | None) -> None:
        """Note that the result of a request was seen."""
        record: dict[str, Any] = {"t": "done", "seq": seq_id}
        if value is not None:
            record["value"] = dict(value)
        self._note(record)

    def void(self, seq_id: int) -> None:
        """Note that a request was refused and had no effect."""
        if seq_id in self.state.kept:
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
