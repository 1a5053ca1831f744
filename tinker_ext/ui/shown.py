"""`Shown`: one run log as the page shows it: a row of the list, the details, and why it waits.

Why a run waits is said in words, with what one can do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from tinker_ext.observe.index import BASE, BEHIND, LATER, ODD, LogIndex, opened, parse, where
from tinker_ext.runlog import VERSION

GLANCES = 1000
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


class Shown(LogIndex):
    """What one run log says, for the page; while much of it is unread, that of its end."""

    tail: Shown | None = None

    def advance(self, most: int = 1 << 62) -> int:
        """Read on; as long as much is left, look at the end."""
        read = super().advance(most)
        if not self.behind:
            self.tail = None
        elif self.tail is None and not self._begins:
            self.tail = Shown(self.path, self.size - BEHIND)
            self.tail._glance()
            self.tail.advance()
        return read

    def _glance(self) -> None:
        """Take in a few of the steps before those that are read, for a curve of the whole run."""
        found: dict[bytes, None] = {}
        with suppress(OSError), opened(self.path) as file:
            for place in range(0, self.offset, max(1, self.offset // GLANCES)):
                file.seek(place)
                lines = file.read1(min(1 << 13, self.offset - place)).split(b"\n")[1:-1]
                found |= dict.fromkeys([line for line in lines if line.startswith(LATER[0])][:1])
        self._parse(*found)

    def last(self, name: str, count: int = 20) -> float | None:
        """Mean of the last numbers of a column; None without any."""
        steps = self.steps.get(self.target or "")
        recent = np.array([]) if steps is None else steps.columns[name][-count:]
        recent = recent[np.isfinite(recent)]
        return float(recent.mean()) if len(recent) else None

    def calls(self, now: float, most: int = 100) -> list[dict[str, Any]]:
        """The pending calls, oldest first, with all that is known about their waiting."""
        found = []
        for key, line in islice(self.pending.items(), most):
            try:
                record = parse(line)
                since = record["time"] + 0.0
            except ODD:
                continue
            call = {"number": record.get("number"), "operation": str(record.get("operation")),
                    "target": str(record.get("target")), "since": since}  # fmt: skip
            seen, state = self.held.get(where(call), (0.0, {}))
            call |= self.waiting.get(key.decode(), {})
            call |= state if seen >= since else {}
            # A queue state of the server, or the status or error it was sent again after, or none.
            again = self.again.get(key.decode())
            call["held"] = None
            if (call.get("state") or "active") != "active":
                call["held"] = str(call["state"])
            elif again and now < again["until"] + SETTLED_SECONDS:
                call["held"] = str(again["reason"])
            found.append(call)
        return found

    def why(self, now: float) -> Why:
        """What state the run is in, why, and what one can do."""
        if self.error is not None:
            return Why("unreadable", self.error)
        if self.tail:
            return Why("reading", None, self.tail.why(now).advice)
        if self.ended is not None:
            return Why("done" if self.ended == "success" else self.ended)
        if self.lines == self.bad:
            return Why("quiet", "its log has no line that can be read")
        return explain(self.calls(now, 32), now, self.updated or 0.0, self.last("seconds"))

    def summary(self, now: float) -> dict[str, Any]:
        """One row of the list of runs."""
        why, end = self.why(now), self.tail or self
        steps = end.steps.get(end.target or "")
        rows = steps.curve("loss/token", "step", -np.inf, np.inf, 40) if steps else []
        return {
            "state": why.state,
            "reason": why.reason,
            "read": self.offset / max(1, self.size),
            "step": end.step,
            "model": end.model,
            "currency": self.currency,
            "updated": end.updated,
            "loss": end.last("loss/token", 1),
            "pace": end.last("tokens/s"),
            "seconds": end.last("seconds"),
            "cost": end.totals.get("cost"),
            "pending": len(end.pending),
            "spark": [row[1] for row in rows],
            "notes": self.notes(now),
        }

    def details(self, now: float) -> dict[str, Any]:
        """One run, but for its curves and samples."""
        end = self.tail or self
        columns = [column for steps in end.steps.values() for column in steps.columns.items()]
        filled = dict.fromkeys(name for name, column in columns if not np.isnan(column).all())
        kept = ("minutes", "retries", "outcomes", "effects", "totals")
        return self.summary(now) | {name: getattr(end, name) for name in kept} | {
            "began": self.began,
            "budget": self.budget,
            "advice": self.why(now).advice,
            "metrics": [name for name in filled if name not in BASE[:2]],
            "calls": end.calls(now),
            "reasons": end.reasons.most_common(20),
        }  # fmt: skip

    def notes(self, now: float) -> list[str]:
        """What a reader should know about the log itself."""
        if self.tail:
            return [
                "The log is long and still being read: so far, this is its end and a rough curve."
            ]
        torn = self.offset < self.size and now - (self.updated or 0) > SILENT_SECONDS
        other = ", ".join(map(str, self.versions))
        notes = {
            f"Written in format {other}, and this program knows {VERSION}: what it understands is "
            "shown. A newer tinker-ext may show more.": other,
            "The log was replaced while it was read; this is the new one.": self.replaced,
            "The last line is cut off: its writer ended amid it. The rest is shown.": torn,
            f"Lines left out because they could not be read: {self.bad:,}.": self.bad,
        }
        return [text for text, holds in notes.items() if holds]


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
