"""Why a run waits, in words, and what one can do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

SILENT_SECONDS = 30.0
"""A client with pending calls writes a line every ten seconds; one that does not has ended."""

IDLE_SECONDS = 120.0
SETTLED_SECONDS = 10.0
"""A request that was sent again and has not failed again for so long is taken to be under way."""

LIMITED = (
    "The server limits how much you use at once. The call goes on by itself; with fewer calls at a "
    "time, or fewer programs on this account, each waits less."
)
ADVICE = {
    "paused_capacity": "No machine is free for this model. The call goes on by itself; if that "
    "takes too long, stop the program and resume from its last checkpoint later.",
    "paused_rate_limit": LIMITED,
    "429": LIMITED,
    "402": "The account has no credit. Add some before the deadline: the call goes on by itself.",
}
FAILING = "The call is sent again until its deadline. `tinker-ext doctor` examines the server."
KILLED = (
    "It was probably killed, or its machine sleeps. See whether it still runs; if not, start it "
    "again and resume from the last checkpoint."
)
IDLE = "Your program is busy between two calls, or has ended without closing its client."
SLOW = "That is longer than usual. `tinker-ext doctor` examines the server."


class Why(NamedTuple):
    """`running`, `held back`, `retrying`, `quiet`, `reading`, or how it ended; and the reason."""

    state: str
    reason: str | None = None
    advice: str | None = None


def held_by(call: dict[str, Any], again: dict[str, Any] | None, now: float) -> str | None:
    """What keeps a call: a queue state of the server, a status, the name of an error, or nothing.

    `again` says why it was sent again the last time, and until when that waits.
    """
    if (call.get("state") or "active") != "active":
        return str(call["state"])
    if again and now < again["until"] + SETTLED_SECONDS:
        return str(again["reason"])
    return None


def explain(calls: Sequence[dict[str, Any]], now: float, wrote: float, usual: float | None) -> Why:
    """The state of a run that has not ended, whose log had its last line at `wrote`.

    `calls` are those pending, with what holds each; `usual` is how many seconds a step takes.
    """
    if now - wrote > (SILENT_SECONDS if calls else IDLE_SECONDS):
        told = "the program writes nothing any more"
        return Why("quiet", f"{told}, amid a call", KILLED) if calls else Why("quiet", told, IDLE)
    for call in calls:
        by = call["held"]
        if by and by == call.get("state"):
            return Why("held back", call.get("reason") or by, ADVICE.get(by))
        if by in ADVICE:
            return Why("held back", f"the server refuses it for now (status {by})", ADVICE[by])
        if by:
            what = f"fails (status {by})" if by.isdigit() else f"cannot be reached ({by})"
            return Why("retrying", f"the server {what}", FAILING)
    since = calls[0]["since"] if calls else None
    if usual and isinstance(since, int | float) and now - since > max(60.0, 5 * usual):
        return Why("running", None, SLOW)
    return Why("running")
