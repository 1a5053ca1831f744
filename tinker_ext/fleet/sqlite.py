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
from tinker_ext.fleet.store import (
    KINDS,
    LAYOUT,
    NOTHING,
    Amounts,
    FleetRecord,
    Grant,
    MemberRecord,
    Report,
    StoreUnreachableError,
    check_layout,
    grant,
)

FILE = "fleet.sqlite3"
BUSY_SECONDS = 2.0
_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
_TABLES = """
CREATE TABLE IF NOT EXISTS fleets (name TEXT PRIMARY KEY, state TEXT, plan TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (fleet TEXT, id TEXT, lease INTEGER, target INTEGER, seen REAL,
    expires REAL, facts TEXT, PRIMARY KEY (fleet, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spend (fleet TEXT, id TEXT, amounts TEXT, PRIMARY KEY (fleet, id))
    WITHOUT ROWID;
"""


class _Step:
    """One transaction, with the time and the state of one fleet."""

    def __init__(self, run: Callable[..., sqlite3.Cursor], group: str) -> None:
        self.run, self._group = run, group
        self.now: float = run("SELECT (julianday('now') - 2440587.5) * 86400.0").fetchone()[0]
        found = run("SELECT state, plan FROM fleets WHERE name = ?", (group,)).fetchone()
        self.state: dict[str, Any] = orjson.loads(found[0]) if found else {}
        self.plan: dict[str, Any] = orjson.loads(found[1]) if found else {}

    def write(self) -> None:
        row = (self._group, _json(self.state), _json(self.plan))
        self.run("INSERT OR REPLACE INTO fleets VALUES (?, ?, ?)", row)

    def spend(self) -> dict[str, dict[str, float]]:
        rows = self.run("SELECT id, amounts FROM spend WHERE fleet = ?", (self._group,))
        return {name: orjson.loads(amounts) for name, amounts in rows}


