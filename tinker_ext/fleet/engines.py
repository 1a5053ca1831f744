"""What a store is made of: an SQLite database on one machine, or a Redis server for many.

Both keep a text for each fleet. They differ in how a step is taken at once: in a transaction, or by
a script that writes unless another step was faster, in which case the step is decided anew.
"""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError

Change = Callable[[float, str | None], tuple[Any, str]]  # of time and text: an answer and a text

FILE = "fleet.sqlite3"
BUSY_SECONDS = 3.0
_TABLES = """CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS fleets (name TEXT PRIMARY KEY, kept TEXT) WITHOUT ROWID"""
# Few statements: whoever waits for a processor within a transaction keeps all others waiting.
_SELECT = """SELECT (julianday('now') - 2440587.5) * 86400.0,
                    (SELECT kept FROM fleets WHERE name = ?)"""

PREFIX = "tinker-ext:fleet"
ANSWER_SECONDS = 2.0
ATTEMPTS = 200  # each means that another step was faster, which happens once or twice
LONGEST_PAUSE = 0.5  # where hundreds of members begin at once, random pauses let each have a turn
_PASSWORD_HINT = (
    "Give both in TINKER_EXT_FLEET (redis://USER:PASSWORD@HOST), or the password in REDISCLI_AUTH."
)
_CHECK = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('LOST what it held') end
"""
_READ = """
local time, found = redis.call('TIME'), redis.call('HMGET', KEYS[2], 'mark', 'kept')
return {time[1], time[2], found[1] or '', found[2] or ''}
"""
_WRITE = """
if (redis.call('HGET', KEYS[2], 'mark') or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], 'mark', ARGV[3], 'kept', ARGV[4])
return 1
"""

# Held in every step, and at a fork: a child would wait for the lock of its parent's step for ever.
_step = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_step.acquire, after_in_parent=_step.release, after_in_child=_step.release
    )


class StoreUnreachableError(Exception):
    """The store did not answer, or is another one; users of a running client see a warning."""


class Database:
    """An SQLite database in a folder, which is made when it does not exist."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def open(self, mine: Mapping[str, str]) -> dict[str, str]:
        """Return what the database says about itself, after adding what is missing of `mine`."""
        folder = self._file.parent
        if not (mine or self._file.exists()):
            return {}
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
                database.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", mine.items())
                return dict(database.execute("SELECT key, value FROM meta"))
        except OSError as error:
            problem = f"The fleet's folder {folder} cannot be made: {error.strerror}."
            raise ConfigurationError(problem) from None
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"{self._file} cannot be the store of a fleet: {error}. Delete it when no fleet "
                "uses it, or give another folder."
            ) from None

    def groups(self, salt: str) -> list[str]:
        """The names of all fleets."""
        with self._transaction(salt) as execute:
            return [name for (name,) in execute("SELECT name FROM fleets ORDER BY name")]

    def read(self, group: str, salt: str) -> tuple[float, str | None]:
        """The time, and what is kept of a fleet."""
        with self._transaction(salt) as execute:
            now, text = execute(_SELECT, (group,)).fetchone()
            return now, text

    def step(self, group: str, salt: str, change: Change) -> Any:
        """Let `change` replace what is kept of a fleet, within a transaction."""
        with self._transaction(salt) as execute:
            answer, text = change(*execute(_SELECT, (group,)).fetchone())
            execute("INSERT OR REPLACE INTO fleets VALUES (?, ?)", (group, text))
            return answer

    def close(self) -> None:
        """Nothing: no connection is kept."""

    @contextmanager
    def _transaction(self, salt: str) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Nobody else writes meanwhile."""
        if not _step.acquire(timeout=BUSY_SECONDS):
            raise StoreUnreachableError(f"{self._file}: it is busy")
        try:
            # Not kept: a forked child could not use it, and a deleted one could be used on, alone.
            place = f"{self._file.as_uri()}?mode=rw"
            database = sqlite3.connect(place, BUSY_SECONDS, isolation_level=None, uri=True)
            with closing(database), database:
                # A power cut may cost the last seconds, which the members tell again.
                database.execute("PRAGMA synchronous = OFF")
                database.execute("BEGIN IMMEDIATE")
                found = database.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
                if found != (salt,):
                    raise StoreUnreachableError(f"{self._file}: another one is in its place")
                yield database.execute
        except sqlite3.Error as error:
            raise StoreUnreachableError(f"{self._file}: {error}") from error
        finally:
            _step.release()


class Redis:
    """A Redis or Valkey server, given its URL with the password if it has one, and without."""

    def __init__(self, url: str, place: str) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise ConfigurationError(
                f"A fleet on redis:// needs the redis package: {how_to_install('fleet')}."
            ) from None
        self._place, self._errors = place, redis.exceptions
        # Waiting for a store that is away is the member's business.
        options: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "decode_responses": True}
        options |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"), ANSWER_SECONDS)
        try:
            self._client: Any = redis.Redis.from_url(url, **options)
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # checks the options of the URL
        except (ValueError, TypeError, redis.RedisError) as error:
            raise ConfigurationError(f"{place} is not a URL of Redis: {error}.") from None
        self._read_script = self._client.register_script(_CHECK + _READ)
        self._write_script = self._client.register_script(_CHECK + _WRITE)

    def open(self, mine: Mapping[str, str]) -> dict[str, str]:
        """Return what the server says about itself, after adding what is missing of `mine`."""
        wrong, client = self._errors, self._client
        try:
            for name, value in mine.items():
                client.setnx(f"{PREFIX}:{name}", value)
            return {name: client.get(f"{PREFIX}:{name}") for name in ("layout", "salt")}
        except (wrong.RedisError, OSError, UnicodeError) as error:
            what, hint = "cannot hold a fleet", "Give another server, or ask who runs this one."
            if isinstance(error, wrong.AuthenticationError | wrong.NoPermissionError):
                what, hint = "refused the user or password", _PASSWORD_HINT
            elif isinstance(error, wrong.ConnectionError | wrong.TimeoutError | OSError):
                what, hint = "cannot be reached", "Check host and port, and that the server runs."
            reason = str(error).rstrip(".")
            raise ConfigurationError(f"The store {self._place} {what}: {reason}. {hint}") from None

    def groups(self, _: str) -> list[str]:
        """The names of all fleets."""
        with self._talking():
            names = list(self._client.scan_iter(f"{PREFIX}:group:*"))
        return sorted(name.rpartition(":")[2] for name in names)

    def read(self, group: str, salt: str) -> tuple[float, str, str]:
        """The time, what is kept of a fleet, and the mark of the step that wrote it."""
        with self._talking():
            seconds, micros, mark, text = self._read_script(_keys(group), [salt])
        return int(seconds) + int(micros) / 1e6, text, mark

    def step(self, group: str, salt: str, change: Change) -> Any:
        """Let `change` replace what is kept of a fleet, unless another step just did."""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.0005 * 2**attempt)))
            now, text, mark = self.read(group, salt)
            answer, text = change(now, text)
            # Not a number: a store that lost everything could come to the same one again.
            given = [salt, mark, secrets.token_hex(8), text]
            with self._talking():
                if self._write_script(_keys(group), given):
                    return answer
        raise StoreUnreachableError(f"{self._place}: it is busy")

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.RedisError, OSError) as error:
            raise StoreUnreachableError(f"{self._place}: {error}") from error


def _keys(group: str) -> list[str]:
    return [f"{PREFIX}:salt", f"{PREFIX}:group:{group}"]
