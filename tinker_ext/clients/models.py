"""Where training clients come from: a new model, a saved state, or the journal of a run."""

from __future__ import annotations

import contextlib
import json
import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import attrs
from tinker_api import operations as api

import tinker_ext._statuses as statuses
from tinker_ext._wire.dialect import Dialect, Wire
from tinker_ext._wire.json_codec import dumps
from tinker_ext.clients.arguments import (
    check_base_model,
    check_metadata,
    check_optimizer,
    record_of,
)
from tinker_ext.clients.training import TrainingClient
from tinker_ext.core.loop import OFFLOAD_BYTES
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import (
    APIStatusError,
    ConflictError,
    FeatureMissingError,
    FutureExpiredError,
    InvalidInputError,
    PermissionDeniedError,
    RequestFailedError,
    TinkerError,
)
from tinker_ext.journal import Checkpoint, Journal, JournalError, TrainedModel
from tinker_ext.journal.journal import ADAPTER
from tinker_ext.journal.recorder import Recorder
from tinker_ext.mock import embedded
from tinker_ext.types.optimizer import LoraConfig, OptimizerConfig, OptimizerConfigBase

log = logging.getLogger("tinker_ext")

_BLOCK: Final = 1_000_000
"""Numbers of samplers a process may use before those of the process that resumes it."""


@attrs.frozen
class NewModel:
    """What a new model is made of."""

    base_model: str
    lora: LoraConfig
    user_metadata: Mapping[str, Any] | None = None
    optimizer: OptimizerConfig | None = None

    def plan(self) -> dict[str, Any]:
        """How the model is made, in the JSON that a journal gives back."""
        family = None if self.optimizer is None else record_of(self.optimizer)
        adapter = {name: getattr(self.lora, name) for name in ADAPTER}
        plan = {"base_model": self.base_model, **adapter, "optimizer": family}
        written: dict[str, Any] = json.loads(dumps(plan))
        return written


def new_model(
    base_model: str,
    rank: int,
    seed: int | None,
    train_mlp: bool,
    train_attn: bool,
    train_unembed: bool,
    user_metadata: Mapping[str, Any] | None,
    optimizer: OptimizerConfig | None,
) -> NewModel:
    """What a user asks for; refused when it is not a model, or when nothing of it would train."""
    check_base_model(base_model)
    check_metadata(user_metadata)
    check_optimizer(optimizer)
    where = {"train_mlp": train_mlp, "train_attn": train_attn, "train_unembed": train_unembed}
    lora = LoraConfig(rank=rank, seed=seed, **where)
    if not (lora.train_mlp or lora.train_attn or lora.train_unembed):
        raise InvalidInputError(
            "Nothing would be trained: set train_mlp, train_attn or train_unembed."
        )
    return NewModel(base_model, lora, user_metadata, optimizer)


@attrs.frozen
class SavedState:
    """Which saved state a model is made from, and how."""

    path: str
    base_model: str | None = None
    user_metadata: Mapping[str, Any] | None = None
    weights_access_token: str | None = None
    optimizer: OptimizerConfig | None = None
    with_optimizer: bool = True


async def create(workspace: Workspace, model: NewModel) -> TrainingClient:
    """Create a model on the server and the client that trains it."""
    client = await _create(workspace, _planned(workspace, model))
    await _begin(workspace, client)
    return client


async def load(workspace: Workspace, state: SavedState) -> TrainingClient:
    """Create a model like the one that was saved and load the saved weights into it."""
    journal = _free_journal(workspace)
    if journal is not None:
        plan = {"state": state.path, "base_model": state.base_model}
        journal.plan({**plan, "with_optimizer": state.with_optimizer})
    client = await _load(workspace, state)
    await _begin(workspace, client)
    return client


async def _create(workspace: Workspace, model: NewModel) -> TrainingClient:
    arguments: dict[str, Any] = {
        "session_id": await workspace.session.ensure(),
        "model_seq_id": workspace.session.next_model_seq_id(),
        "base_model": model.base_model,
        "user_metadata": model.user_metadata,
        "lora_config": model.lora,
        "optimizer_config": None if model.optimizer is None else record_of(model.optimizer),
    }
    seconds = workspace.seconds()
    try:
        reply = await workspace.run(api.CREATE_MODEL, arguments, model.base_model, seconds)
    except ConflictError:
        # The answer to this number was lost, and the server does not repeat it; a model that
        # nobody knows of is unused, and another number gives another one.
        arguments["model_seq_id"] = workspace.session.next_model_seq_id()
        reply = await workspace.run(api.CREATE_MODEL, arguments, model.base_model, seconds)
    number: int = arguments["model_seq_id"]
    workspace.watchers.name_model(reply.model_id, model.base_model)
    return TrainingClient(workspace, number, reply.model_id)


