"""The `/_mock/` paths: faults, log and state of the server, for tests in other processes."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import attrs
import orjson

from tinker_ext.mock.faults import KINDS
from tinker_ext.mock.handlers.downloads import check_signature
from tinker_ext.mock.messages import HttpError, Request, Response
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.world import World


@endpoint("GET", "/_mock/faults", documented=False)
def get_faults(world: World, request: Request) -> Any:
    """Return the rules in force and what they struck."""
    return {
        "seed": world.faults.seed,
        "rules": [rule.to_record() for rule in world.faults.rules],
        "struck": world.faults.struck,
        "kinds": KINDS,
    }


@endpoint("POST", "/_mock/faults", documented=False)
def add_faults(world: World, request: Request) -> Any:
    """Put one rule or a list of rules in force; `{"seed": n, "rules": […]}` reseeds as well."""
    try:
        body = orjson.loads(request.body)
        if isinstance(body, dict) and "rules" in body:
            if "seed" in body:
                world.faults.reseed(int(body["seed"]))
            body = body["rules"]
        for rule in body if isinstance(body, list) else [body]:
            world.faults.add(rule)
    except (ValueError, TypeError) as error:
        raise HttpError(422, f"no fault rule: {error}") from None
    return get_faults(world, request)


@endpoint("DELETE", "/_mock/faults", documented=False)
def clear_faults(world: World, request: Request) -> Any:
    """Take all rules out of force."""
    world.faults.clear()
    return Response.empty()


@endpoint("GET", "/_mock/log", documented=False)
def get_log(world: World, request: Request) -> Any:
    """Return requests, filtered by `path`, `method` and `status`."""
    query = {name: values[-1] for name, values in parse_qs(request.query_string).items()}
    found = world.log.requests(
        query.get("path"),
        method=query.get("method"),
        status=int(query["status"]) if "status" in query else None,
    )
    return {"requests": [entry.to_record() for entry in found]}


@endpoint("GET", "/_mock/training", documented=False)
def get_training(world: World, request: Request) -> Any:
    """Return training effects, of `model_id` or of all models."""
    query = parse_qs(request.query_string)
    model_id = query["model_id"][-1] if "model_id" in query else None
    return {"effects": [attrs.asdict(effect) for effect in world.log.training(model_id)]}


@endpoint("GET", "/_mock/violations", documented=False)
def get_violations(world: World, request: Request) -> Any:
    """Return replies of this server that broke the document; there should be none."""
    return {"violations": world.log.violations}


@endpoint("GET", "/_mock/telemetry", documented=False)
def get_telemetry(world: World, request: Request) -> Any:
    """Return the telemetry received."""
    return {"batches": world.telemetry}


@endpoint("POST", "/_mock/sessions/{session_id}/lose", documented=False)
def lose_session(world: World, request: Request) -> Any:
    """End a session from the server's side."""
    world.lose_session(request.params["session_id"])
    return Response.empty()


@endpoint("POST", "/_mock/futures/{request_id}/expire", documented=False)
def expire_future(world: World, request: Request) -> Any:
    """Forget a result."""
    world.promises.expire(request.params["request_id"])
    return Response.empty()


@endpoint("POST", "/_mock/training_runs/{run_id}/corrupt", documented=False)
def corrupt_run(world: World, request: Request) -> Any:
    """Mark a training run as corrupted."""
    model = world.models.get(request.params["run_id"])
    if model is None:
        raise HttpError(404, f"training run {request.params['run_id']} is unknown")
    model.corrupted = True
    return Response.empty()


@endpoint("GET", "/_mock/traces/{session_id}", documented=False)
def get_trace(world: World, request: Request) -> Any:
    """Serve the trace of a session: the effects on its models."""
    check_signature(world, request, f"traces/{request.params['session_id']}")
    session = world.sessions.get(request.params["session_id"])
    if session is None:
        raise HttpError(404, "the session is unknown")
    return {
        "session_id": session.session_id,
        "effects": [
            attrs.asdict(effect)
            for model_id in session.models.values()
            for effect in world.log.training(model_id)
        ],
    }
