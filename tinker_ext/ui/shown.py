"""`Shown`: one run log as the page shows it: a row of the list, the details, and why it waits."""

from __future__ import annotations

from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from tinker_ext.observe.index import BASE, BEHIND, ODD, STEP, LogIndex, parse, where
from tinker_ext.runlog import VERSION
from tinker_ext.ui.reasons import SILENT_SECONDS, Why, explain, held_by

GLANCES = 1000


class Shown(LogIndex):
    """What one run log says, for the page; while much of it is unread, that of its end."""

    tail: Shown | None = None

    def advance(self, most: int = 1 << 62) -> int:
        """Read on; the end of a log that takes long is read first."""
        read = super().advance(most)
        if not self.behind:
            self.tail = None
        return read

    def _look_ahead(self, file: BinaryIO) -> None:
        if self.tail is None and self.behind and not self._begins:
            self.tail = Shown(self.path, self.size - BEHIND)
            self.tail._glance(file, self.offset)
            self.tail.advance()

    def _glance(self, file: Any, begin: int) -> None:
        """Take in a few of the steps before those that are read, for a curve of the whole run."""
        found: dict[bytes, None] = {}
        for place in range(begin, self.offset, max(1, (self.offset - begin) // GLANCES)):
            file.seek(place)
            lines = file.read1(min(1 << 13, self.offset - place)).split(b"\n")[1:-1]
            found |= dict.fromkeys([line for line in lines if line.startswith(STEP)][:1])
        self._counted = list(found)
        self._count()

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
            call["held"] = held_by(call, self.again.get(key.decode()), now)
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
