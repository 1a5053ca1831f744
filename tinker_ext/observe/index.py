"""`LogIndex`: what one run log says, read once, kept beside the log and read on from.

A log may have a million lines, so most are only looked at: the `start` and the `operation` line of
a call that went well cancel each other out by their first fields, and only the rest is parsed.
Curves are kept as columns of numbers and thinned out when they are asked for.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import attrs
import numpy as np
import orjson

from tinker_ext.runlog import KINDS, VERSION

T = TypeVar("T", dict[str, Any], list[Any])
FORMAT = 10
"""Of the index file; one of another format is made anew."""

BEHIND = 1 << 22
"""Bytes not read yet from which on a log is said to be still read."""

CHUNK = 1 << 18
KEPT = 100
MOST_MINUTES = 160
MOST_COLUMNS = 48
MOST_KNOWN = 10_000
MOST_DEPTH = 240

MARKED = 1024
SAVE_BYTES = 1 << 22
"""An index is saved when this much more was read, at the end or when it is twice as much."""

BASE = ("step", "time", "loss", "loss/token", "tokens/s", "seconds", "cost")
NAN = float("nan")
START, OPERATION, WAITING, QUEUE, *LATER = (
    b'{"type":"%b"' % kind
    for kind in (b"start", b"operation", b"waiting", b"queue", b"step", b"time")
)
ODD = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What a line raises that is not as it should be."""
SMOOTH = b'"retries":0,"effect":"yes","error":null}\n'
"""The end of most `operation` lines; there is nothing more to know about those."""


class Steps:
    """The steps of one model as rows of numbers, one column a name; a missing number is NaN."""

    def __init__(self, names: Iterable[str] = BASE, table: bytes = b"") -> None:
        self.names = list(names)
        self.table = array("d", table)
        self._metrics = tuple(self.names[len(BASE) :])

    @property
    def columns(self) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """All columns by name; no step can be added while somebody holds one."""
        rows = np.frombuffer(self.table).reshape(-1, len(self.names))
        return dict(zip(self.names, rows.T, strict=True))

    def add(self, record: dict[str, Any]) -> None:
        """Take in a `step` line."""
        get, metrics = record.get, typed(dict, record.get("metrics"))
        loss, per_token, seconds = get("loss"), get("loss_per_token"), get("seconds")
        trained, cost = (get("tokens") or {}).get("train") or 0, (get("totals") or {}).get("cost")
        if per_token is None and loss is not None:  # a server that does not tell which took part
            per_token = loss / trained if trained and "loss:mean" not in metrics else loss
        if tuple(metrics) == self._metrics:
            more: Iterable[Any] = metrics.values()
        else:
            self._widen(metrics)
            more = map(metrics.get, self._metrics)
        pace, cost = trained / seconds if seconds else NAN, NAN if cost is None else cost
        row = (record["step"] + 0, get("time"), loss, per_token, pace, seconds, cost, *more)
        try:
            self.table += array("d", row)
        except TypeError:
            self.table.extend(n if type(n) in (int, float) else NAN for n in row)

    def _widen(self, metrics: dict[str, Any]) -> None:
        known = set(self.names)
        new = [name for name in metrics if name not in known][: MOST_COLUMNS - len(known)]
        if new:
            rows = np.frombuffer(self.table).reshape(-1, len(self.names))
            wide = np.pad(rows, ((0, 0), (0, len(new))), constant_values=NAN)
            self.table = array("d", wide.tobytes())
            self.names += new
            self._metrics = tuple(self.names[len(BASE) :])

    def curve(self, name: str, x: str, low: float, high: float, points: int) -> list[list[Any]]:
        """Rows of x, mean, least and most, thinned out to at most `points`."""
        columns = self.columns
        if name not in columns or x not in BASE:
            return []
        xs, ys = columns[x], columns[name]
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


