"""Sessions: creation, heartbeats, the end, and the REST views of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tinker_ext.mock.clock import rfc3339
from tinker_ext.mock.handlers.downloads import signed_url
from tinker_ext.mock.handlers.service import USER
from tinker_ext.mock.messages import HttpError, Request, Response
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.records import Session, text_metadata
from tinker_ext.mock.state.world import DEFAULT_PROJECT, World


@endpoint("POST", "create_session", durable=True)
def create_session(world: World, request: Request) -> Any:
    """Open a session; 429 when the account has too many."""
    body = request.json
    session = Session(
        session_id=world.ids.uuid("session"),
        created=world.clock.unix(),
        last_seen=world.clock.now(),
        tags=body["tags"],
        user_metadata=body.get("user_metadata"),
        sdk_version=body["sdk_version"],
        project_id=body.get("project_id") or DEFAULT_PROJECT,
        display_name=body.get("display_name"),
    )
    world.sessions[session.session_id] = session
    messages = world.settings.messages
    return {
        "type": "create_session",
        "info_message": messages.get("info"),
        "warning_message": messages.get("warning"),
        "error_message": messages.get("error"),
        "session_id": session.session_id,
    }


@endpoint("POST", "session_heartbeat")
def session_heartbeat(world: World, request: Request) -> Any:
    """Note a sign of life."""
    if world.bug("heartbeat_gone"):
        raise HttpError(410, "the session has ended")
    world.session(request.json["session_id"])
    return {"type": "session_heartbeat"}


@endpoint("POST", "sessions/{session_id}/finish", durable=True)
def finish_session(world: World, request: Request) -> Any:
    """End a session at its client's wish."""
    session = _find(world, request.params["session_id"])
    if session.active:
        session.status = {
            "type": "client_finished",
            "reason": {"type": request.json["reason"].get("type", "success")},
            "detail": request.json.get("detail"),
        }
        world.free([world.models[model_id] for model_id in session.models.values()])
    return Response.empty()


@endpoint("GET", "sessions")
def list_sessions(world: World, request: Request) -> Any:
    """List session ids, newest first."""
    ids = [s.session_id for s in reversed(world.sessions.values())]
    start, limit = request.query["offset"], request.query["limit"]
    return {"sessions": ids[start : start + limit]}


@endpoint("GET", "sessions/{session_id}")
def get_session(world: World, request: Request) -> Any:
    """Return what a session made."""
    session = _find(world, request.params["session_id"])
    return {
        "training_run_ids": list(session.models.values()),
        "sampler_ids": list(session.samplers.values()),
        "user_metadata": _text_metadata(session),
        "display_name": session.display_name,
    }


@endpoint("PUT", "sessions/{session_id}/project", durable=True)
def set_project(world: World, request: Request) -> Any:
    """Move a session to another project."""
    session = _find(world, request.params["session_id"])
    session.project_id = request.json["project_id"]
    world.ledger.note("project", "assigned", {"session_id": session.session_id})
    return Response.empty()


@endpoint("GET", "sessions/{session_id}/trace_export")
def trace_export(world: World, request: Request) -> Any:
    """Offer the trace of a session: its request log as a JSON file."""
    session = _find(world, request.params["session_id"])
    expires = world.clock.unix() + world.settings.signed_url_lifetime
    url = signed_url(world, request, session.session_id, expires, "traces")
    return {"status": "ready", "url": url}


@endpoint("POST", "sessions/search")
def search_sessions(world: World, request: Request) -> Any:
    """Search sessions, newest first, page by page."""
    body = request.json
    found = [s for s in world.sessions.values() if _fits(s, body)]
    found.sort(key=lambda s: (s.created, s.session_id), reverse=True)
    cursor = body.get("cursor")
    if cursor is not None:
        last = (_unix(cursor["last_created_at"]), cursor["last_session_id"])
        found = [s for s in found if (_micro(s.created), s.session_id) < last]
    limit = int(body.get("limit", 50))
    page = found[:limit]
    reply: dict[str, Any] = {"sessions": [_summary(world, s) for s in page]}
    if len(found) > limit:
        last_one = page[-1]
        reply["next_cursor"] = {
            "last_created_at": rfc3339(last_one.created),
            "last_session_id": last_one.session_id,
        }
    return reply


def _find(world: World, session_id: str) -> Session:
    session = world.sessions.get(session_id)
    if session is None:
        raise HttpError(404, f"session {session_id} is unknown")
    return session


def _fits(session: Session, body: dict[str, Any]) -> bool:
    owner = body.get("owner") or {"type": "own"}
    if owner["type"] == "user" and USER not in owner["owner_urns"]:
        return False
    if body.get("session_id") not in (None, session.session_id):
        return False
    if body.get("project_ids") is not None and session.project_id not in body["project_ids"]:
        return False
    if body.get("display_name") not in (None, session.display_name):
        return False
    metadata = session.user_metadata or {}
    wanted = (body.get("user_metadata") or {}).items()
    if any(metadata.get(key) != value for key, value in wanted):
        return False
    statuses = body.get("statuses")
    return statuses is None or any(_status_fits(session, query) for query in statuses)


def _status_fits(session: Session, query: dict[str, Any]) -> bool:
    if query["type"] != session.status["type"]:
        return False
    reasons = query.get("reasons")
    return reasons is None or session.status["reason"]["type"] in reasons


def _summary(world: World, session: Session) -> dict[str, Any]:
    runs = set(session.models.values())
    checkpoints = [c for c in world.checkpoints if c.run_id in runs]
    return {
        "session_id": session.session_id,
        "created_at": rfc3339(session.created),
        "owner": USER,
        "project_id": session.project_id,
        "status": session.status,
        "checkpoints_count": len(checkpoints),
        "display_name": session.display_name,
        "user_metadata": _text_metadata(session),
        "checkpoint_storage_bytes": sum(c.size for c in checkpoints),
    }


def _text_metadata(session: Session) -> dict[str, str] | None:
    return text_metadata(session.user_metadata)


def _micro(unix: float) -> float:
    return _unix(rfc3339(unix))


def _unix(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise HttpError(422, _bad_time("body", "cursor", "last_created_at")) from None
    if moment.tzinfo is None:
        raise HttpError(422, _bad_time("body", "cursor", "last_created_at"))
    return moment.timestamp()


def _bad_time(*where: str) -> list[dict[str, Any]]:
    text = "not an RFC 3339 time with a time zone"
    return [{"loc": list(where), "msg": text, "type": "format"}]
