"""Which model a journal follows, and its TrainingClient after a crash: re-attached or restored."""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import attrs
from tinker_api import operations as api

from tinker_ext._transport import statuses
from tinker_ext._wire.dialect import Dialect, Wire
from tinker_ext.clients import embedded
from tinker_ext.clients.arguments import record_of
from tinker_ext.core.loop import OFFLOAD_BYTES
from tinker_ext.errors import (
    APIStatusError,
    FeatureMissingError,
    FutureExpiredError,
    InvalidInputError,
    PermissionDeniedError,
    RequestFailedError,
    TinkerError,
)
from tinker_ext.journal import Checkpoint, Journal, JournalError, State, TrainedModel
from tinker_ext.journal.recorder import Recorder
from tinker_ext.types.optimizer import LoraConfig, OptimizerConfig

if TYPE_CHECKING:
    from tinker_ext.clients.training import TrainingClient
    from tinker_ext.core.workspace import Workspace

log = logging.getLogger("tinker_ext")

_BLOCK: Final = 1_000_000
"""Numbers of samplers a process may use before those of the process that resumes it."""


@attrs.frozen
class Resumption:
    """A run after `resume`.

    Attributes:
        training: Client of its model.
        next_step: The first step that is not complete.
        how: `reattached` to the model on the server; `restored` from `checkpoint` into a new
            model; `restarted` with a new model, because nothing was saved.
        notes: The notes of the run at that step.
        checkpoint: Path of the state that was loaded.
    """

    training: TrainingClient
    next_step: int
    how: Literal["reattached", "restored", "restarted"]
    notes: Mapping[str, Any] = attrs.field(factory=dict)
    checkpoint: str | None = None


@attrs.frozen
class _Optimizer:
    """An optimizer family, as it was written down."""

    fields: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.fields)


def follow(workspace: Workspace, journal: str | os.PathLike[str] | Journal) -> None:
    """Write the run of a workspace down in a journal, or in the one of this file.

    Raises:
        JournalError: The file cannot be used; it is left as it is.
    """
    mine = journal if isinstance(journal, Journal) else Journal(journal)

    async def close() -> None:
        mine.close()

    workspace.journal = mine
    workspace.closers.append(close)


# -- new models --------------------------------------------------------------------------------


def plan_new(
    workspace: Workspace, base_model: str, lora: LoraConfig, optimizer: OptimizerConfig | None
) -> LoraConfig:
    """Write down how a model is about to be made, so that it can be made again.

    Returns:
        The same settings, with a seed: without one a second model would start from other weights.
    """
    journal = _free_journal(workspace)
    if journal is None:
        return lora
    if lora.seed is None:
        known = (journal.state.plan or {}).get("seed")
        seed = random.SystemRandom().getrandbits(31) if known is None else int(known)
        lora = attrs.evolve(lora, seed=seed)
    journal.plan(
        {
            "base_model": base_model,
            "rank": lora.rank,
            "seed": lora.seed,
            "train_mlp": lora.train_mlp,
            "train_attn": lora.train_attn,
            "train_unembed": lora.train_unembed,
            "optimizer": None if optimizer is None else record_of(optimizer),
        }
    )
    return lora


def plan_state(
    workspace: Workspace, path: str, base_model: str | None, with_optimizer: bool
) -> None:
    """Write down from which state a model is about to be made."""
    journal = _free_journal(workspace)
    if journal is not None:
        journal.plan({"state": path, "base_model": base_model, "with_optimizer": with_optimizer})


def _free_journal(workspace: Workspace) -> Journal | None:
    journal = workspace.journal
    if journal is not None and journal.state.life is not None:
        raise InvalidInputError(
            f"The journal {journal.file.path} follows model {journal.state.life.model_id} "
            "already: call resume() to go on with it, or use a journal and a ServiceClient for "
            "each model."
        )
    return journal


