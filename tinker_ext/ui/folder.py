"""`Folder`: the run logs below a folder, found again and again, and read on as they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinker_ext.ui.index import LogIndex
from tinker_ext.ui.samples import SampleIndex

MOST_LOGS = 2000
MOST_DEPTH = 5
SLICE = 1 << 25
"""Bytes of one log read before the next one gets its turn."""

LOOK_SECONDS = 1.0
_SKIPPED = {"node_modules", "__pycache__", "site-packages"}


class Folder:
    """All runs below a folder, by name; one thread at a time may use it.

    Args:
        place: The folder, or one log.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.logs: dict[str, LogIndex] = {}
        self.samples: dict[str, SampleIndex] = {}
        self._looked = 0.0
        self._sparks: dict[str, tuple[int, list[float]]] = {}

    def refresh(self) -> dict[str, int]:
        """Look for new logs and read on; return the versions of the runs that changed."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS or not self._looked:
            self._looked = now
            self._look()
        changed = {}
        for name, log in self.logs.items():
            news = log.advance(SLICE)
            if self.samples[name].advance() or news:
                changed[name] = log.version + self.samples[name].version
        return changed

    def _look(self) -> None:
        for path in self._files():
            name = self._name(path)
            if name not in self.logs:
                self.logs[name] = LogIndex(path)
                self.samples[name] = SampleIndex(path.parent)
                self.logs[name].version += 1

    def _files(self) -> Iterator[Path]:
        if self.place.is_file():
            yield self.place
            return
        root = len(self.place.parts)
        count = 0
        for folder, inner, files in os.walk(self.place):
            deep = len(Path(folder).parts) - root >= MOST_DEPTH
            inner[:] = [] if deep else sorted(
                name for name in inner if not name.startswith(".") and name not in _SKIPPED
            )  # fmt: skip
            for name in sorted(files):
                path = Path(folder) / name
                if name == "metrics.jsonl" or (name.endswith(".jsonl") and _is_log(path)):
                    count += 1
                    if count > MOST_LOGS:
                        return
                    yield path

    def _name(self, path: Path) -> str:
        if path == self.place:
            return path.name
        inside = path.relative_to(self.place)
        short = inside.parent if path.name == "metrics.jsonl" else inside
        return short.as_posix() if short.parts else self.place.resolve().name

    def summary(self, name: str) -> dict[str, Any]:
        """One row of the list of runs."""
        log, now = self.logs[name], time.time()
        calls = log.calls(32)
        worst = next((c for c in calls if (c.get("state") or "active") != "active"), None)
        totals = log.totals
        return {
            "id": name,
            "state": log.state(now),
            "read": log.offset / log.size if log.size else 1.0,
            "step": log.step,
            "model": log.model,
            "loss": log.last("loss/token", 1),
            "pace": log.last("tokens/s"),
            "seconds": log.last("seconds"),
            "cost": totals.get("cost"),
            "currency": log.currency,
            "tokens": sum(totals.get(kind) or 0 for kind in ("train", "prefill", "sample")),
            "began": log.began,
            "updated": log.updated,
            "pending": len(log.pending),
            "reason": worst and (worst.get("reason") or worst.get("state")),
            "trouble": sum(log.effects[effect] for effect in ("no", "unknown")),
            "samples": len(self.samples[name].rows),
            "spark": self._spark(name, log),
            "notes": log.notes(),
        }

    def _spark(self, name: str, log: LogIndex) -> list[float]:
        version, values = self._sparks.get(name, (-1, []))
        steps = log.steps.get(log.target or "")
        if version != log.version and steps is not None:
            values = [row[1] for row in steps.curve("loss/token", "step", -1e300, 1e300, 40)]
            self._sparks[name] = log.version, values
        return values


def _is_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(9) == b'{"type":"' and path.name != "samples.jsonl"
    except OSError:
        return False