async def _load(workspace: Workspace, state: SavedState) -> TrainingClient:
    dialect = await workspace.server.ready()
    if dialect.config.create_model_via_load_weights:
        return await _create_by_loading(workspace, state)
    saved = await _saved_model(workspace, state)
    model = NewModel(
        state.base_model or saved.base_model,
        saved.lora,
        {**(saved.user_metadata or {}), **(state.user_metadata or {})} or None,
        state.optimizer or (saved.optimizer if state.with_optimizer else None),
    )
    client = await _create(workspace, model)
    await client._load(state.path, state.with_optimizer, state.weights_access_token)
    return client


async def _create_by_loading(workspace: Workspace, state: SavedState) -> TrainingClient:
    session_id = await workspace.session.ensure()
    number = workspace.session.next_model_seq_id()
    arguments = {
        "path": state.path,
        "optimizer": state.with_optimizer,
        "session_id": session_id,
        "model_seq_id": number,
        "base_model": state.base_model,
        "user_metadata": state.user_metadata,
        "optimizer_config": None if state.optimizer is None else record_of(state.optimizer),
        "weights_access_token": state.weights_access_token,
    }
    reply = await workspace.run(api.LOAD_WEIGHTS, arguments, state.path, workspace.seconds())
    model_id = getattr(reply, "model_id", None) or f"{session_id}:train:{number}"
    workspace.watchers.name_model(model_id, state.base_model)
    return TrainingClient(workspace, number, model_id)


async def _saved_model(workspace: Workspace, state: SavedState) -> NewModel:
    """What the server says about the model that was saved."""
    server, op, token = workspace.server, api.GET_WEIGHTS_INFO, state.weights_access_token
    if not server.lacks(op):
        headers = (("X-API-Key", token),) if token is not None else ()
        with contextlib.suppress(FeatureMissingError):
            info = await server.call(op, headers=headers, tinker_path=state.path)
            where = {name: getattr(info, name) is not False for name in ADAPTER[2:]}
            family: Any = info.optimizer_config
            tag = getattr(family, "type", None) or getattr(family, "type_", None)
            lora = LoraConfig(rank=info.lora_rank or 32, **where)
            return NewModel(
                info.base_model, lora, optimizer=None if tag in (None, "adamw") else family
            )
    # First-era servers: the run itself says what it trains.
    run_id = state.path.partition("://")[2].partition("/")[0]
    run = await server.call(api.GET_TRAINING_RUN, training_run_id=run_id)
    return NewModel(run.base_model, LoraConfig(rank=run.lora_rank or 32), run.user_metadata)


# -- in a journal ------------------------------------------------------------------------------


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


def _planned(workspace: Workspace, model: NewModel) -> NewModel:
    """Record how a model is about to be made, so that it can be made again: with a seed."""
    journal = _free_journal(workspace)
    if journal is None:
        return model
    if model.lora.seed is None:
        known = (journal.state.plan or {}).get("seed")
        seed = random.SystemRandom().getrandbits(31) if known is None else int(known)
        model = attrs.evolve(model, lora=attrs.evolve(model.lora, seed=seed))
    journal.plan(model.plan())
    return model


def _free_journal(workspace: Workspace) -> Journal | None:
    journal = workspace.journal
    if journal is not None and journal.state.model is not None:
        raise InvalidInputError(
            f"The journal {journal.file.path} follows model {journal.state.model.model_id} "
            "already: call resume() to go on with it, or use a journal and a ServiceClient for "
            "each model."
        )
    return journal


