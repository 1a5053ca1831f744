"""`SampleIndex`: the samples of a run by prompt, as the page needs them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tinker_ext.observe.index import ODD, opened, parse, typed
from tinker_ext.observe.sample_log import NAMES

MOST_TEXT = 20_000
MOST_TOKENS = 4_000
MOST_SEQUENCES = 16
MOST_RECORDS = 24
"""What one look at a prompt brings; the rest is in the file."""


class SampleIndex:
    """Where the samples of one run are; `advance` reads on.

    Args:
        folder: Where the run keeps them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self._found: dict[str, tuple[int, int]] = {}
        self._ends: dict[str, int] = {}

    def advance(self) -> bool:
        """Read what was written since; says whether that was anything."""
        found = {}
        for name in NAMES:
            with suppress(OSError):
                status = (self.folder / name).stat()
                found[name] = status.st_ino, status.st_size
        if found == self._found:
            return False
        for name, (number, size) in self._found.items():
            if name not in found or found[name][0] != number or found[name][1] < size:
                self.rows, self._ends = [], {}  # the files have moved on: begin again
        self._found = found
        for name in found:
            self._ends[name] = self._take(name, self._ends.get(name, 0))
        return True

    def _take(self, name: str, offset: int) -> int:
        with suppress(OSError), opened(self.folder / name) as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._add(name, offset, line)
                offset += len(line)
        return offset

    def _add(self, name: str, offset: int, line: bytes) -> None:
        try:
            record = parse(line)
            sequences = typed(list, record["sequences"])
            rewards = [s["reward"] for s in sequences if s.get("reward") is not None]
            row = {
                "place": (name, offset, len(line)),
                "prompt_id": str(record["prompt_id"]),
                "prompt": str(record["prompt"])[:200],
                "count": len(sequences),
                "reward": sum(rewards) / len(rewards) if rewards else None,
            }
            _shorten(record)
        except ODD:
            return
        self.rows.append(row)

    def prompts(self, text: str = "", most: int = 200) -> list[dict[str, Any]]:
        """One row for each prompt that contains a text, the newest first."""
        groups: dict[str, dict[str, Any]] = {}
        for row in reversed(self.rows):
            if text.lower() in row["prompt"].lower():
                group = groups.setdefault(row["prompt_id"], {**row, "count": 0, "records": 0})
                group["count"] += row["count"]
                group["records"] += 1
                group["first"] = row["reward"]
        return list(groups.values())[:most]

    def records(self, prompt_id: str) -> list[dict[str, Any]]:
        """What was sampled for a prompt, the oldest first; long texts are cut."""
        found = []
        for row in [row for row in self.rows if row["prompt_id"] == prompt_id][-MOST_RECORDS:]:
            name, offset, length = row["place"]
            try:
                with opened(self.folder / name) as file:
                    file.seek(offset)
                    found.append(_shorten(parse(file.read(length))))
            except (OSError, *ODD):  # rotated since
                continue
        return found


def _shorten(record: dict[str, Any]) -> dict[str, Any]:
    """Cut what is long; raises one of `ODD` for what the page cannot show."""
    record["prompt"], record["cut"] = _cut(record["prompt"])
    record["sequences"] = typed(list, record["sequences"])[:MOST_SEQUENCES]
    for each in record["sequences"]:
        each["text"], each["cut"] = _cut(each.get("text") or "")
        for key in ("pieces", "logprobs", "trainer_logprobs"):
            each[key] = typed(list, each.get(key))[:MOST_TOKENS]
    return record


def _cut(text: Any) -> tuple[str, int]:
    """The beginning of a text, and how many characters are left out."""
    text = str(text)
    return text[:MOST_TEXT], max(0, len(text) - MOST_TEXT)