class SqliteStore:
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
        except OSError as error:
            raise ConfigurationError(
                f"The fleet's folder {folder} cannot be made: {error.strerror}."
            ) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigurationError(
                f"The fleet's folder {folder} is read-only for this user; give one that every "
                "process of the fleet may write to."
            )
        try:
            with self._step("") as step:
                for pair in (("layout", str(LAYOUT)), ("salt", secrets.token_hex(16))):
                    step.run("INSERT OR IGNORE INTO meta VALUES (?, ?)", pair)
                found = step.run("SELECT value FROM meta WHERE key = 'salt'").fetchone()
            return bytes.fromhex(found[0])
        except StoreUnreachableError as error:
            raise ConfigurationError(
                f"{folder / FILE} cannot be the store of a fleet: {error.__cause__}. Delete it "
                "when no fleet uses it, or give another folder."
            ) from None

    def enter(
        self, group: str, base_url: str, limits: Amounts, prices: Mapping[str, Any] | None
    ) -> None:
        """Make the fleet, begin its spend anew when nobody is alive, merge the budget."""
        with self._step(group) as step:
            state = step.state
            alive = "SELECT 1 FROM members WHERE fleet = ? AND expires > ?"
            if step.run(alive, (group, step.now)).fetchone() is None:
                step.run("DELETE FROM spend WHERE fleet = ?", (group,))
                state |= {"limits": {}, "taken": NOTHING, "prices": None}
            known = state.setdefault("limits", {})
            known |= {kind: min(most, known.get(kind, most)) for kind, most in limits.items()}
            state |= {"base_url": base_url, "prices": prices or state.get("prices")}
            step.write()

    def sync(self, group: str, report: Report) -> Grant:
        """Renew a lease and read what applies to all."""
        one = (group, report.id)
        with self._step(group) as step:
            run, state, now = step.run, step.state, step.now
            old = run("SELECT target FROM members WHERE fleet = ? AND id = ?", one).fetchone()
            others, leased = run(
                "SELECT COUNT(*), COALESCE(SUM(lease), 0) FROM members WHERE fleet = ? AND id != ?",
                one,
            ).fetchone()
            target = None if old is None else old[0]
            cap, target, serial = grant(state, target, others, leased, report, now)
            lease = max(cap, report.active)
            row = (*one, lease, target, now, now + report.ttl, _json(report.facts))
            run("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            step.write()
            mine = run("SELECT amounts FROM spend WHERE fleet = ? AND id = ?", one).fetchone()
        return Grant(
            cap=cap,
            target=target,
            window=state["window"],
            round=state.get("round", 0),
            pause=max(0.0, state["pause"] - now),
            members=others + 1,
            serial=serial,
            known=old is not None,
            limits=state.get("limits", {}),
            taken=state.get("taken", NOTHING),
            mine=orjson.loads(mine[0]) if mine else NOTHING,
        )

    def look(self, group: str, *, sweep: bool = False) -> FleetRecord | None:
        """Read everything; with `sweep`, first forget members whose lease ended."""
        with self._step(group) as step:
            now, state = step.now, step.state
            if sweep:
                step.run("DELETE FROM members WHERE fleet = ? AND expires <= ?", (group, now))
            members = step.run(
                "SELECT id, lease, target, ? - seen, facts FROM members "
                "WHERE fleet = ? AND expires > ? ORDER BY id",
                (now, group, now),
            ).fetchall()
            spend = step.spend()
        if not state:
            return None
        return FleetRecord(
            group=group,
            base_url=state.get("base_url", ""),
            now=now,
            pause=max(0.0, state.get("pause", 0) - now),
            window=step.plan,
            size=state.get("window", 0),
            members=tuple(
                MemberRecord(id=a, lease=b, target=c, age=d, facts=orjson.loads(e))
                for a, b, c, d, e in members
            ),
            limits=state.get("limits", {}),
            prices=state.get("prices"),
            spend=spend,
        )

    def settle(
        self, group: str, serial: int, window: Mapping[str, Any], targets: Mapping[str, int]
    ) -> None:
        """Write a plan, unless a later one was begun."""
        with self._step(group) as step:
            if step.state.get("serial") != serial:
                return
            step.state |= {"window": window["size"], "round": window["round"]}
            step.plan = dict(window)
            step.write()
            for name, target in targets.items():
                row = (target, group, name)
                step.run("UPDATE members SET target = ? WHERE fleet = ? AND id = ?", row)

    def take(
        self, group: str, member: str, need: Amounts, want: Amounts, *, check: bool
    ) -> Amounts | None:
        """Set aside a part of the budget for a member; negative amounts give back."""
        with self._step(group) as step:
            taken = step.state.get("taken", NOTHING)
            limits = step.state.get("limits", {}) if check else {}
            for amounts in (want, need):
                # What a call does not use cannot exceed its limit.
                if all(
                    not amounts.get(kind) or taken[kind] + amounts[kind] <= most
                    for kind, most in limits.items()
                ):
                    break
            else:
                return None
            mine = step.spend().get(member, NOTHING)
            more = {kind: mine[kind] + amounts.get(kind, 0) for kind in KINDS}
            row = (group, member, _json(more))
            step.run("INSERT OR REPLACE INTO spend VALUES (?, ?, ?)", row)
            step.state["taken"] = {kind: taken[kind] + amounts.get(kind, 0) for kind in KINDS}
            step.write()
            return amounts

    def leave(self, group: str, member: str) -> None:
        """Give a lease back at once; what the member spent stays."""
        with self._step(group) as step:
            step.run("DELETE FROM members WHERE fleet = ? AND id = ?", (group, member))

    def groups(self) -> list[str]:
        """All fleets in this store."""
        with self._step("") as step:
            return [name for (name,) in step.run("SELECT name FROM fleets ORDER BY name")]

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _step(self, group: str) -> Iterator[_Step]:
        """One transaction; nobody else writes meanwhile."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield _Step(connection.execute, group)
            except sqlite3.Error as error:
                # Gone, full, damaged, locked for too long: the next step opens it anew.
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                raise StoreUnreachableError(f"{self.place}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._folder / FILE,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power cut may cost the last seconds, which the members tell again.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(_META)
            found = connection.execute("SELECT value FROM meta WHERE key = 'layout'").fetchone()
            check_layout(found[0] if found else None, self.place)
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
