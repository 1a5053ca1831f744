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
from tinker_ext.fleet.steps import STEPS, Kept, empty
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

# Held in every step, and at a fork: a child would wait for the lock of its parent's step for ever.
_step = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_step.acquire, after_in_parent=_step.release, after_in_child=_step.release
    )


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
        """Take one step at once."""
        with self._transaction(TAKE_SECONDS if step == "take" else BUSY_SECONDS) as run:
            now, kept = _read(run, group)
            answer = STEPS[step](kept, now, given)
            text = orjson.dumps(kept).decode()
            run("INSERT OR REPLACE INTO fleets VALUES (?, ?)", (group, text))
            return answer

    def read(self, group: str) -> tuple[float, Kept]:
        """The time, and everything that is kept of a fleet."""
        with self._transaction() as run:
            return _read(run, group)

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


def _read(run: Callable[..., sqlite3.Cursor], group: str) -> tuple[float, Kept]:
    text, now = run(_READ, (group,)).fetchone()
    return now, orjson.loads(text) if text else empty()