@attrs.define(slots=False, on_setattr=attrs.setters.NO_OP)  # hooks cost a second a million
class Seen:
    """What the lines so far said, but for steps and pending calls: what JSON can store."""

    offset: int = 0
    mark: int | None = None
    model: str | None = None
    target: str | None = None
    currency: str | None = None
    ended: str | None = None
    began: float | None = None
    updated: float | None = None
    lines: int = 0
    bad: int = 0
    step: int = 0
    totals: dict[str, Any] = attrs.field(factory=dict)
    budget: dict[str, Any] = attrs.field(factory=dict)
    versions: list[Any] = attrs.field(factory=list)
    waiting: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    again: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    held: dict[str, list[Any]] = attrs.field(factory=dict)
    retries: list[dict[str, Any]] = attrs.field(factory=list)
    outcomes: list[dict[str, Any]] = attrs.field(factory=list)
    reasons: Counter[str] = attrs.field(factory=dict, converter=Counter)
    effects: Counter[str] = attrs.field(factory=dict, converter=Counter)
    minutes: list[list[float]] = attrs.field(factory=list)


class LogIndex(Seen):
    """What one run log says, as far as it was read; `advance` reads on.

    Args:
        path: The log.
        begin: Read from the first line behind this byte on, and keep no index.
    """

    def __init__(self, path: Path, begin: int = 0) -> None:
        self.path, self._begins = path, begin
        self._place = path.with_name(f"{path.name}.index")
        self.error: str | None = None
        self.replaced = self._opened = False
        self._stamp: tuple[int, int, int] | None = None
        self._begin(offset=begin)
        if not begin:
            self._load()

    def _begin(self, **seen: Any) -> None:
        super().__init__(**seen)
        self.size = self._saved = self.offset
        self.steps: dict[str, Steps] = {}
        self.pending: dict[bytes, bytes] = {}
        self._known: set[bytes] = set()

    # -- reading ---------------------------------------------------------------------------

    def advance(self, most: int = 1 << 62) -> int:
        """Read what was written since; says how many bytes were, or 1 for news of another kind.

        Args:
            most: Bytes after which to stop, so that others get their turn.
        """
        before = self.offset
        try:
            found = self.path.stat()
            stamp = found.st_ino, found.st_size, found.st_mtime_ns
            if stamp == self._stamp:
                return 0
            with opened(self.path) as file:
                self.size, self.error = found.st_size, None
                if self.size < self.offset or self.mark not in (None, _mark(file, self.offset)):
                    self._begin()  # another log was put in its place, or this one was edited
                    self.size, before, self.replaced = found.st_size, 0, self._opened
                self._opened = True
                at_end = self._read(file, most)
            self._stamp = stamp if at_end else None
        except OSError as error:
            news, self._stamp = self.error is None, None
            self.error = f"{readable(self.path.name)} cannot be read: {error.strerror}."
            return int(news)
        grown = self.offset - self._saved
        if grown > SAVE_BYTES and (grown > self._saved or not self.behind) and not self._begins:
            self.save()
        return self.offset - before

    @property
    def behind(self) -> bool:
        """Whether much of the log has not been read yet."""
        return self.error is None and self.size - self.offset > BEHIND

    def _read(self, file: BinaryIO, most: int) -> bool:
        """Read on; says whether the end was reached, but for a line that has not got its own."""
        file.seek(self.offset)
        if self._begins == self.offset > 0:
            self.offset += len(file.readline())
        end, at_end = self.offset + most, False
        while self.offset < end and not at_end:
            left = max(0, self.size - self.offset)
            # Not all by `file.readlines`: it makes two of a line that is being written.
            lines = (io.BytesIO(file.read(left)) if left <= CHUNK else file).readlines(CHUNK)
            self.offset = file.tell()
            at_end = not lines or not lines[-1].endswith(b"\n")
            if at_end and lines:
                # A line without its end is still being written, or was torn; it is read again.
                self.offset -= len(lines.pop())
            self._take(lines)
        self.mark = _mark(file, self.offset)
        return at_end

    def _take(self, lines: list[bytes]) -> None:
        """Take in lines; of calls that go well they are only looked at.

        A `start` line counts unparsed when all but its time and number was parsed before, and an
        `operation` line when its call is pending, all went well and no other line runs into it. Of
        `waiting` lines the last counts: each is about all calls. Steps are parsed together, which
        is faster.
        """
        pending, known = self.pending, self._known
        later, waiting = list[bytes](), list[bytes]()
        self.lines += len(lines)
        for line in lines:
            try:
                kind, _, session, number, rest = line.split(b",", 4)
            except ValueError:
                kind = b""
            if kind == START and session + rest in known and number[9:].isdigit():
                pending[session + number] = line
            elif (
                kind == OPERATION
                and (key := session + number) in pending
                and rest.endswith(SMOOTH)
                and rest.count(b"{") == 2
            ):
                del pending[key]
            elif kind == WAITING:
                waiting = [line]
            elif kind in LATER:
                later.append(line)
            elif line != b"\n":
                if kind == QUEUE:
                    later, waiting = later + waiting, []
                self._parse(*later, line)
                later = []
                if kind == START and pending.get(session + number) is line:
                    known.add(session + rest)
                    if len(known) > MOST_KNOWN:
                        known.clear()
        self._parse(*later, *waiting)
        if lines and len(lines[-1]) > 30:
            stamp = lines[-1][lines[-1].find(b'"time":') + 7 :][:18].split(b",")[0]
            with suppress(ValueError):
                self.updated = float(stamp)

    def _parse(self, *lines: bytes) -> None:
        for line in lines:
            try:
                record = parse(line)
                if record["type"] == "start":
                    self.pending[_key(record)] = line
                elif take := getattr(self, "_take_" + record["type"], None):
                    take(record)
            except ODD:
                self.bad += 1

    def _take_step(self, record: dict[str, Any]) -> None:
        target = str(record.get("target"))
        if target not in self.steps:
            self.steps[target] = Steps()
            self.began = self.began or record.get("time")
        self.steps[target].add(record)
        self.target, self.step = target, record["step"]
        self.model = record.get("model") or self.model
        self.totals = record.get("totals") or self.totals

    def _take_session_start(self, record: dict[str, Any]) -> None:
        self.budget = typed(dict, record.get("budget"))
        self.ended = None
        self.began = self.began or record.get("time")
        self.currency = record.get("currency")
        version = record.get("version", VERSION)
        if version != VERSION and version not in self.versions:
            self.versions.append(version)
        # An earlier session of the same file has ended, with or without saying so.
        ours = _key(record, number=None)[:-4], _key({})[:-4]
        for key in [key for key in self.pending if not key.startswith(ours)]:
            del self.pending[key]

    def _take_session_end(self, record: dict[str, Any]) -> None:
        self.totals = typed(dict, record.get("totals")) or self.totals
        self.ended = str(record.get("status") or "success")
        self.pending.clear()

    def _take_operation(self, record: dict[str, Any]) -> None:
        key, error = _key(record), record.get("error")
        if self.pending.pop(key, None) is None:
            # A call that opened the session began before the session had an id.
            self.pending.pop(_key(record, session=None), None)
        self.again.pop(key.decode(), None)
        if error or record.get("retries"):
            effect = str(record.get("effect") or ("unknown" if error else "yes"))
            self.effects[effect] += 1
            self.outcomes.append(record | {"effect": effect})
            del self.outcomes[:-KEPT]

    def _take_queue(self, record: dict[str, Any]) -> None:
        state = {name: record.get(name) for name in ("state", "reason")}
        self.held[where(record)] = [record["time"] + 0.0, state]

    def _take_retry(self, record: dict[str, Any]) -> None:
        until = record["time"] + (record.get("delay") or 0.0) + 0.0  # texts could be added, too
        self.reasons[f"{record.get('operation')} · {record.get('reason')}"] += 1
        self.retries.append(record)
        del self.retries[:-KEPT]
        if record.get("number"):
            self.again[_key(record).decode()] = {"reason": record.get("reason"), "until": until}

    def _take_waiting(self, record: dict[str, Any]) -> None:
        session = {"session": record.get("session")}
        self.waiting = {_key(session | call).decode(): call for call in record["calls"]}
        self.held = {}  # each call here has its state; a `queue` line is about what comes later

    def _take_time(self, record: dict[str, Any]) -> None:
        self.totals = typed(dict, record.get("totals")) or self.totals
        width = self.minutes[-1][1] if self.minutes else 60.0
        self._add_minute(record["time"], width, [record.get(kind) or 0.0 for kind in KINDS])
        if len(self.minutes) > MOST_MINUTES:  # a long run has coarser ones
            rows, self.minutes = self.minutes, []
            for start, _, *spent in rows:
                self._add_minute(start, 2 * width, spent)

    def _add_minute(self, moment: float, width: float, spent: list[float]) -> None:
        start = moment // width * width
        if not self.minutes or self.minutes[-1][0] != start:
            self.minutes.append([start, width] + [0.0] * len(KINDS))
        self.minutes[-1][2:] = [a + b for a, b in zip(self.minutes[-1][2:], spent, strict=True)]

    # -- the index file --------------------------------------------------------------------

    def save(self) -> None:
        """Write the index beside the log; a folder that cannot be written to does without."""
        self._saved = self.offset
        head = {
            "seen": {field.name: getattr(self, field.name) for field in attrs.fields(Seen)},
            "pending": [[each.decode("latin-1") for each in item] for item in self.pending.items()],
            "steps": [[name, s.names, len(s.table)] for name, s in self.steps.items()],
        }
        new = self._place.with_name(f".{self._place.name}.{os.getpid()}")
        try:
            text = b"".join([orjson.dumps(head), b"\n", *(s.table for s in self.steps.values())])
            with new.open("wb") as file:
                file.writelines([b"%08x" % zlib.crc32(text, FORMAT), text])
            new.replace(self._place)
        except (OSError, TypeError):
            with suppress(OSError):  # a name that is too long cannot be asked for, either
                new.unlink()

    def _load(self) -> None:
        try:
            with opened(self._place) as file:
                checksum, text = int(file.read(8), 16), file.read()
            if zlib.crc32(text, FORMAT) != checksum:  # changed or cut off, or of another format
                return
            line, _, rest = text.partition(b"\n")
            head = orjson.loads(line)
            self._begin(**head["seen"])
            for key, line in head["pending"]:
                self.pending[key.encode("latin-1")] = line.encode("latin-1")
            tables = memoryview(rest)
            for name, names, length in head["steps"]:
                self.steps[name] = Steps(names, bytes(tables[: 8 * length]))
                tables = tables[8 * length :]
        except (OSError, *ODD):
            self._begin()


