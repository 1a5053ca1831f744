"""The run log: what a training run did and used, as lines of JSON; and its budget.

A run log is a file, by default ``metrics.jsonl``, with one JSON object per line. A line is written
whole or not at all, several processes may append to one file, and readers skip what they do not
know. `docs/telemetry.md` lists the fields of every kind of line.

Example:
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
    >>> RunLog(path).write("step", step=1, loss=2.5)
    >>> [(line["step"], line["loss"]) for line in read(path) if line["type"] == "step"]
    [(1, 2.5)]
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tinker_ext import forks
from tinker_ext.errors import ConfigurationError
from tinker_ext.ledger import Budget, Hold, Ledger, Prices, Tokens

__all__ = [
    "VERSION",
    "Budget",
    "Hold",
    "Ledger",
    "Prices",
    "RunLog",
    "Tokens",
    "last_steps",
    "read",
]

log = logging.getLogger("tinker_ext")

DEFAULT_NAME = "metrics.jsonl"
FILE_SUFFIXES = (".jsonl", ".ndjson", ".json", ".log", ".txt")

LOOK_SECONDS = 1.0
"""How often a log is looked for that was moved or deleted: that costs as much as a line."""

VERSION = 1
"""Of the format; a line that says another one may mean something else."""

KINDS = ("server", "queue", "network", "us")
"""What the seconds of a `time` line went to."""


class Lines:
    """A file of JSON lines of a run; what goes wrong with it is said once and stops nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = forks.lock()
        self._said: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def _say(self, what: str, *more: object) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning(what, self.path, *more)


class RunLog(Lines):
    """Appends lines to a run log; safe from any thread and from several processes.

    Lines go out in one `write` to a file opened for appending, so they never mix. A write that
    fails (a full disk) is reported once and stops nothing; a line that is cut off costs itself
    only. A file that is moved (rotated) or deleted during the run is noticed within a
    second and reported once, and the run goes on in a new one of the same name, which begins with
    the `session_start` line again.

    Args:
        path: The file, or a directory in which ``metrics.jsonl`` is kept. A path that does not
            exist yet is a file when its name ends like one, for example in ``.jsonl``.

    Raises:
        ConfigurationError: No file can have that name.
    """

    closes_slowly = False
    """Whether `close` may take seconds, so that it must not be called on an event loop."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = Path(path)
        _check_name(path)
        super().__init__(path if is_file(path) else path / DEFAULT_NAME)
        self._file: int | None = None
        self._looked = 0.0
        self._session = b""

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line.

        Args:
            kind: Its `type`.
            **fields: Everything else; numbers that JSON lacks become null.
        """
        self.append({"type": kind, "time": moment(), **fields})

    def append(self, *records: dict[str, Any]) -> None:
        """Append lines that have their `type` and `time`, all at once."""
        lines = [encode(record) for record in records]
        kind, now = records[-1]["type"], records[-1]["time"]
        with self._lock:
            try:
                # Whoever follows the log by its name waits for its end.
                due = abs(now - self._looked) > LOOK_SECONDS or kind == "session_end"
                if self._file is not None and due:
                    self._looked = now
                    self._look(os.fstat(self._file))
                if self._file is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = open_lines(self.path, 0o644, self._session)
                # One call, so that lines of other processes never come between.
                text = b"".join(lines)
                if os.write(self._file, text) < len(text):
                    raise cut_off()
            except OSError as error:
                self._say(_UNWRITABLE, error.strerror)
                self._let_go()  # opened again, it goes on behind what was cut off
            if kind == "session_start":
                self._session = lines[-1]

    def close(self) -> None:
        """Close the file; a later `write` opens it again."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _look(self, ours: os.stat_result) -> None:
        """Let go of a file that does not have its name any more."""
        try:
            if os.path.samestat(ours, self.path.stat()):
                return
        except FileNotFoundError:
            pass
        self._say(_MOVED if ours.st_nlink else _DELETED)
        self._let_go()


_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_UNWRITABLE = "The run log %s cannot be written: %s. The run goes on without it."
_MOVED = (
    "The run log %s was moved during the run: rotated, perhaps. A new file with the same name has "
    "what follows."
)
_DELETED = (
    "The run log %s was deleted during the run. What was in it is lost; a new file with the same "
    "name has what follows."
)


def moment() -> float:
    """Seconds since 1970, to the microsecond."""
    return int(time.time() * 1e6) / 1e6  # `round` takes three times as long


def is_file(path: Path) -> bool:
    """Whether a path of the user means a file, also one that is not there yet, or its folder."""
    return path.is_file() or (path.suffix in FILE_SUFFIXES and not path.is_dir())


def _check_name(path: Path) -> None:
    """Refuse a name that no file can have; whatever else is wrong may change while the run goes."""
    why = None
    try:
        path.stat()
    except ValueError as error:  # a null character, or half a character
        why = str(error)
    except OSError as error:
        why = error.strerror if error.errno == errno.ENAMETOOLONG else None
    if why is not None:
        raise ConfigurationError(f"run_log cannot be {str(path)!r:.80}: {why}.")


def read(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The lines of a run log, in order; a line that is not whole (yet) is left out.

    Args:
        path: The file, or the directory that holds ``metrics.jsonl``.
    """
    yield from _with(b"", path)


def _with(word: bytes, path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The lines that a word is in: to parse the others takes seconds of a long log."""
    path = Path(path)
    if path.is_dir():
        path = path / DEFAULT_NAME
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                line += file.readline()  # its writer was amid it
            if word not in line:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and isinstance(record.get("type"), str):
                yield record


def last_steps(path: str | os.PathLike[str]) -> dict[str, int]:
    """The number of the last step of every model in a run log; empty when there is no file."""
    steps: dict[str, int] = {}
    try:
        for record in _with(b'"step"', path):
            step = record.get("step")
            if record["type"] == "step" and isinstance(step, int):
                steps[str(record.get("target"))] = step
    except OSError:
        return {}
    return steps


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def encode(record: dict[str, Any]) -> bytes:
    """One line; numbers that JSON lacks become null, and what is not JSON at all its text."""
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


def open_lines(path: Path, mode: int, first: bytes = b"") -> int:
    """Open a file for appending, at the begin of a line; `first` is the first line of a new one."""
    file = os.open(path, _APPENDING, mode)
    try:
        size = os.fstat(file).st_size
        if size == 0 and first:
            os.write(file, first)
        elif size:
            with path.open("rb") as written:
                written.seek(size - 1)
                if written.read(1) != b"\n":  # a writer was cut off
                    os.write(file, b"\n")
    except OSError:
        os.close(file)
        raise
    return file


def cut_off() -> OSError:
    """What a write that was not whole means: the next one would say it."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
