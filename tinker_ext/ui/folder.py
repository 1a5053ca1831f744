"""`Folder`: the run logs below a folder, found again and again, and read on as they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tinker_ext.observe.index import opened, readable
from tinker_ext.ui.samples import SampleIndex
from tinker_ext.ui.shown import Shown

MOST_LOGS = 2000
MOST_DEPTH = 5
SLICE = 1 << 24
"""Bytes read in one go, so that a log that has grown a little never waits long for a large one."""

LOOK_SECONDS = 0.5
_SKIPPED = {"node_modules", "__pycache__", "site-packages"}


class Folder:
    """All runs below a folder, by name; one thread at a time may use it.

    Args:
        place: The folder, or one log.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.logs: dict[str, Shown] = {}
        self.samples: dict[str, SampleIndex] = {}
        self._looked = float("-inf")

    def refresh(self) -> list[str]:
        """Look for new logs and read on; return the names of the runs that changed."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            known = {log.path for log in self.logs.values()}
            for path in islice(self._files(), MOST_LOGS):
                if path not in known:
                    name = self._name(path)
                    while name in self.logs:  # of a folder in this one that is called the same
                        name += f"/{readable(path.name)}"
                    self.logs[name], self.samples[name] = Shown(path), SampleIndex(path.parent)
            # A search that takes long is made less often.
            self._looked = now + 10 * (time.monotonic() - now)
        changed, budget = [], SLICE
        for name, log in sorted(self.logs.items(), key=lambda item: item[1].size - item[1].offset):
            read = log.advance(budget) if budget > 0 else 0
            budget -= read
            if self.samples[name].advance() or read:
                changed.append(name)
        return changed

    def _files(self) -> Iterator[Path]:
        if self.place.is_file():
            yield self.place
            return
        root = len(self.place.parts)
        for folder, inner, files in os.walk(self.place):
            deep = len(Path(folder).parts) - root >= MOST_DEPTH
            inner[:] = [] if deep else sorted(
                name for name in inner if not name.startswith(".") and name not in _SKIPPED
            )  # fmt: skip
            for name in sorted(files):
                path = Path(folder) / name
                if name == "metrics.jsonl" or (name.endswith(".jsonl") and _is_log(path)):
                    yield path

    def _name(self, path: Path) -> str:
        if path == self.place:
            return readable(path.name)
        inside = path.relative_to(self.place)
        short = inside.parent if path.name == "metrics.jsonl" else inside
        return readable(short.as_posix() if short.parts else self.place.resolve().name)


def _is_log(path: Path) -> bool:
    try:
        with opened(path) as file:
            return file.read(9) == b'{"type":"' and not path.name.startswith("samples.")
    except OSError:
        return False
