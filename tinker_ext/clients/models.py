"""Making training clients: a new adapter, or one that continues from a saved state."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, cast

import attrs
from tinker_api import operations as api

from tinker_ext.clients import journaling
from tinker_ext.clients.arguments import record_of
from tinker_ext.clients.training import TrainingClient
from tinker_ext.core.workspace import Workspace
from tinker_ext.errors import ConflictError, FeatureMissingError
from tinker_ext.types.optimizer import LoraConfig, OptimizerConfig


async def create(
    workspace: Workspace,
    base_model: str,
    lora: LoraConfig,
    user_metadata: Mapping[str, Any] | None,
    optimizer: OptimizerConfig | None,
) -> TrainingClient:
    """Create a model on the server and the client that trains it."""
    lora = journaling.plan_new(workspace, base_model, lora, optimizer)
    client = await create_unrecorded(workspace, base_model, lora, user_metadata, optimizer)
    await journaling.began(workspace, client)
    return client


async def create_unrecorded(
    workspace: Workspace,
    base_model: str,
    lora: LoraConfig,
    user_metadata: Mapping[str, Any] | None,
    optimizer: OptimizerConfig | None,
) -> TrainingClient:
    """The same, without a word to the journal."""
    arguments: dict[str, Any] = {
        "session_id": await workspace.session.ensure(),
        "model_seq_id": workspace.session.next_model_seq_id(),
        "base_model": base_model,
        "user_metadata": user_metadata,
        "lora_config": lora,
        "optimizer_config": None if optimizer is None else record_of(optimizer),
    }
    seconds = workspace.seconds()
    try:
        reply = await workspace.run(api.CREATE_MODEL, arguments, base_model, seconds)
    except ConflictError:
        # The answer to this number was lost, and the server does not repeat it; a model that
        # nobody knows of is unused, and another number gives another one.
        arguments["model_seq_id"] = workspace.session.next_model_seq_id()
        reply = await workspace.run(api.CREATE_MODEL, arguments, base_model, seconds)
    number: int = arguments["model_seq_id"]
    workspace.watchers.name_model(reply.model_id, base_model)
    return TrainingClient(workspace, number, reply.model_id)


@attrs.frozen
class _Origin:
    """What must be known about saved weights to continue from them."""

    base_model: str
    lora: LoraConfig
    user_metadata: Mapping[str, Any] | None = None
    optimizer: OptimizerConfig | None = None


async def from_state(
    workspace: Workspace,
    path: str,
    *,
    base_model: str | None,
    user_metadata: Mapping[str, Any] | None,
    weights_access_token: str | None,
    optimizer: OptimizerConfig | None,
    with_optimizer: bool,
) -> TrainingClient:
    """Create a model like the one that was saved and load the saved weights into it."""
    journaling.plan_state(workspace, path, base_model, with_optimizer)
    client = await load_into_new(
        workspace,
        path,
        base_model=base_model,
        user_metadata=user_metadata,
        weights_access_token=weights_access_token,
        optimizer=optimizer,
        with_optimizer=with_optimizer,
    )
    await journaling.began(workspace, client)
    return client


async def load_into_new(
    workspace: Workspace,
    path: str,
    *,
    base_model: str | None = None,
    user_metadata: Mapping[str, Any] | None = None,
    weights_access_token: str | None = None,
    optimizer: OptimizerConfig | None = None,
    with_optimizer: bool = True,
) -> TrainingClient:
    """The same, without a word to the journal."""
    dialect = await workspace.server.ready()
    if dialect.config.create_model_via_load_weights:
        return await _create_by_loading(
            workspace,
            path,
            base_model=base_model,
            user_metadata=user_metadata,
            weights_access_token=weights_access_token,
            optimizer=optimizer,
            with_optimizer=with_optimizer,
        )
    origin = await _origin(workspace, path, weights_access_token)
    merged = {**(origin.user_metadata or {}), **(user_metadata or {})} or None
    client = await create_unrecorded(
        workspace,
        base_model or origin.base_model,
        origin.lora,
        merged,
        optimizer or (origin.optimizer if with_optimizer else None),
    )
    await client._load(path, with_optimizer, weights_access_token)
    return client


async def _create_by_loading(
    workspace: Workspace,
    path: str,
    *,
    base_model: str | None,
    user_metadata: Mapping[str, Any] | None,
    weights_access_token: str | None,
    optimizer: OptimizerConfig | None,
    with_optimizer: bool,
) -> TrainingClient:
    session_id = await workspace.session.ensure()
    number = workspace.session.next_model_seq_id()
    arguments = {
        "path": path,
        "optimizer": with_optimizer,
        "session_id": session_id,
        "model_seq_id": number,
        "base_model": base_model,
        "user_metadata": user_metadata,
        "optimizer_config": None if optimizer is None else record_of(optimizer),
        "weights_access_token": weights_access_token,
    }
    reply = await workspace.run(api.LOAD_WEIGHTS, arguments, path, workspace.seconds())
    model_id = getattr(reply, "model_id", None) or f"{session_id}:train:{number}"
    workspace.watchers.name_model(model_id, base_model)
    return TrainingClient(workspace, number, model_id)


async def _origin(workspace: Workspace, path: str, token: str | None) -> _Origin:
    if not workspace.server.lacks(api.GET_WEIGHTS_INFO):
        with contextlib.suppress(FeatureMissingError):
            return await _from_weights_info(workspace, path, token)
    return await _from_training_run(workspace, path)


async def _from_weights_info(workspace: Workspace, path: str, token: str | None) -> _Origin:
    headers = (("X-API-Key", token),) if token is not None else ()
    info = await workspace.server.call(api.GET_WEIGHTS_INFO, headers=headers, tinker_path=path)
    tag = getattr(info.optimizer_config, "type", None) or getattr(
        info.optimizer_config, "type_", None
    )
    return _Origin(
        info.base_model,
        LoraConfig(
            rank=info.lora_rank or 32,
            train_unembed=info.train_unembed is not False,
            train_mlp=info.train_mlp is not False,
            train_attn=info.train_attn is not False,
        ),
        optimizer=cast("OptimizerConfig", info.optimizer_config)
        if tag not in (None, "adamw")
        else None,
    )


async def _from_training_run(workspace: Workspace, path: str) -> _Origin:
    """First-era servers: the run itself says what it trains."""
    run_id = path.partition("://")[2].partition("/")[0]
    run = await workspace.server.call(api.GET_TRAINING_RUN, training_run_id=run_id)
    return _Origin(run.base_model, LoraConfig(rank=run.lora_rank or 32), run.user_metadata)
