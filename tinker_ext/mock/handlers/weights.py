"""Saving, loading, copying and describing weights."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import attrs
import orjson

from tinker_ext.mock.handlers.models import add_model, start, ticket
from tinker_ext.mock.handlers.training import digest, seq_of, trainable
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.results import Failure, JsonResult
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.checkpoints import parse_path
from tinker_ext.mock.state.records import Checkpoint, Model
from tinker_ext.mock.state.world import World
from tinker_ext.mock.training_input import BadInput

# A name becomes a part of paths and, in a download, of a file's name.
NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._+=@ :-]{1,128}\Z")


@endpoint("POST", "save_weights", durable=True)
def save_weights(world: World, request: Request) -> Any:
    """Save weights and optimizer under a name."""
    body = request.json
    model = world.model(body["model_id"])
    name = _name(model, body.get("path"))
    expires = world.checkpoints.expiry(body.get("ttl_seconds"))
    overwrite = body.get("overwrite", False) or world.settings.era == "0.4.1"
    seq = seq_of(body.get("seq_id"))
    if not overwrite and world.settings.taken_names and not model.sequencer.knows(seq):
        _check_name_is_free(world, model, name)

    def run() -> JsonResult:
        blob = trainable(model).save(optimizer=True)
        saved = _store(world, model, "weights", name, blob, expires, body, overwrite=overwrite)
        return JsonResult({"type": "save_weights", "path": saved.path})

    promise = world.accept(model, "save_weights", seq, digest(request), run)
    return ticket(promise, model.model_id)


@endpoint("POST", "save_weights_for_sampler", durable=True)
def save_weights_for_sampler(world: World, request: Request) -> Any:
    """Save weights to sample from: under a name, or as a sampling session at once."""
    body = request.json
    model = world.model(body["model_id"])
    session = world.sessions[model.session_id]
    number = body.get("sampling_session_seq_id")
    expires = world.checkpoints.expiry(body.get("ttl_seconds"))
    name = _name(model, body.get("path"))

    def run() -> JsonResult:
        weights = trainable(model)
        if body.get("path") is None and number is not None:
            with world.lock:
                sampler = world.add_sampler(
                    session, int(number), model.base_model, None, weights.snapshot()
                )
            value: dict[str, Any] = {"sampling_session_id": sampler.sampler_id}
        else:
            blob = weights.save(optimizer=False)
            saved = _store(world, model, "sampler_weights", name, blob, expires, body)
            value = {"path": saved.path}
        return JsonResult({"type": "save_weights_for_sampler", **value})

    seq = seq_of(body.get("seq_id"))
    promise = world.accept(model, "save_weights_for_sampler", seq, _without_number(request), run)
    return ticket(promise, model.model_id)


def _without_number(request: Request) -> str:
    """Fingerprint without the sampler number, which official clients renew on a retry."""
    body = {k: v for k, v in request.json.items() if k != "sampling_session_seq_id"}
    text = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(b"sampler\0" + text, digest_size=16).hexdigest()


@endpoint("POST", "save_weights_external", durable=True)
def save_weights_external(world: World, request: Request) -> Any:
    """Save weights for download."""
    body = request.json
    model = world.model(body["model_id"])
    name = _name(model, body["path"])
    expires = world.checkpoints.expiry(body.get("ttl_seconds"))

    def run() -> JsonResult:
        if body.get("age_encryption_recipients"):
            raise BadInput("this server cannot encrypt for age recipients; leave them out")
        blob = trainable(model).save(optimizer=False)
        saved = _store(world, model, "external_weights", name, blob, expires, body)
        return JsonResult(
            {"type": "save_weights_external", "path": saved.path, "size_bytes": saved.size}
        )

    seq = seq_of(body.get("seq_id"))
    promise = world.accept(model, "save_weights_external", seq, digest(request), run)
    return ticket(promise, model.model_id)


@endpoint("POST", "load_weights", durable=True)
def load_weights(world: World, request: Request) -> Any:
    """Load weights into a model, or into a new one addressed by session and number."""
    body = request.json
    if world.settings.era == "0.36.0" and "optimizer" not in body:
        missing = {"loc": ["body", "optimizer"], "msg": "Field required", "type": "missing"}
        raise HttpError(422, [missing])
    if body.get("model_id") is None:
        return _load_as_new_model(world, body)
    model = world.model(body["model_id"])
    path, optimizer = body["path"], body.get("optimizer", True)
    seq = seq_of(body.get("seq_id"))
    if world.settings.load_first and seq not in (None, 1):
        raise HttpError(400, f"LoadWeights is not permitted with seq_id {seq}")
    if world.settings.seq == "late" and seq == model.sequencer.expected:
        try:
            _training_checkpoint(world, path)
        except (BadInput, ValueError) as error:
            # As TuFT 0.2.2 does: refused before its turn, so the number is not used up.
            model.sequencer.kept.add(seq)
            promise = world.fail_late(model, "load_weights", Failure(str(error), "user"))
            return ticket(promise, model.model_id)

    def run() -> JsonResult:
        saved = _training_checkpoint(world, path)
        trainable(model).load(saved.blob, optimizer=optimizer)
        return JsonResult({"type": "load_weights", "path": path})

    promise = world.accept(model, "load_weights", seq, digest(request), run)
    return ticket(promise, model.model_id)


def _load_as_new_model(world: World, body: dict[str, Any]) -> dict[str, Any]:
    if body.get("session_id") is None or body.get("model_seq_id") is None:
        text = "give model_id, or session_id with model_seq_id"
        raise HttpError(422, [{"loc": ["body", "model_id"], "msg": text, "type": "missing"}])
    session = world.session(body["session_id"])
    number = int(body["model_seq_id"])
    known = session.models.get(number)
    if known is not None:
        if world.settings.seq == "strict":
            raise HttpError(409, f"model {known} exists already")
        return {"request_id": world.models[known].create_request, "model_id": known}
    try:
        saved = _training_checkpoint(world, body["path"])
    except (BadInput, ValueError) as error:
        raise HttpError(404, str(error)) from None
    base = world.base_model(saved.base_model)
    model = add_model(
        world,
        session,
        number,
        base_model=base.name,
        lora_config=saved.lora_config,
        optimizer_config=body.get("optimizer_config") or saved.optimizer_config,
        user_metadata=body.get("user_metadata"),
    )

    def build() -> JsonResult:
        fresh = world.compute.create(base, saved.lora_config)
        fresh.load(saved.blob, optimizer=body.get("optimizer", True))
        model.trainable = fresh
        value = {"type": "load_weights", "path": saved.path, "model_id": model.model_id}
        return JsonResult(value)

    return ticket(start(world, model, "load_weights", build), model.model_id)


@endpoint("POST", "copy_weights", durable=True)
def copy_weights(world: World, request: Request) -> Any:
    """Copy a checkpoint to a new run; one idempotency key makes one copy."""
    body = request.json
    key = request.headers.get("x-idempotency-key", "")
    if key and key in world.copies:
        return {"tinker_path": world.copies[key]}
    expires = world.checkpoints.expiry(body.get("ttl_seconds"))
    try:
        source = world.checkpoints.get(body["source_path"])
    except ValueError as error:
        raise HttpError(404, str(error)) from None
    run_id = f"{world.ids.uuid('copy')}:train:0"
    if body.get("session_id") is not None:
        world.session(body["session_id"])
        run_id = f"{body['session_id']}:train:{int(body.get('model_seq_id') or 0)}"
    copy = attrs.evolve(
        source,
        run_id=run_id,
        created=world.clock.unix(),
        public=False,
        expires=expires,
        project_id=body.get("destination_project_id") or source.project_id,
    )
    world.checkpoints.put(copy)
    world.ledger.note("checkpoint", "copied", {"from": source.path, "to": copy.path})
    if key:
        world.copies[key] = copy.path
    return {"tinker_path": copy.path}


@endpoint("POST", "weights_info")
def weights_info(world: World, request: Request) -> Any:
    """Describe a checkpoint."""
    try:
        saved = world.checkpoints.get(request.json["tinker_path"])
    except ValueError as error:
        raise HttpError(404, str(error)) from None
    lora = saved.lora_config or {}
    value: dict[str, Any] = {
        "base_model": saved.base_model,
        "optimizer_config": saved.optimizer_config,
        "is_lora": saved.lora_config is not None,
    }
    if saved.lora_config is not None:
        value["lora_rank"] = lora["rank"]
        for name in ("train_unembed", "train_mlp", "train_attn"):
            value[name] = lora.get(name, True)
    return value


def _training_checkpoint(world: World, path: str) -> Checkpoint:
    _, kind, _ = parse_path(path)
    if kind != "weights":
        raise BadInput(f"{path} holds {kind}; only a path of save_state can be trained on")
    with world.lock:
        return world.checkpoints.get(path)


def _name(model: Model, path: str | None) -> str:
    """Return the checkpoint's name; without one it is a running number of the model."""
    if path is None:
        model.saves += 1
        return f"{model.saves:06d}"
    name = path
    if path.startswith("tinker://"):
        name = path.rsplit("/", 1)[-1]
    if not NAME.match(name):
        raise HttpError(
            400,
            f"checkpoint name {name!r}: use 1–128 letters, digits and ._+=@:- without a slash; "
            "'.' and '..' are not names",
        )
    return name