def opened(path: Path) -> io.BufferedReader:
    """A regular file, to be read; raises OSError for a pipe, without waiting for its writer."""

    def at_once(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    file: io.BufferedReader = io.BufferedReader(io.FileIO(path, opener=at_once), CHUNK)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


def _mark(file: BinaryIO, end: int) -> int:
    """Tells a log from another one that was put in its place, by the last lines that were read."""
    file.seek(max(0, end - MARKED))
    return zlib.crc32(file.read(min(end, MARKED)))


def readable(name: str | Path) -> str:
    """The name of a file as text, also of one that is not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def where(record: dict[str, Any]) -> str:
    """What kind of call a line is about, and of which model."""
    return f"{record.get('operation')} {record.get('target')}"


def parse(line: bytes) -> dict[str, Any]:
    """What a line says; raises one of `ODD` for one that the page cannot be told."""
    try:
        record: dict[str, Any] = orjson.loads(line)
    except ValueError:  # NaN, as other programs write it, becomes null
        record = orjson.loads(orjson.dumps(json.loads(line)))
    if len(line) > 2 * MOST_DEPTH < 2 * (line.count(b"[") + line.count(b"{")):
        orjson.dumps([[[[[[[[record]]]]]]]])  # raises when it is nested too deeply to be sent
    return record


def typed(kind: type[T], value: Any) -> T:
    """An object or a list of a line, empty when it is missing."""
    if value and type(value) is not kind:
        raise TypeError(f"not a {kind.__name__}")
    return value or kind()


def _key(record: dict[str, Any], **other: Any) -> bytes:
    """Session and number of a call, as the run log writes them."""
    both = {"session": None, "number": None} | record | other
    return b"".join(orjson.dumps({name: both[name]})[1:-1] for name in ("session", "number"))
