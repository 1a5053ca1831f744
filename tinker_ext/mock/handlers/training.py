"""Training operations: losses, gradients, optimizer steps, custom losses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tinker_ext.mock.compute import Trainable
from tinker_ext.mock.handlers.models import ticket
from tinker_ext.mock.messages import JSON, PROTOBUF, HttpError, Request
from tinker_ext.mock.results import JsonResult, LossResult
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.records import Model
from tinker_ext.mock.state.world import World
from tinker_ext.mock.training_input import BadInput, Batch, from_json, from_proto


def digest(request: Request) -> str:
    """Return the fingerprint of a request, by which a repeat is told from a conflict."""
    path = request.template.encode()
    return hashlib.blake2b(path + b"\0" + request.body, digest_size=16).hexdigest()


def trainable(model: Model) -> Trainable:
    """Return the weights of a model.

    Raises:
        BadInput: The model was never built or is gone.
    """
    if model.trainable is None:
        raise BadInput(f"model {model.model_id} is not loaded; create it again")
    return model.trainable


def seq_of(value: Any) -> int | None:
    """Return a seq_id of a JSON body as an integer."""
    return None if value is None else int(value)


@endpoint("POST", "forward", durable=True)
def forward(world: World, request: Request) -> Any:
    """Compute losses from a JSON body."""
    _wants(world, JSON)
    body = request.json
    read = _reader(body["forward_input"], forward_only=True)
    return _run(world, request, "forward", body["model_id"], seq_of(body.get("seq_id")), read)


@endpoint("POST", "forward_backward", durable=True)
def forward_backward(world: World, request: Request) -> Any:
    """Compute losses and add up gradients, from JSON or protobuf."""
    if request.content_type == PROTOBUF:
        _wants(world, PROTOBUF)
        try:
            model_id, seq, batch = from_proto(request.body)
        except BadInput as error:
            raise HttpError(
                422, [{"loc": ["body"], "msg": str(error), "type": "protobuf"}]
            ) from None
        kind = "forward" if batch.forward_only else "forward_backward"
        return _run(world, request, kind, model_id, seq, lambda: batch)
    _wants(world, JSON)
    body = request.json
    read = _reader(body["forward_backward_input"], forward_only=False)
    seq = seq_of(body.get("seq_id"))
    return _run(world, request, "forward_backward", body["model_id"], seq, read)


def _reader(value: dict[str, Any], *, forward_only: bool) -> Callable[[], Batch]:
    """Delay the conversion to arrays until the engine's thread does it."""
    return lambda: from_json(value, forward_only=forward_only)


def _wants(world: World, media: str) -> None:
    allowed = {"json": (JSON,), "proto": (PROTOBUF,), "both": (JSON, PROTOBUF)}
    if media not in allowed[world.settings.bodies]:
        text = f"this server does not take {media} here; send {allowed[world.settings.bodies][0]}"
        raise HttpError(422, [{"loc": ["header", "content-type"], "msg": text, "type": "media"}])


def _run(
    world: World,
    request: Request,
    kind: str,
    model_id: str,
    seq: int | None,
    read: Callable[[], Batch],
) -> dict[str, Any]:
    model = world.model(model_id)
    session = world.sessions[model.session_id]

    def run() -> LossResult:
        batch = read()
        result = trainable(model).run(batch)
        world.ledger.count(
            "training",
            batch.token_count,
            session=session.session_id,
            project=session.project_id,
            model=model.base_model,
        )
        return result

    promise = world.accept(model, kind, seq, digest(request), run)
    return ticket(promise, model_id)


@endpoint("POST", "optim_step", durable=True)
def optim_step(world: World, request: Request) -> Any:
    """Apply the gradients added up since the last step."""
    body = request.json
    model = world.model(body["model_id"])
    params = body.get("optimizer_params") or body.get("adam_params") or {}

    def run() -> JsonResult:
        return JsonResult({"metrics": trainable(model).optim_step(params)})

    promise = world.accept(model, "optim_step", seq_of(body.get("seq_id")), digest(request), run)
    return ticket(promise, model.model_id)


@endpoint("POST", "create_custom_loss", durable=True)
def create_custom_loss(world: World, request: Request) -> Any:
    """Store the graph of a custom loss under the client's number."""
    body = request.json
    session = world.session(body["session_id"])
    number = int(body["custom_loss_seq_id"])
    loss_id = session.losses.get(number)
    if loss_id is not None and world.settings.seq == "strict":
        raise HttpError(409, f"custom loss {loss_id} exists already")
    if loss_id is None:
        loss_id = f"{session.session_id}:loss:{number}"
        session.losses[number] = loss_id
        world.custom_losses[loss_id] = {
            "name": body["name"],
            "inputs": body["inputs"],
            "graph": body["graph"],
        }
    promise = world.promise("create_custom_loss", session_id=session.session_id)
    value = {"type": "create_custom_loss", "loss_id": loss_id}
    world.promises.settle(promise, JsonResult(value))
    return ticket(promise)
