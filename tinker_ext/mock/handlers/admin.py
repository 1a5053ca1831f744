"""Audit log and billing, for administrators."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime
from typing import Any

from tinker_ext.mock.handlers.service import EMAIL, USER
from tinker_ext.mock.messages import HttpError, Request
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.ledger import HOUR, USD_PER_GIGABYTE_MONTH
from tinker_ext.mock.state.records import text_metadata
from tinker_ext.mock.state.world import World

GIGABYTE = 1e9
MAX_PERIOD = 14 * 86400


@endpoint("GET", "audit")
def audit(world: World, request: Request) -> Any:
    """Return who did what, of one resource and one day when asked."""
    day = request.query.get("day")
    if day is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", day):
        raise HttpError(422, _fault("day", "not a day of the form YYYY-MM-DD"))
    return {"entries": world.ledger.entries(request.query.get("event_type", "all"), day)}


@endpoint("GET", "billing/usage/events")
def usage(world: World, request: Request) -> Any:
    """Return usage per hour in a period of at most 14 days."""
    start = _hour("starting_on", request.query["starting_on"])
    end = _hour("ending_before", request.query["ending_before"])
    if start > world.clock.unix():
        raise HttpError(400, "starting_on lies in the future")
    if not 0 < end - start <= MAX_PERIOD:
        raise HttpError(400, "ending_before must lie at most 14 days after starting_on")
    events = world.ledger.events(start, end)
    sessions = {
        session_id: {"user_metadata": text_metadata(session.user_metadata)}
        for session_id, session in world.sessions.items()
        if any(event["session_id"] == session_id for event in events)
    }
    return {"data": events, "sessions": sessions, "cost_data_through": world.now()}


@endpoint("GET", "billing/usage/checkpoints/current")
def storage(world: World, request: Request) -> Any:
    """Return what the checkpoints of each project take up now."""
    project = request.query.get("project_id")
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for saved in world.checkpoints:
        if project in (None, saved.project_id):
            counts[saved.project_id][0] += 1
            counts[saved.project_id][1] += saved.size
    return {
        "effective_rate_usd_per_gigabyte_month": USD_PER_GIGABYTE_MONTH,
        "data": [
            {
                "project_id": name,
                "org_user_urn": USER,
                "user_email": EMAIL,
                "checkpoint_count": count,
                "size_bytes": size,
                "size_gigabytes": size / GIGABYTE,
                "estimated_monthly_cost_usd": size / GIGABYTE * USD_PER_GIGABYTE_MONTH,
            }
            for name, (count, size) in sorted(counts.items())
        ],
    }


def _fault(name: str, text: str) -> list[dict[str, Any]]:
    return [{"loc": ["query", name], "msg": text, "type": "format"}]


def _hour(name: str, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise HttpError(422, _fault(name, "not an RFC 3339 time")) from None
    if moment.tzinfo is None:
        raise HttpError(422, _fault(name, "a time zone is missing"))
    unix = moment.timestamp()
    if unix % HOUR:
        raise HttpError(400, f"{name} must be a full hour in UTC")
    return unix