async def began(
    workspace: Workspace,
    client: TrainingClient,
    *,
    step: int = 0,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write down that a model is trained from now on, and let the journal follow its requests."""
    journal = workspace.journal
    if journal is None:
        return
    journal.began(
        session_id=await workspace.session.ensure(),
        model_id=client.model_id,
        number=client.model_seq_id,
        first_seq_id=client.queue.next_seq_id,
        step=step,
        base_url=_public(workspace.server.base_url),
        notes=notes or {},
    )
    client.queue.record(Recorder(workspace.server, journal), client.queue.next_seq_id)
    workspace.followed = client.queue


async def complete_step(workspace: Workspace, step: int, notes: Mapping[str, Any] | None) -> None:
    """Wait for the calls of the step under way and write down that it is complete."""
    journal, queue = workspace.journal, workspace.followed
    recorder = None if queue is None else queue.recorder
    if journal is None or queue is None or not isinstance(recorder, Recorder):
        raise InvalidInputError("No run is written down: pass journal=…, then make a model.")
    if step != journal.state.next_step:
        raise InvalidInputError(
            f"Step {journal.state.next_step} is under way, so step {step} cannot be completed."
        )
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(notes or {})))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"Notes must hold what JSON can carry: {error}.") from None
    queue.pass_fillers()  # before `settle` forgets which numbers are new
    await recorder.settle()
    # Waits for the disk, so it is done beside the loop.
    await workspace.runtime.offload(
        OFFLOAD_BYTES, journal.step_done, step, queue.next_seq_id, plain
    )


async def keep_state(workspace: Workspace, training: TrainingClient, name: str) -> None:
    """Save the model between two steps, so that the run can go on from there."""
    journal = workspace.journal
    assert journal is not None
    await training.save_state(name)
    # Calls of the user after the last step are made again by a process that repeats this one, so
    # they stay written down.
    if journal.state.names == [name]:
        await workspace.runtime.offload(OFFLOAD_BYTES, journal.saved, training.queue.next_seq_id)


def _public(url: str) -> str:
    """A URL without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


# -- after a crash -----------------------------------------------------------------------------


async def resume(
    workspace: Workspace, reattach: bool, user_metadata: Mapping[str, Any] | None
) -> Resumption | None:
    """Go on with the run of the journal; None when it has made no model yet."""
    journal = workspace.journal
    if journal is None:
        raise InvalidInputError("There is nothing to resume: pass journal=… to ServiceClient.")
    state = journal.state
    if state.plan is None or state.life is None:
        return None
    life = state.life
    dialect = await workspace.server.ready()
    lost = await _lost(workspace, life)
    if lost is None:
        obstacle = _obstacle(journal, dialect) if reattach else "reattach=False was asked for"
        if obstacle is None:
            recorded = Recorder(workspace.server, journal)
            try:
                _take_wire(workspace, state, dialect)
                await recorded.read_earlier(life.model_id, workspace.seconds())
                return await _attach(workspace, recorded, life)
            except (RequestFailedError, FutureExpiredError) as error:
                obstacle = f"a request of its last step cannot be read again: {error.message}"
        log.warning("The run goes back to its last checkpoint: %s.", obstacle)
        # Its place on the server may be the only one there is.
        await workspace.session.report_end(life.session_id, "interrupted", "restored elsewhere")
    else:
        log.warning(
            "The server at %s no longer has model %s; the run goes back to its last checkpoint.",
            workspace.server.base_url,
            life.model_id,
        )
    return await _restore(workspace, journal, user_metadata, lost)


async def _lost(workspace: Workspace, life: TrainedModel) -> TinkerError | None:
    """How the server says that it has no such model; None when it has it."""
    try:
        await workspace.server.call(api.GET_INFO, model_id=life.model_id)
    except FeatureMissingError as error:
        return error
    except APIStatusError as error:
        if error.status_code in statuses.ABSENT:
            return error
        raise
    return None


def _obstacle(journal: Journal, dialect: Dialect) -> str | None:
    """Why the model on the server cannot be trusted to be what the journal says."""
    if dialect.repeats_answers:
        return None
    doubt = journal.state.in_doubt
    if doubt:
        return (
            f"request {doubt[0]} was sent and its answer not seen, and this server does not "
            "recognise repeats, so it may or may not have taken effect"
        )
    if journal.file.repaired:
        return "the journal was cut off, and this server does not recognise repeated requests"
    return None


def _take_wire(workspace: Workspace, state: State, dialect: Dialect) -> None:
    """Use the wire that the server took from the earlier process: repeats must be equal."""
    if state.wire is not None and dialect.chosen_by in ("probe", "file"):
        workspace.server.use_wire(Wire(state.wire))


async def _attach(workspace: Workspace, recorded: Recorder, life: TrainedModel) -> Resumption:
    from tinker_ext.clients.training import TrainingClient

    journal = recorded.journal
    state = journal.state
    workspace.session.adopt(life.session_id, _BLOCK * state.attached)
    await workspace.session.ensure()  # from now on it gets heartbeats, and an end
    journal.attached()
    client = TrainingClient(workspace, life.number, life.model_id)
    client.queue.record(recorded, state.next_seq_id)
    workspace.followed = client.queue
    log.info("Went on with model %s at step %d.", life.model_id, state.next_step)
    return Resumption(client, state.next_step, "reattached", state.notes)


def _what_to_do(base_url: str) -> str:
    if base_url == embedded.URL:
        return (
            "The run was on the embedded server of a process that has ended, and its checkpoints "
            "ended with it. Start over with another journal and base_url='embedded:FOLDER', which "
            "keeps them in a folder, or run `tinker-ext serve --state FOLDER`."
        )
    return (
        f"Resume with the key and the server of the run ({base_url}), or use another journal to "
        "start over."
    )


async def _restore(
    workspace: Workspace,
    journal: Journal,
    user_metadata: Mapping[str, Any] | None,
    lost: TinkerError | None,
) -> Resumption:
    from tinker_ext.clients import models

    state = journal.state
    plan = state.plan
    assert plan is not None
    life = state.life
    assert life is not None
    reason = ""
    for checkpoint in reversed(state.checkpoints):
        try:
            client = await models.load_into_new(
                workspace, checkpoint.path, user_metadata=user_metadata
            )
        except (RequestFailedError, APIStatusError) as error:
            if isinstance(error, APIStatusError) and error.status_code not in statuses.ABSENT:
                raise
            log.warning("Checkpoint %s cannot be loaded: %s", checkpoint.path, error)
            reason = reason or error.message
            continue
        return await _went_back(workspace, client, checkpoint)
    if state.checkpoints:
        # A new life would forget them, and with another key or server they may be there.
        raise JournalError(
            f"None of the {len(state.checkpoints)} checkpoints in the journal "
            f"{journal.file.path} can be loaded from {_public(workspace.server.base_url)}; the "
            f"last is {state.checkpoints[-1].path}: {reason} Nothing was changed. "
            + _what_to_do(life.base_url)
        )
    if plan.get("state") is not None:
        start = Checkpoint(str(plan["state"]), 0)
        client = await models.load_into_new(
            workspace,
            start.path,
            base_model=plan.get("base_model"),
            user_metadata=user_metadata,
            with_optimizer=bool(plan.get("with_optimizer")),
        )
        return await _went_back(workspace, client, start)
    if life.base_url != _public(workspace.server.base_url):
        raise JournalError(
            f"The journal {journal.file.path} belongs to a run on {life.base_url}, and "
            f"{_public(workspace.server.base_url)} has neither its model nor a checkpoint of it. "
            "Nothing was changed. Resume on the server of the run, or use another journal."
        )
    if isinstance(lost, PermissionDeniedError):
        raise JournalError(
            f"The model {life.model_id} of the journal {journal.file.path} is not for this key: "
            f"{lost.message} Nothing was changed. Resume with the key of the run, or use another "
            "journal to start over."
        )
    log.warning("The run has no checkpoint; it starts again at step 0.")
    lora = LoraConfig(
        rank=plan["rank"],
        seed=plan.get("seed"),
        train_mlp=plan.get("train_mlp", True),
        train_attn=plan.get("train_attn", True),
        train_unembed=plan.get("train_unembed", True),
    )
    family: Any = _Optimizer(plan["optimizer"]) if plan.get("optimizer") else None
    client = await models.create_unrecorded(
        workspace, plan["base_model"], lora, user_metadata, family
    )
    await began(workspace, client)
    return Resumption(client, 0, "restarted")


async def _went_back(
    workspace: Workspace, client: TrainingClient, checkpoint: Checkpoint
) -> Resumption:
    await began(workspace, client, step=checkpoint.next_step, notes=checkpoint.notes)
    return Resumption(client, checkpoint.next_step, "restored", checkpoint.notes, checkpoint.path)
