"""`RunLog`: the file itself, appended to in whole lines and read with patience."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tinker_ext import forks

DEFAULT_NAME = "metrics.jsonl"
FILE_SUFFIXES = (".jsonl", ".ndjson", ".json", ".log", ".txt")

VERSION = 1
"""Of the format; a line that says another one may mean something else."""

KINDS = ("server", "queue", "network", "us")
"""What the seconds of a `time` line went to."""


class RunLog:
    """Appends lines to a run log; safe from any thread and from several processes.

    A line goes out in one `write` to a file opened for appending, so lines never mix. A write
    that fails (a full disk) is reported once and stops nothing.

    Args:
        path: The file, or a directory in which ``metrics.jsonl`` is kept. A path that does not
            exist yet is a file when its name ends like one, for example in ``.jsonl``.
    """

    closes_slowly = False
    """Whether `close` may take seconds, so that it must not be called on an event loop."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = Path(path)
        is_file = path.is_file() or (path.suffix in FILE_SUFFIXES and not path.is_dir())
        self.path = path if is_file else path / DEFAULT_NAME
        self._lock = forks.lock()
        self._file: int | None = None
        self._broken = False

    def __repr__(self) -> str:
        return f"RunLog({str(self.path)!r})"

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line.

        Args:
            kind: Its `type`.
            **fields: Everything else; numbers that JSON lacks become null.
        """
        record = {"type": kind, "time": round(time.time(), 6), **fields}
        line = encode(record)
        with self._lock:
            try:
                if self._file is None:
                    self._file = self._open()
                # One call, so that lines of other processes never come between.
                os.write(self._file, line)
            except OSError as error:
                self._report(error)

    def close(self) -> None:
        """Close the file; a later `write` opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if _ends_amid_a_line(self.path):
            os.write(file, b"\n")
        return file

    def _report(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            import logging

            logging.getLogger("tinker_ext").warning(
                "The run log %s cannot be written: %s. The run goes on without it.",
                self.path,
                error.strerror,
            )


def read(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The lines of a run log, in order; what is no whole line (yet) is left out.

    Args:
        path: The file, or the directory that holds ``metrics.jsonl``.
    """
    path = Path(path)
    if path.is_dir():
        path = path / DEFAULT_NAME
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("type"), str):
                yield record


def last_steps(path: str | os.PathLike[str]) -> dict[str, int]:
    """The number of the last step of every model in a run log; empty when there is no file."""
    steps: dict[str, int] = {}
    try:
        for record in read(path):
            step = record.get("step")
            if record["type"] == "step" and isinstance(step, int):
                steps[str(record.get("target"))] = step
    except OSError:
        return {}
    return steps


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def encode(record: dict[str, Any]) -> bytes:
    """One line; numbers that JSON lacks become null, and what is no JSON at all its text."""
    try:
        return orjson.dumps(record, _plain, _OPTIONS)
    except TypeError:  # half a surrogate pair in a text, or an integer of more than 64 bits
        text = json.dumps(record, default=_plain, skipkeys=True, ensure_ascii=False)
        return f"{text}\n".encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _ends_amid_a_line(path: Path) -> bool:
    """Whether an earlier writer was cut off, so that a new line must be started first."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"
