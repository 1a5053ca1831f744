"""The REST views of training runs and checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tinker_ext.mock.clock import rfc3339
from tinker_ext.mock.handlers.downloads import signed_url
from tinker_ext.mock.handlers.service import USER
from tinker_ext.mock.messages import HttpError, Request, Response
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.checkpoints import describe
from tinker_ext.mock.state.records import Checkpoint, Model, text_metadata
from tinker_ext.mock.state.world import World

ONE = "training_runs/{training_run_id}/checkpoints/{checkpoint_kind}/{checkpoint_name}"


@endpoint("GET", "training_runs")
def list_runs(world: World, request: Request) -> Any:
    """List training runs, newest first."""
    project = request.query.get("project_id")
    models = [
        model
        for model in reversed(world.models.values())
        if project in (None, world.sessions[model.session_id].project_id)
    ]
    page, cursor = _page(world, models, request)
    return {"training_runs": [_run(world, model) for model in page], "cursor": cursor}


@endpoint("GET", "training_runs/{training_run_id}")
def get_run(world: World, request: Request) -> Any:
    """Describe one training run."""
    return _run(world, _model(world, request))


@endpoint("GET", "training_runs/{training_run_id}/checkpoints")
def list_run_checkpoints(world: World, request: Request) -> Any:
    """List the checkpoints of one run."""
    run_id = request.params["training_run_id"]
    found = world.checkpoints.of_run(run_id)
    if not found:
        _model(world, request)
    return {"checkpoints": [describe(c) for c in found if _visible(world, request, c)]}


@endpoint("GET", "checkpoints")
def list_checkpoints(world: World, request: Request) -> Any:
    """List all checkpoints, newest first."""
    found = [c for c in world.checkpoints if _visible(world, request, c)]
    page, cursor = _page(world, found[::-1], request)
    return {"checkpoints": [describe(c) for c in page], "cursor": cursor}


@endpoint("DELETE", ONE, durable=True)
def delete_checkpoint(world: World, request: Request) -> Any:
    """Delete a checkpoint."""
    saved = _checkpoint(world, request)
    if not world.bug("delete_ignored"):
        world.checkpoints.remove(saved.path)
    world.ledger.note("checkpoint", "deleted", {"tinker_path": saved.path})
    return Response.empty()


@endpoint("POST", f"{ONE}/publish", durable=True)
def publish(world: World, request: Request) -> Any:
    """Make a checkpoint public."""
    return _set_public(world, request, True)


@endpoint("DELETE", f"{ONE}/publish", durable=True)
def unpublish(world: World, request: Request) -> Any:
    """Make a checkpoint private."""
    return _set_public(world, request, False)


def _set_public(world: World, request: Request, public: bool) -> Response:
    saved = _checkpoint(world, request)
    if saved.public == public and not world.bug("publish_no_conflict"):
        word = "public" if public else "private"
        raise HttpError(409, f"{saved.path} is already {word}", {"x-should-retry": "false"})
    saved.public = public
    action = "published" if public else "unpublished"
    world.ledger.note("checkpoint", action, {"tinker_path": saved.path})
    return Response.empty()


@endpoint("PUT", f"{ONE}/ttl", durable=True)
def set_ttl(world: World, request: Request) -> Any:
    """Set or remove the time to live of a checkpoint."""
    saved = _checkpoint(world, request)
    ttl = request.json["ttl_seconds"]
    saved.expires = world.checkpoints.expiry(None if ttl is None else int(ttl))
    world.ledger.note("checkpoint", "ttl_set", {"tinker_path": saved.path})
    return Response.empty()


@endpoint("GET", f"{ONE}/archive")
def archive(world: World, request: Request) -> Any:
    """Redirect to a URL that serves the weights for a while."""
    saved = _checkpoint(world, request)
    expires = world.clock.unix() + world.settings.signed_url_lifetime
    moment = datetime.fromtimestamp(expires, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    url = signed_url(world, request, saved.path.removeprefix("tinker://"), expires)
    return Response(302, b"", None, {"location": url, "expires": moment})


@endpoint("GET", f"{ONE}/external_weights_urls")
def external_weights_urls(world: World, request: Request) -> Any:
    """Return URLs that serve exported weights for a while."""
    saved = _checkpoint(world, request)
    if saved.kind != "external_weights":
        raise HttpError(400, f"{saved.path} is not an export; use save_weights_external")
    expires = world.clock.unix() + world.settings.signed_url_lifetime
    url = signed_url(world, request, saved.path.removeprefix("tinker://"), expires)
    return {"urls": {"archive.tar.gz": url}, "expires": rfc3339(expires)}


def _visible(world: World, request: Request, checkpoint: Checkpoint) -> bool:
    """Hide exports from the first era, whose servers know none and whose SDK fails on them."""
    old_client = request.headers.get("x-stainless-package-version", "").startswith("0.4.")
    old = world.settings.era == "0.4.1" or old_client
    return not old or checkpoint.kind != "external_weights"


def _page(world: World, items: list[Any], request: Request) -> tuple[list[Any], dict[str, int]]:
    offset, limit = request.query["offset"], request.query["limit"]
    cursor = {"offset": offset, "limit": limit, "total_count": len(items)}
    if world.bug("pagination_off"):
        return items, cursor
    return items[offset : offset + limit], cursor


def _model(world: World, request: Request) -> Model:
    run_id = request.params["training_run_id"]
    model = world.models.get(run_id)
    if model is None:
        raise HttpError(404, f"training run {run_id} is unknown")
    return model


def _checkpoint(world: World, request: Request) -> Checkpoint:
    values = request.params
    run, kind, name = (
        values["training_run_id"],
        values["checkpoint_kind"],
        values["checkpoint_name"],
    )
    path = f"tinker://{run}/{kind}/{name}"
    found = world.checkpoints.find(path)
    if found is None:
        raise HttpError(404, f"no checkpoint at {path}; it was deleted, expired or never saved")
    return found


def _run(world: World, model: Model) -> dict[str, Any]:
    value: dict[str, Any] = {
        "training_run_id": model.model_id,
        "base_model": model.base_model,
        "model_owner": USER,
        "is_lora": model.lora_config is not None,
        "corrupted": model.corrupted,
        "lora_rank": model.lora_rank,
        "last_request_time": rfc3339(model.last_request),
    }
    metadata = model.user_metadata
    if metadata is not None:
        value["user_metadata"] = text_metadata(metadata)
    for checkpoint in world.checkpoints.of_run(model.model_id):
        if checkpoint.kind == "weights":
            value["last_checkpoint"] = describe(checkpoint)
        elif checkpoint.kind == "sampler_weights":
            value["last_sampler_checkpoint"] = describe(checkpoint)
    return value
