"""A fleet on one machine: an SQLite database in a folder, one transaction a step."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.plan import LONGEST_PAUSE, RECOVERY_SECONDS, grant, is_due
from tinker_ext.fleet.store import LAYOUT, Store, StoreUnreachableError

FILE = "fleet.sqlite3"
BUSY_SECONDS = 2.0
_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_FLEETS = "CREATE TABLE IF NOT EXISTS fleets (name TEXT PRIMARY KEY, kept TEXT) WITHOUT ROWID"
_NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"

Kept = dict[str, dict[str, Any]]


class SqliteStore(Store):
    """A store in a folder, which is made when it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> bytes:
        """Open the database, making it when it is not there; returns its salt."""
        folder = self._folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                with self._transaction() as run:
                    for pair in (("layout", str(LAYOUT)), ("salt", secrets.token_hex(16))):
                        run("INSERT OR IGNORE INTO meta VALUES (?, ?)", pair)
                    found = run("SELECT value FROM meta WHERE key = 'salt'").fetchone()
                return bytes.fromhex(found[0])
            problem = f"The fleet's folder {folder} is read-only for this user; give one that "
            problem += "every process of the fleet may write to."
        except OSError as error:
            problem = f"The fleet's folder {folder} cannot be made: {error.strerror}."
        except StoreUnreachableError as error:
            problem = f"{folder / FILE} cannot be the store of a fleet: {error.__cause__}. Delete "
            problem += "it when no fleet uses it, or give another folder."
        raise ConfigurationError(problem)

    def groups(self) -> list[str]:
        """All fleets in this store."""
        with self._transaction() as run:
            return [name for (name,) in run("SELECT name FROM fleets ORDER BY name")]

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._disconnect()

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step, or raise `StoreUnreachableError`."""
        with self._transaction() as run:
            found = run("SELECT kept FROM fleets WHERE name = ?", (group,)).fetchone()
            before = found[0] if found else '{"numbers":{},"texts":{},"members":{},"spend":{}}'
            kept = orjson.loads(before)
            reply = _STEPS[step](kept, run(_NOW).fetchone()[0], given)
            after = orjson.dumps(kept).decode()
            if after != before:
                run("INSERT OR REPLACE INTO fleets VALUES (?, ?)", (group, after))
        return reply

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Nobody else writes meanwhile."""
        with self._lock:
            try:
                if self._connection is None:
                    options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
                    self._connection = sqlite3.connect(
                        self._folder / FILE, timeout=BUSY_SECONDS, **options
                    )
                    run = self._connection.execute
                    run("PRAGMA journal_mode = WAL")
                    # A power cut may cost the last seconds, which the members tell again.
                    run("PRAGMA synchronous = OFF")
                    run(_META)
                    found = run("SELECT value FROM meta WHERE key = 'layout'").fetchone()
                    self.check_layout(found[0] if found else None)
                    run(_FLEETS)
                with self._connection as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection.execute
            except sqlite3.Error as error:
                # Gone, full, damaged, locked for too long: the next step opens it anew.
                self._disconnect()
                raise StoreUnreachableError(f"{self.place}: {error}") from error
            except ConfigurationError:
                self._disconnect()
                raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _sync(kept: Kept, now: float, given: Mapping[str, Any]) -> Any:
    numbers, members, name = kept["numbers"], kept["members"], given["id"]
    if given["claim"] is None and numbers.get("alive", 0) <= now:
        # Nobody was left: a new run begins, and what the last one spent is not its business.
        kept["spend"].clear()
        kept["texts"].pop("prices", None)
        for field in [field for field in numbers if field.startswith(("limit ", "taken "))]:
            del numbers[field]
    kept["texts"] |= given["texts"]
    for kind, most in given["limits"].items():
        numbers[f"limit {kind}"] = min(most, numbers.get(f"limit {kind}", most))
    for field, first in (("window", given["window"]), ("round", 0), ("growing", 1)):
        numbers.setdefault(field, first)
    row = members.pop(name, None)
    if row is None and given["claim"] is not None:
        numbers["recovering"] = now + RECOVERY_SECONDS
    cap, target = grant(
        int(numbers["window"]),
        None if row is None else row["target"],
        len(members),
        sum(other["lease"] for other in members.values()),
        given["claim"],
        numbers.get("recovering", 0) > now,
    )
    lease, expires = max(cap, given["active"]), now + given["ttl"]
    members[name] = {"lease": lease, "target": target, "seen": now, "expires": expires}
    members[name]["facts"], numbers["alive"] = given["facts"], expires
    # What lies further ahead was written before the clock was set back.
    pause = max(numbers.get("pause", 0), now + given["pause"])
    numbers["pause"] = min(pause, now + LONGEST_PAUSE)
    turn = 0
    if is_due(numbers.get("next", 0), now, given["every"], urgent=given["urgent"]):
        numbers["next"] = now + given["every"]
        turn = numbers["turn"] = numbers.get("turn", 0) + 1
    return now, numbers, row is not None, cap, target, turn, len(members)


def _look(kept: Kept, now: float, given: Mapping[str, Any]) -> Any:
    members = kept["members"]
    if given["sweep"]:
        for name in [name for name, row in members.items() if row["expires"] <= now]:
            del members[name]
    return now, kept["numbers"], kept["texts"], members, kept["spend"]


def _settle(kept: Kept, _: float, given: Mapping[str, Any]) -> None:
    if kept["numbers"].get("turn") == given["turn"]:
        kept["numbers"] |= given["numbers"]
        kept["texts"]["plan"] = given["plan"]
        for name in given["targets"].keys() & kept["members"].keys():
            kept["members"][name]["target"] = given["targets"][name]


def _take(kept: Kept, _: float, given: Mapping[str, Any]) -> str:
    numbers, spend = kept["numbers"], kept["spend"]
    for choice in ("want", "need"):
        taken = {k: numbers.get(f"taken {k}", 0) + more for k, more in given[choice].items()}
        # What a call does not use cannot exceed its limit.
        if not given["check"] or all(
            not given[choice][k] or total <= numbers.get(f"limit {k}", total)
            for k, total in taken.items()
        ):
            for kind, total in taken.items():
                field = f"{kind} {given['id']}"
                numbers[f"taken {kind}"] = total
                spend[field] = spend.get(field, 0) + given[choice][kind]
            return choice
    return ""


def _leave(kept: Kept, _: float, given: Mapping[str, Any]) -> None:
    kept["members"].pop(given["id"], None)
    if not kept["members"]:
        kept["numbers"]["alive"] = 0


_STEPS = {"sync": _sync, "look": _look, "settle": _settle, "take": _take, "leave": _leave}
