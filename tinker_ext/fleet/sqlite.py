"""A fleet on one machine: an SQLite database in a folder, one transaction a step."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson

from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.store import LAYOUT, Store, StoreLostError, StoreUnreachableError

FILE = "fleet.sqlite3"
BUSY_SECONDS = 3.0
TAKE_SECONDS = 0.2
"""A call of the user waits for this one."""
_TABLES = """CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS fleets (name TEXT PRIMARY KEY, kept TEXT) WITHOUT ROWID"""
# Few statements: whoever waits for a processor within a transaction keeps all others waiting.
_READ = """SELECT (SELECT kept FROM fleets WHERE name = ?),
                  (julianday('now') - 2440587.5) * 86400.0"""

_EMPTY = '{"state": {"limits": {}, "taken": {}}, "members": {}, "shares": {}, "spend": {}}'
# Held in every step, and at a fork: a child would wait for the lock of its parent's step for ever.
_step = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_step.acquire, after_in_parent=_step.release, after_in_child=_step.release
    )

Kept = dict[str, dict[str, Any]]


class SqliteStore(Store):
    """A store in a folder, which is made when it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._file = folder / FILE

    def open(self, *, make: bool = True) -> None:
        """Make the database when it is not there, check its layout and learn its salt."""
        folder = self._file.parent
        if not (make or self._file.exists()):
            self.salt = ""
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise ConfigurationError(
                    f"The fleet's folder {folder} is read-only for this user; give one that every "
                    "process of the fleet may write to."
                )
            with closing(sqlite3.connect(self._file, BUSY_SECONDS)) as database, database:
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(_TABLES)
                meta = dict(database.execute("SELECT key, value FROM meta"))
                self.check_layout(meta.get("layout"))
                mine = [("layout", str(LAYOUT)), ("salt", self.salt or secrets.token_hex(16))]
                database.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", mine)
                self.salt = dict(database.execute("SELECT key, value FROM meta"))["salt"]
        except OSError as error:
            problem = f"The fleet's folder {folder} cannot be made: {error.strerror}."
            raise ConfigurationError(problem) from None
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"{self._file} cannot be the store of a fleet: {error}. Delete it when no fleet "
                "uses it, or give another folder."
            ) from None

    def groups(self) -> list[str]:
        """All fleets in this store."""
        with self._transaction() as run:
            return [name for (name,) in run("SELECT name FROM fleets ORDER BY name")]

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step."""
        with self._transaction(TAKE_SECONDS if step == "take" else BUSY_SECONDS) as run:
            found, now = run(_READ, (group,)).fetchone()
            kept = orjson.loads(found or _EMPTY)
            if step == "look":
                return now, *kept.values()
            reply = _STEPS[step](kept, now, given)
            text = orjson.dumps(kept).decode()
            run("INSERT OR REPLACE INTO fleets VALUES (?, ?)", (group, text))
            return reply

    @contextmanager
    def _transaction(
        self, seconds: float = BUSY_SECONDS
    ) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Nobody else writes meanwhile.

        The connection is not kept: a forked child could not use it, and who has a deleted database
        open could use it on, alone.
        """
        if not _step.acquire(timeout=seconds):
            raise StoreUnreachableError(f"{self.place}: it is busy")
        try:
            place = f"{self._file.as_uri()}?mode=rw"
            database = sqlite3.connect(place, seconds, isolation_level=None, uri=True)
            with closing(database), database:
                # A power cut may cost the last seconds, which the members tell again.
                database.execute("PRAGMA synchronous = OFF")
                database.execute("BEGIN IMMEDIATE")
                salt = database.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
                if salt != (self.salt,):
                    raise StoreLostError(f"{self.place}: another database is in its place")
                yield database.execute
        except sqlite3.Error as error:
            gone = not self._file.exists()
            kind = StoreLostError if gone else StoreUnreachableError
            raise kind(f"{self.place}: {'it was deleted' if gone else error}") from error
        finally:
            _step.release()


def _set_aside(kept: Kept, given: Mapping[str, Any], amounts: Mapping[str, float]) -> None:
    """Note what a member has of the budget, whether there is room for it or not."""
    taken, own = kept["state"]["taken"], kept["spend"].get(given["id"], given["was"])
    if own.get("seq", 0) < given["seq"]:  # else a later step was faster
        for kind, amount in amounts.items():
            taken[kind] = taken.get(kind, 0) + amount - own.get(kind, 0)
        kept["spend"][given["id"]] = {**amounts, "seq": given["seq"]}


def _recall(kept: Kept, given: Mapping[str, Any]) -> None:
    """Learn again what a store has lost.

    Before that, all had taken what the one who knows most has read; `_set_aside` adds what each has
    taken since, which is what it has above what it `was` then.
    """
    state = kept["state"]
    for kind, most in given["limits"].items():
        state["limits"][kind] = min(most, state["limits"].get(kind, most))
    if given["id"] not in kept["spend"]:
        lost, taken = state.setdefault("lost", {}), state["taken"]
        for kind, known in given["known"].items():
            more = max(0, known - lost.get(kind, 0))
            lost[kind], taken[kind] = lost.get(kind, 0) + more, taken.get(kind, 0) + more


def _report(kept: Kept, now: float, given: Mapping[str, Any]) -> Any:
    state, members, name, turn = kept["state"], kept["members"], given["id"], 0
    if given["new"] and state.get("alive", 0) <= now:
        # Nobody was left: a new run begins, and what the last one spent is not its business.
        state |= {"limits": {}, "taken": {}, "lost": {}, "prices": {}}
        kept["spend"].clear()
    _recall(kept, given)
    state["base_url"] = given["base_url"]
    if given["prices"]:
        state["prices"] = given["prices"]
    _set_aside(kept, given, given["have"])
    if not given["ttl"]:
        members.pop(name, None)
        state["alive"] = state.get("alive", 0) if members else 0
    else:
        state["alive"], plan = now + given["ttl"], state.get("settled", 0)
        said = {"seen": now, "expires": state["alive"], "plan": plan, "said": given["said"]}
        members[name] = said
        # Newcomers and refusals do not wait for the next plan, but many of them share one. What
        # lies further ahead was written before the clock was set back.
        wait = state.get("next", 0) - now - (0.75 * given["every"] if given["urgent"] else 0)
        if not 0 < wait <= given["every"]:
            state["next"] = now + given["every"]
            turn = state["turn"] = state.get("turn", 0) + 1
    return now, turn, state, kept["shares"].get(name), len(members)


def _take(kept: Kept, _: float, given: Mapping[str, Any]) -> tuple[int, Any]:
    _recall(kept, given)
    state, own = kept["state"], kept["spend"].get(given["id"], given["was"])
    left = {kind: most - state["taken"].get(kind, 0) for kind, most in state["limits"].items()}
    for number, amounts in enumerate(given["asks"], 1):
        if all(amounts[kind] - own.get(kind, 0) <= max(0, left[kind]) for kind in left):
            _set_aside(kept, given, amounts)
            return number, state["taken"]
    return 0, state["taken"]


def _settle(kept: Kept, now: float, given: Mapping[str, Any]) -> int:
    state, members, shares = kept["state"], kept["members"], given["shares"]
    if state.get("turn") != given["turn"]:
        return 0
    state["plan"], state["settled"], kept["shares"] = given["plan"], given["turn"], shares
    for name in members.keys() - shares.keys():
        if members[name]["expires"] <= now:
            del members[name]
    return 1


_STEPS = {"report": _report, "take": _take, "settle": _settle}
