"""`LogIndex`: one run log as the page needs it, read once, kept beside the log and read on from.

A log may have a million lines, so most are only looked at: `start` and `operation` lines cancel
each other out by their first bytes, and only what the page shows is parsed. Curves are kept as
columns of numbers and thinned out when they are asked for.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import orjson

FORMAT = 1
"""Of the index file; one of another format is made anew."""

LOG_VERSION = 1
"""Of the run logs understood here."""

BLOCK = 1 << 22
KEPT = 300
MOST_COLUMNS = 48
HEAD = 1024
SAVE_BYTES = 1 << 22
"""An index is saved when the log has grown by this much, and by a quarter, since the last time."""

BASE = ("step", "time", "loss", "loss/token", "tokens/s", "seconds", "cost")
KINDS = ("server", "queue", "network", "us")
NAN = float("nan")
SMOOTH = b'"retries":0,"effect":"yes","error":null}'
"""The end of most `operation` lines; there is nothing more to know about those."""

_PLAIN = ("session", "client", "model", "target", "currency", "totals", "budget", "ended", "began",
          "updated", "lines", "bad", "step", "versions", "replaced")  # fmt: skip


class Steps:
    """The steps of one model as rows of numbers, one column a name; a missing number is NaN."""

    def __init__(self) -> None:
        self.names: list[str] = list(BASE)
        self.table: array[float] = array("d")
        self._metrics: tuple[str, ...] = ()

    def column(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """One column, as a copy that later steps do not change."""
        rows = np.frombuffer(self.table).reshape(-1, len(self.names))
        return rows[:, self.names.index(name)].copy()

    def add(self, record: dict[str, Any]) -> None:
        """Take in a `step` line."""
        metrics = record.get("metrics") or {}
        tokens = (record.get("tokens") or {}).get("train") or 0
        loss, seconds = record.get("loss"), record.get("seconds")
        cost = (record.get("totals") or {}).get("cost")
        per_token = record.get("loss_per_token")
        if per_token is None and loss is not None:  # a server that does not tell which took part
            per_token = loss / tokens if tokens and "loss:mean" not in metrics else loss
        pace = tokens / seconds if seconds else None
        row: list[Any] = [record.get("step"), record.get("time"), loss, per_token, pace, seconds]
        row.append(NAN if cost is None else cost)
        if tuple(metrics) != self._metrics:
            self._widen(metrics)
            row += [metrics.get(name) for name in self._metrics]
        else:
            row += metrics.values()
        try:
            self.table.fromlist(row)
        except TypeError:
            self.table.fromlist([_number(value) for value in row])

    def _widen(self, metrics: dict[str, Any]) -> None:
        new = [name for name in metrics if name not in self.names]
        new = new[: MOST_COLUMNS - len(self.names)]
        if new:
            rows = np.frombuffer(self.table).reshape(-1, len(self.names))
            wide = np.pad(rows, ((0, 0), (0, len(new))), constant_values=NAN)
            self.table = array("d", wide.tobytes())
            self.names += new
        self._metrics = tuple(self.names[len(BASE) :])

    def curve(self, name: str, x: str, low: float, high: float, points: int) -> list[list[Any]]:
        """Rows of x, mean, least and most, thinned out to at most `points`."""
        if name not in self.names or x not in BASE:
            return []
        xs, ys = self.column(x), self.column(name)
        seen = np.isfinite(xs) & np.isfinite(ys) & (xs >= low) & (xs <= high)
        xs, ys = xs[seen], ys[seen]
        if not len(xs):
            return []
        starts = np.unique(np.linspace(0, len(xs), min(points, len(xs)), False).astype(np.int64))
        counts = np.diff([*starts, len(xs)])
        mean = np.add.reduceat(ys, starts) / counts
        least, most = np.minimum.reduceat(ys, starts), np.maximum.reduceat(ys, starts)
        ends = xs[starts + counts - 1]
        rows: list[list[Any]] = np.stack([ends, mean, least, most], axis=1).tolist()
        return rows


class LogIndex:
    """What one run log says, as far as it was read; `advance` reads on.

    Args:
        path: The log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: str | None = None
        self.version = 0
        self._forget()
        self._load()

    def _forget(self) -> None:
        self.offset = self.size = self._saved = 0
        self._mark: tuple[int, int] = (0, 0)
        self.session: str | None = None
        self.client: str | None = None
        self.model: str | None = None
        self.target: str | None = None
        self.currency: str | None = None
        self.ended: str | None = None
        self.began: float | None = None
        self.updated: float | None = None
        self.replaced = False
        self.lines = self.bad = self.step = 0
        self.totals: dict[str, Any] = {}
        self.budget: dict[str, Any] = {}
        self.versions: list[Any] = []
        self.steps: dict[str, Steps] = {}
        self.pending: dict[bytes, bytes] = {}
        self.waiting: dict[int, dict[str, Any]] = {}
        self.held: dict[tuple[str, str], dict[str, Any]] = {}
        self.retries: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.outcomes: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.reasons: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.minutes: dict[int, list[float]] = {}

    # -- reading ---------------------------------------------------------------------------

    def advance(self, most: int = 1 << 62) -> bool:
        """Read what was written since; says whether that was anything.

        Args:
            most: Bytes after which to stop, so that others get their turn.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                self.error = None
                self.size = status.st_size
                if not self._is_same(file, status):
                    self._forget()
                    self.replaced, self.size = True, status.st_size
                if status.st_size == self.offset:
                    return False
                self._read(file, most)
        except OSError as error:
            changed = self.error is None
            self.error = f"{self.path.name} cannot be read: {error.strerror}."
            self.version += changed
            return changed
        self.version += 1
        grown = self.offset - self._saved
        if grown > SAVE_BYTES and grown * 4 > self.offset:
            self.save()
        return True

    def _is_same(self, file: Any, status: os.stat_result) -> bool:
        """Whether this is still the log that was read, not one put in its place."""
        if self.offset == 0:
            return True
        if status.st_size < self.offset:
            return False
        length, checksum = self._mark
        file.seek(0)
        return zlib.crc32(file.read(length)) == checksum

    def _read(self, file: Any, most: int) -> None:
        if self._mark[0] < HEAD:
            file.seek(0)
            head = file.read(HEAD)
            self._mark = len(head), zlib.crc32(head)
        file.seek(self.offset)
        rest = b""
        while most > 0 and (block := file.read(BLOCK)):
            most -= len(block)
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            self.offset += len(block)
            self._take(lines)
        # A line without its end is still being written, or was torn; it is read again.
        self.offset -= len(rest)

    def _take(self, lines: list[bytes]) -> None:
        pending = self.pending
        self.lines += len(lines)
        for line in lines:
            kind = line[9:13]
            if kind == b"star" and line[13:15] == b't"':
                key = line[line.find(b'"session":', 16) + 10 : line.find(b',"operation":', 32)]
                pending[key] = line
            elif kind == b"oper":
                key = line[line.find(b'"session":', 16) + 10 : line.find(b',"operation":', 32)]
                if pending.pop(key, None) is None:
                    # A call that opened the session began before the session had an id.
                    pending.pop(b"null" + key[key.rfind(b',"number"') :], None)
                if not line.endswith(SMOOTH) or self.held or self.waiting:
                    self._parse(line)
            elif line:
                self._parse(line)
        if lines and len(lines[-1]) > 30:
            stamp = lines[-1][lines[-1].find(b'"time":') + 7 :][:18].split(b",")[0]
            self.updated = _float(stamp) or self.updated

    def _parse(self, line: bytes) -> None:
        try:
            record = orjson.loads(line)
            take = getattr(self, f"_take_{record['type']}", None)
            if take is not None:
                take(record)
        except (ValueError, TypeError, KeyError, AttributeError):
            self.bad += 1

    def _take_session_start(self, record: dict[str, Any]) -> None:
        self.ended = None
        self.session = record.get("session")
        self.client = record.get("client") or self.client
        self.began = self.began or record.get("time")
        self.budget = dict(record.get("budget") or {})
        self.currency = record.get("currency")
        version = record.get("version", LOG_VERSION)
        if version != LOG_VERSION and version not in self.versions:
            self.versions.append(version)
        # An earlier session of the same file has ended, with or without saying so.
        ours = f'"{self.session}"'.encode()
        for key in [key for key in self.pending if not key.startswith((ours, b"null"))]:
            del self.pending[key]
        self.waiting.clear()
        self.held.clear()

    def _take_session_end(self, record: dict[str, Any]) -> None:
        self.ended = str(record.get("status") or "ended")
        self.totals = dict(record.get("totals") or self.totals)
        self.pending.clear()
        self.waiting.clear()
        self.held.clear()

    def _take_step(self, record: dict[str, Any]) -> None:
        self.target = target = str(record.get("target"))
        self.model = record.get("model") or self.model
        self.step = int(record["step"])
        self.totals = record.get("totals") or self.totals
        self.began = self.began or record.get("time")
        if target not in self.steps:
            self.steps[target] = Steps()
        self.steps[target].add(record)

    def _take_operation(self, record: dict[str, Any]) -> None:
        self.waiting.pop(record.get("number") or 0, None)
        self.held.pop((str(record.get("operation")), str(record.get("target"))), None)
        error, retries = record.get("error"), record.get("retries") or 0
        if error or retries:
            effect = record.get("effect") or ("unknown" if error else "yes")
            self.effects[effect] += 1
            keys = ("time", "number", "operation", "target", "seconds", "seq_id", "request_id")
            outcome = {key: record.get(key) for key in keys}
            self.outcomes.append(outcome | {"retries": retries, "error": error, "effect": effect})

    def _take_queue(self, record: dict[str, Any]) -> None:
        key = str(record.get("operation")), str(record.get("target"))
        self.held[key] = {name: record.get(name) for name in ("state", "reason", "time")}

    def _take_retry(self, record: dict[str, Any]) -> None:
        self.reasons[f"{record.get('operation')} · {record.get('reason')}"] += 1
        keys = ("time", "number", "operation", "lane", "attempt", "reason", "delay", "source")
        self.retries.append({key: record.get(key) for key in keys})

    def _take_waiting(self, record: dict[str, Any]) -> None:
        self.waiting = {call["number"]: call for call in record["calls"]}
        for call in record["calls"]:
            if call.get("state") == "active":  # a `queue` line is only written when it is not
                self.held.pop((str(call.get("operation")), str(call.get("target"))), None)

    def _take_time(self, record: dict[str, Any]) -> None:
        minute = self.minutes.setdefault(int(record["time"] // 60), [0.0] * len(KINDS))
        for at, kind in enumerate(KINDS):
            minute[at] += record.get(kind) or 0.0
        self.totals = record.get("totals") or self.totals

    # -- what the page asks for ------------------------------------------------------------

    def last(self, name: str, count: int = 20) -> float | None:
        """Mean of the last numbers of a column; None without any."""
        steps = self.steps.get(self.target or "")
        if steps is None:
            return None
        width = len(steps.names)
        recent = steps.table[-width * count :][steps.names.index(name) :: width]
        values = [value for value in recent if value == value]
        return sum(values) / len(values) if values else None

    def calls(self, most: int = 100) -> list[dict[str, Any]]:
        """The pending calls, oldest first, with all that is known about their waiting."""
        found = []
        for line in islice(self.pending.values(), most):
            record = orjson.loads(line)
            number, operation = record.get("number"), str(record.get("operation"))
            target = str(record.get("target"))
            call = {"number": number, "operation": operation, "target": target,
                    "since": record.get("time")}  # fmt: skip
            call |= self.waiting.get(number, {})
            held = self.held.get((operation, target))
            if held is not None:
                call |= {"state": held["state"], "reason": held["reason"]}
            found.append(call)
        return found

    def state(self, now: float) -> str:
        """Return `running`, `held back`, `quiet` for a while, `reading`, or how it ended."""
        if self.error is not None:
            return "unreadable"
        if self.size - self.offset > BLOCK:
            return "reading"
        if self.ended is not None:
            return {"success": "done", "ended": "done"}.get(self.ended, self.ended)
        if self.held or any((c.get("state") or "active") != "active" for c in self.calls(32)):
            return "held back"
        return "running" if now - (self.updated or 0) < 120 else "quiet"

    def notes(self) -> list[str]:
        """What a reader should know about the log itself."""
        found = [] if self.error is None else [self.error]
        if self.versions:
            told = ", ".join(map(str, self.versions))
            found.append(
                f"Written in format {told}, and this program knows {LOG_VERSION}: what it "
                "understands is shown. A newer tinker-ext may show more."
            )
        if self.replaced:
            found.append("The log was replaced while it was read; this is the new one.")
        if self.bad:
            found.append(f"{self.bad:,} lines could not be read and are left out.")
        return found

    # -- the index file --------------------------------------------------------------------

    @property
    def _place(self) -> Path:
        return self.path.with_name(f"{self.path.name}.index")

    def save(self) -> None:
        """Write the index beside the log; a folder that cannot be written to does without."""
        self._saved = self.offset
        small = {name: getattr(self, name) for name in _PLAIN} | {
            "format": FORMAT,
            "offset": self.offset,
            "mark": self._mark,
            "pending": [line.decode("utf-8", "replace") for line in self.pending.values()],
            "waiting": list(self.waiting.values()),
            "held": [[*key, value] for key, value in self.held.items()],
            "retries": list(self.retries),
            "outcomes": list(self.outcomes),
            "reasons": self.reasons,
            "effects": self.effects,
            "minutes": {str(key): value for key, value in self.minutes.items()},
            "columns": [[target, steps.names] for target, steps in self.steps.items()],
        }
        arrays = [np.frombuffer(steps.table) for steps in self.steps.values()]
        new = self._place.with_name(f".{self._place.name}.{os.getpid()}")
        try:
            with new.open("wb") as file:
                text = np.frombuffer(orjson.dumps(small), np.uint8)
                np.savez(file, text, *arrays)
            new.replace(self._place)
        except OSError:
            new.unlink(missing_ok=True)

    def _load(self) -> None:
        try:
            with np.load(self._place, allow_pickle=False) as stored:
                small = orjson.loads(stored["arr_0"].tobytes())
                if small["format"] != FORMAT:
                    return
                for at, (target, names) in enumerate(small["columns"], 1):
                    steps = self.steps[target] = Steps()
                    steps.names = names
                    steps.table.frombytes(stored[f"arr_{at}"].tobytes())
            for name in _PLAIN:
                setattr(self, name, small[name])
            self.pending = {_call(text.encode()): text.encode() for text in small["pending"]}
            self.waiting = {call["number"]: call for call in small["waiting"]}
            self.held = {(operation, target): v for operation, target, v in small["held"]}
            self.retries.extend(small["retries"])
            self.outcomes.extend(small["outcomes"])
            self.reasons.update(small["reasons"])
            self.effects.update(small["effects"])
            self.minutes = {int(key): value for key, value in small["minutes"].items()}
            self._mark = (small["mark"][0], small["mark"][1])
            self.offset = self._saved = small["offset"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, BadZipFile):
            self._forget()


def thinned(minutes: dict[int, list[float]], most: int = 120) -> list[list[float]]:
    """Rows of unix time, seconds covered, and seconds by kind; several minutes a row when long."""
    if not minutes:
        return []
    first, last = min(minutes), max(minutes)
    width = max(1, -(-(last - first + 1) // most))
    rows: dict[int, list[float]] = {}
    for minute, spent in minutes.items():
        at = (minute - first) // width
        row = rows.setdefault(at, [0.0] * len(KINDS))
        for kind, seconds in enumerate(spent):
            row[kind] += seconds
    return [[(first + at * width) * 60, width * 60, *rows[at]] for at in sorted(rows)]


def names_of(logs: Iterable[LogIndex]) -> list[str]:
    """Names of all columns that hold a number, the usual ones first."""
    known = dict.fromkeys(BASE[2:])
    for log in logs:
        for steps in log.steps.values():
            known.update(dict.fromkeys(steps.names))
    return [name for name in known if name not in BASE[:2]]


def _call(line: bytes) -> bytes:
    return line[line.find(b'"session":', 16) + 10 : line.find(b',"operation":', 32)]


def _float(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _number(value: Any) -> float:
    usual = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usual else NAN