async def _begin(
    workspace: Workspace,
    client: TrainingClient,
    *,
    step: int = 0,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Record that a model is trained from now on, and let the journal follow its requests."""
    journal = workspace.journal
    if journal is None:
        return
    journal.note(
        "model",
        session=await workspace.session.ensure(),
        model=client.model_id,
        number=client.model_seq_id,
        seq=client.queue.next_seq_id,
        step=step,
        url=_public(workspace.server.base_url),
        notes=dict(notes or {}),
        process=embedded.process(workspace.server.base_url),
    )
    client.queue.recorder = Recorder(workspace.server, journal)
    workspace.followed = client.queue


async def complete_step(workspace: Workspace, step: int, notes: Mapping[str, Any] | None) -> None:
    """Wait for the calls of the step under way and record that it is complete."""
    journal, queue = workspace.journal, workspace.followed
    recorder = None if queue is None else queue.recorder
    if journal is None or queue is None or recorder is None:
        raise InvalidInputError("No run is recorded: pass journal=…, then make a model.")
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
    # they stay in the journal.
    if journal.state.names == [name]:
        saved = partial(journal.note, "saved", seq=training.queue.next_seq_id)
        await workspace.runtime.offload(OFFLOAD_BYTES, saved)


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
    if state.plan is None or state.model is None:
        return None
    model = state.model
    dialect = await workspace.server.ready()
    lost = await _lost(workspace, model)
    if lost is None and not _ended_with_its_process(workspace, model):
        obstacle = _obstacle(journal, dialect) if reattach else "reattach=False was asked for"
        if obstacle is None:
            recorded = Recorder(workspace.server, journal)
            try:
                if state.wire is not None and dialect.chosen_by in ("probe", "file"):
                    # What the server took from the earlier process: repeats must be equal.
                    workspace.server.use_wire(Wire(state.wire))
                await recorded.read_earlier(model.model_id, workspace.seconds())
                return await _attach(workspace, recorded, model)
            except (RequestFailedError, FutureExpiredError, ConflictError) as error:
                # 409 at a poll: the server accepted the request and did not do it.
                obstacle = f"a request of its last step cannot be read again: {error.message}"
        log.warning("The run goes back to its last checkpoint: %s.", obstacle)
        # Its place on the server may be the only one there is.
        await workspace.session.report_end(model.session_id, "interrupted", "restored elsewhere")
    else:
        log.warning(
            "The server at %s no longer has model %s; the run goes back to its last checkpoint.",
            workspace.server.base_url,
            model.model_id,
        )
    return await _restore(workspace, journal, user_metadata, lost)


def _ended_with_its_process(workspace: Workspace, model: TrainedModel) -> bool:
    """Whether what has its id, and the ids of its checkpoints, on this server is another model."""
    here = embedded.process(workspace.server.base_url)
    return here is not None and here != model.process


async def _lost(workspace: Workspace, model: TrainedModel) -> TinkerError | None:
    """How the server says that it has no such model; None when it has it."""
    try:
        await workspace.server.call(api.GET_INFO, model_id=model.model_id)
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


async def _attach(workspace: Workspace, recorded: Recorder, model: TrainedModel) -> Resumption:
    journal = recorded.journal
    state = journal.state
    workspace.session.adopt(model.session_id, _BLOCK * state.attached)
    await workspace.session.ensure()  # from now on it gets heartbeats, and an end
    journal.note("attach")
    client = TrainingClient(workspace, model.number, model.model_id)
    client.queue.recorder, client.queue.next_seq_id = recorded, state.next_seq_id
    workspace.followed = client.queue
    log.info("Went on with model %s at step %d.", model.model_id, state.next_step)
    return Resumption(client, state.next_step, "reattached", state.notes)


def _what_to_do(base_url: str) -> str:
    if embedded.process(base_url) is not None:
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
    state = journal.state
    plan = state.plan
    assert plan is not None
    model = state.model
    assert model is not None
    ended = _ended_with_its_process(workspace, model)
    reason = "it is of another process." if ended else ""
    for checkpoint in () if ended else reversed(state.checkpoints):
        try:
            client = await _load(
                workspace, SavedState(checkpoint.path, user_metadata=user_metadata)
            )
        except (RequestFailedError, APIStatusError) as error:
            if isinstance(error, APIStatusError) and error.status_code not in statuses.ABSENT:
                raise
            log.warning("Checkpoint %s cannot be loaded: %s", checkpoint.path, error)
            reason = reason or error.message
            continue
        return await _went_back(workspace, client, checkpoint)
    if state.checkpoints:
        # A new model would forget them, and with another key or server they may be there.
        raise JournalError(
            f"None of the {len(state.checkpoints)} checkpoints in the journal "
            f"{journal.file.path} can be loaded from {_public(workspace.server.base_url)}; the "
            f"last is {state.checkpoints[-1].path}: {reason} Nothing was changed. "
            + _what_to_do(model.base_url)
        )
    if plan.get("state") is not None:
        start = Checkpoint(str(plan["state"]), 0)
        origin = SavedState(
            start.path,
            plan.get("base_model"),
            user_metadata,
            with_optimizer=bool(plan.get("with_optimizer")),
        )
        client = await _load(workspace, origin)
        return await _went_back(workspace, client, start)
    if model.base_url != _public(workspace.server.base_url):
        raise JournalError(
            f"The journal {journal.file.path} belongs to a run on {model.base_url}, and "
            f"{_public(workspace.server.base_url)} has neither its model nor a checkpoint of it. "
            "Nothing was changed. Resume on the server of the run, or use another journal."
        )
    if isinstance(lost, PermissionDeniedError):
        raise JournalError(
            f"The model {model.model_id} of the journal {journal.file.path} is not for this key: "
            f"{lost.message} Nothing was changed. Resume with the key of the run, or use another "
            "journal to start over."
        )
    cause = (
        " It was on the embedded server of a process that has ended; base_url='embedded:FOLDER' "
        "keeps its state in a folder."
    )
    log.warning("The run has no checkpoint; it starts again at step 0.%s", cause if ended else "")
    lora = LoraConfig(**{name: plan[name] for name in ADAPTER if name in plan})
    family = OptimizerConfigBase(**plan["optimizer"]) if plan.get("optimizer") else None
    again = NewModel(plan["base_model"], lora, user_metadata, family)
    client = await _create(workspace, again)
    await _begin(workspace, client)
    return Resumption(client, 0, "restarted")


async def _went_back(
    workspace: Workspace, client: TrainingClient, checkpoint: Checkpoint
) -> Resumption:
    await _begin(workspace, client, step=checkpoint.next_step, notes=checkpoint.notes)
    return Resumption(client, checkpoint.next_step, "restored", checkpoint.notes, checkpoint.path)