def _check_name_is_free(world: World, model: Model, name: str) -> None:
    path = f"tinker://{model.model_id}/weights/{name}"
    if world.checkpoints.find(path) is not None:
        raise HttpError(
            409,
            f"Checkpoint '{name}' already exists for model {model.model_id} in weights. "
            "Please choose a different name to avoid overwriting.",
        )


def _store(
    world: World,
    model: Model,
    kind: str,
    name: str,
    blob: dict[str, Any],
    expires: float | None,
    body: dict[str, Any],
    *,
    overwrite: bool = True,
) -> Checkpoint:
    session = world.sessions[model.session_id]
    saved = Checkpoint(
        kind=kind,
        name=name,
        run_id=model.model_id,
        base_model=model.base_model,
        created=world.clock.unix(),
        blob=blob,
        lora_config=model.lora_config,
        optimizer_config=model.optimizer_config,
        project_id=session.project_id,
        user_metadata=body.get("user_metadata"),
        expires=expires,
    )
    with world.lock:
        if not overwrite and world.checkpoints.find(saved.path) is not None:
            raise BadInput(f"{saved.path} exists; choose another name or send overwrite=true")
        world.checkpoints.put(saved)
        world.ledger.note("checkpoint", "created", {"tinker_path": saved.path})
        world.ledger.count(
            "checkpoint",
            1,
            session=session.session_id,
            project=session.project_id,
            model=model.base_model,
        )
    return saved
