"""Models: creation, description, unloading."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from tinker_ext.mock.futures import Promise
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.results import JsonResult
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.seq import Sequencer
from tinker_ext.mock.state.records import Model, Session
from tinker_ext.mock.state.world import World, guarded

MOE = re.compile(r"-A\d+(\.\d+)?B|gpt-oss|DeepSeek-V|Kimi-K2")
"""Names of mixture-of-experts models: the active size (`30B-A3B`), or a family of them."""


def ticket(promise: Promise, model_id: str | None = None) -> dict[str, Any]:
    """Return the UntypedAPIFuture of an accepted request."""
    value: dict[str, Any] = {"request_id": promise.request_id}
    if model_id is not None:
        value["model_id"] = model_id
    return value


@endpoint("POST", "create_model", durable=True)
def create_model(world: World, request: Request) -> Any:
    """Create a model under the client's number; the same number names the same model."""
    body = request.json
    session = world.session(body["session_id"])
    base = world.base_model(body["base_model"])
    number = int(body["model_seq_id"])
    known = session.models.get(number)
    if known is not None:
        return _known(world, known)
    lora = body.get("lora_config")
    if lora is not None:
        _check_lora(world, lora, base.name)
        lora = {**lora, "rank": int(lora["rank"])}
    model = add_model(
        world,
        session,
        number,
        base_model=base.name,
        lora_config=lora,
        optimizer_config=body.get("optimizer_config") or {"type": "adamw"},
        user_metadata=body.get("user_metadata"),
    )

    def build() -> JsonResult:
        model.trainable = world.compute.create(base, lora)
        return JsonResult({"type": "create_model", "model_id": model.model_id})

    return ticket(start(world, model, "create_model", build), model.model_id)


def _known(world: World, model_id: str) -> dict[str, Any]:
    if world.settings.seq == "strict":
        raise HttpError(409, f"model {model_id} exists already")
    request_id = world.models[model_id].create_request
    return {"request_id": request_id, "model_id": model_id}


def _check_lora(world: World, lora: dict[str, Any], base_model: str) -> None:
    rank, limit = lora["rank"], world.settings.rank_limit
    if world.settings.moe_rank_limit is not None and MOE.search(base_model):
        limit = world.settings.moe_rank_limit
    if rank < 1:
        raise HttpError(400, f"lora_config.rank must be at least 1, got {rank}")
    if rank > limit:
        raise HttpError(
            400, f"Lora_config.rank {rank} exceeds max LoRA rank {limit} for model {base_model}"
        )
    switches = ("train_unembed", "train_mlp", "train_attn")
    if not any(lora.get(name, True) for name in switches):
        raise HttpError(400, f"at least one of {', '.join(switches)} must be true")


def add_model(world: World, session: Session, number: int, **fields: Any) -> Model:
    """Register a model; its weights come with the job that builds them."""
    model_id = f"{session.session_id}:train:{number}"
    now = world.clock.unix()
    model = Model(
        model_id=model_id,
        session_id=session.session_id,
        created=now,
        last_request=now,
        create_request="",
        sequencer=Sequencer(world.settings.seq, any_body=world.bug("dedupe_any_body")),
        **fields,
    )
    world.models[model_id] = model
    session.models[number] = model_id
    return model


def start(world: World, model: Model, kind: str, build: Callable[[], JsonResult]) -> Promise:
    """Build a model on the worker, or queue it while there is no room."""
    promise = world.promise(kind, model_id=model.model_id, session_id=model.session_id)
    model.create_request = promise.request_id

    def job() -> None:
        outcome = guarded(build)
        world.promises.settle(promise, outcome)

    def submit() -> None:
        world.worker.submit("train", job)

    limit = world.settings.models_limit
    loaded = sum(1 for m in world.models.values() if not m.unloaded) - 1
    if limit is not None and loaded >= limit:
        promise.queue_state = world.settings.models_limit_state
        promise.paused_until = math.inf
        promise.queue_reason = (
            "concurrent LoRA rate limit hit"
            if promise.queue_state == "paused_rate_limit"
            else f"{limit} models are loaded; unload one or finish a session"
        )
        world.waiting_for_capacity.append((promise, submit))
    else:
        submit()
    return promise


@endpoint("POST", "get_info")
def get_info(world: World, request: Request) -> Any:
    """Describe a model; its tokenizer_id resolves without a network."""
    model = world.model(request.json["model_id"])
    base = world.base_model(model.base_model)
    value: dict[str, Any] = {
        "type": "get_info",
        "model_id": model.model_id,
        "model_data": {
            "arch": "tinker-ext-decoder",
            "model_name": model.base_model,
            "tokenizer_id": base.tokenizer_id,
        },
        "is_lora": model.lora_config is not None,
        "lora_rank": model.lora_rank,
        "model_name": model.base_model,
    }
    if world.settings.era != "0.4.1":
        value["optimizer_config"] = model.optimizer_config
    return value


@endpoint("POST", "unload_model", durable=True)
def unload_model(world: World, request: Request) -> Any:
    """Free a model once its queued operations are done."""
    model = world.model(request.json["model_id"])
    promise = world.promise("unload_model", model_id=model.model_id)
    value = {"type": "unload_model", "model_id": model.model_id}
    world.worker.submit("train", lambda: world.promises.settle(promise, JsonResult(value)))
    world.free([model])
    return ticket(promise, model.model_id)
