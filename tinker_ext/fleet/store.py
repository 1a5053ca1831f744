"""`Store`: the place at an address where fleets are kept.

It is an SQLite database on one machine, or a Redis server for many. Both keep one text a fleet.
They differ in how a step is taken at once: in a transaction, or by a script that writes unless
another step was faster, in which case the step is decided anew.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tinker_ext import forks
from tinker_ext._extras import how_to_install
from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.state import Fleet

LAYOUT = 6  # of what is written into a store; another when another version could misread it
_VERSION = __version__.split(".")[:2]
_ONE_VERSION = "Run one version in all processes, or give this run a place of its own."
Contents = tuple[float, dict[str, str], dict[str, str]]  # time, about the store, text of each fleet
Change = Callable[[float, str, str], Fleet]  # of the time, the salt and a text: the fleet after it

FILE = "fleet.sqlite3"
BUSY_SECONDS = 3.0
_TABLES = """CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS fleets (name TEXT PRIMARY KEY, kept TEXT) WITHOUT ROWID"""
# Few statements: whoever waits for a processor within a transaction keeps all others waiting.
_READ = """SELECT (julianday('now') - 2440587.5) * 86400.0,
                  (SELECT value FROM meta WHERE key = 'salt'),
                  (SELECT kept FROM fleets WHERE name = ?)"""

KEYS = {name: f"tinker-ext:fleet:{name}" for name in ("layout", "salt", "fleets")}
ANSWER_SECONDS = 2.0
ATTEMPTS = 200  # each means that another step was faster, which happens once or twice
LONGEST_PAUSE = 0.5  # where hundreds of members begin at once, random pauses let each have a turn
_WRITE = """
local kept = redis.call('HGET', KEYS[2], ARGV[2]) or ''
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.sha1hex(kept) ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
return 1
"""
# Strict: where a part of a password is not where it should be, nothing of the address is shown.
_URL = re.compile(
    r"(?P<scheme>rediss?|unix)://(?:(?P<user>[^:/?#@]*)(?::[^/?#@\[\]]*)?@)?"
    r"(?P<host>(?:(?:[^:/?#@\[\]]+|\[[\da-fA-F:.]+\])(?::\d+)?)?(?:/[^?#@]*)?)"
    r"(?:\?(?P<query>[^#@]*))?(?:#[^@]*)?"
)
# Options of a URL that others may see and need; any other may be a secret, or a misspelt one.
_SHOWN = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname")

# Held in every step: a child forked within one would wait for the lock of that step for ever. A
# finalizer may take a step within one of its thread, and finds the database busy.
_stepping = forks.fork_lock()


class Store:
    """A place that all members of a fleet reach; `place` is its address without a password."""

    hint: str
    failures: tuple[type[Exception], ...]
    _open: Callable[[Mapping[str, str]], Contents]  # after adding what is missing of what is given
    _step: Callable[[str, Change], Fleet]  # lets a change replace what is kept of a fleet

    def __init__(self, place: str) -> None:
        self.place, self.salt = place, ""

    def close(self) -> None:
        """End the connections."""

    def open(self, *, make: bool = True) -> tuple[float, dict[str, str]]:
        """Check the layout, learn the salt; the time, and what is kept of each fleet.

        Only `make` writes into an empty store. Everything that is wrong is a `ConfigurationError`.
        """
        mine = {"layout": str(LAYOUT), "salt": self.salt or secrets.token_hex(16)}
        with self.reading():
            now, found, fleets = self._open(mine if make else {})
        layout, self.salt = found.get("layout") or mine["layout"], found.get("salt") or ""
        if layout != mine["layout"]:
            age = "an older" if layout.isdecimal() and int(layout) < LAYOUT else "a newer"
            raise ConfigurationError(
                f"The fleet at {self.place} was written by {age} version of tinker-ext: its layout "
                f"is {layout}, and version {__version__} uses {LAYOUT}. {_ONE_VERSION}"
            )
        return now, fleets

    def look(self) -> dict[str, Fleet]:
        """Everything about all fleets, by name; changes nothing."""
        with self.reading():
            now, fleets = self.open(make=False)
            return {name: Fleet.read(text, now) for name, text in sorted(fleets.items())}

    def name_of(self, base_url: str, fingerprint: str) -> str:
        """The name of the fleet of a server and a credential (its one-way mark): tells neither."""
        text = f"{base_url}\0{fingerprint}".encode()
        return hmac.new(self.salt.encode(), text, hashlib.sha256).hexdigest()[:24]

    def report(self, server: tuple[str, str], given: Mapping[str, Any]) -> Fleet:
        """Take the step of a member (`Fleet.report`); returns the fleet after it."""

        def change(now: float, salt: str, text: str) -> Fleet:
            if salt != self.salt:
                raise ConfigurationError(f"Another store is in the place of {self.place}.")
            fleet = Fleet.read(text, now)
            for member in fleet.members:  # those of another version plan by other rules
                theirs = str(member.get("version"))
                if member["id"] != given["id"] and theirs.split(".")[:2] != _VERSION:
                    raise ConfigurationError(
                        f"The fleet at {self.place} is in use by tinker-ext {theirs} "
                        f"({member['id']}) and this is {__version__}. {_ONE_VERSION}"
                    )
            fleet.report(given)
            return fleet

        if self.salt:
            with suppress(ConfigurationError), self.reading():
                return self._step(self.name_of(*server), change)
        self.open()  # it is the first time, or another is in its place
        with self.reading():
            return self._step(self.name_of(*server), change)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make whatever is wrong with the store one error that says what to do."""
        try:
            yield
        except ConfigurationError:
            raise
        except self.failures as error:
            reason = f"{str(error).rstrip('.')}. {self.hint}"
            problem = f"The fleet's store {self.place} cannot be used: {reason}"
            raise ConfigurationError(problem) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"What the fleet's store {self.place} holds is damaged ({error!r}). Delete it when "
                "no fleet uses it, or give another place."
            ) from None


class Database(Store):
    """An SQLite database in a folder, which is made when it does not exist."""

    hint = (
        "Every process of the fleet must be able to write to this folder, on a local disk. A "
        f"damaged {FILE} in it can be deleted when no fleet uses it."
    )
    failures = (OSError, sqlite3.Error)

    def _open(self, mine: Mapping[str, str]) -> Contents:
        file = Path(self.place, FILE)
        if not (mine or file.exists()):
            return 0.0, {}, {}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()  # says more than SQLite about what is not allowed
        with closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_TABLES)
            database.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", mine.items())
            ((now, *_),) = database.execute(_READ, ("",))
            about = dict(database.execute("SELECT key, value FROM meta"))
            return now, about, dict(database.execute("SELECT name, kept FROM fleets"))

    def _step(self, name: str, change: Change) -> Fleet:
        with _stepping:
            # Not kept: a forked child could not use it, and a deleted one could be used on, alone.
            place = f"{Path(self.place, FILE).as_uri()}?mode=rw"
            database = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
            with closing(database), database:
                # A power cut may cost the last seconds, which the members tell again.
                database.execute("PRAGMA synchronous = OFF")
                database.execute("BEGIN IMMEDIATE")
                fleet = change(*database.execute(_READ, (name,)).fetchone())
                kept = (name, fleet.text())
                database.execute("INSERT OR REPLACE INTO fleets VALUES (?, ?)", kept)
                return fleet


class Redis(Store):
    """A Redis or Valkey server at a URL."""

    hint = (
        "Check host and port, that the server runs, and user and password: give both in "
        "TINKER_EXT_FLEET (redis://USER:PASSWORD@HOST), or the password in REDISCLI_AUTH."
    )

    def __init__(self, place: str, url: str) -> None:
        super().__init__(place)
        try:
            import redis
        except ImportError:
            raise ConfigurationError(
                f"A fleet on redis:// needs the redis package: {how_to_install('fleet')}."
            ) from None
        wrong = redis.exceptions
        self.failures = (wrong.RedisError, OSError)
        self._denied = (wrong.AuthenticationError, wrong.NoPermissionError)
        # Waiting for a store that is away is the member's business.
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        options: dict[str, Any] = {"retry": once, "decode_responses": True}
        options |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"), ANSWER_SECONDS)
        options["password"] = os.environ.get("REDISCLI_AUTH")  # unless the URL has another
        try:
            self._client: Any = redis.Redis.from_url(url, **options)
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # checks the options of the URL
        except (ValueError, TypeError, wrong.RedisError) as error:
            raise ConfigurationError(f"{place} is not a URL of Redis: {error}.") from None

    def _open(self, mine: Mapping[str, str]) -> Contents:
        ask = self._client.pipeline()
        for name, value in mine.items():
            ask.setnx(KEYS[name], value)
        ask.time().get(KEYS["layout"]).get(KEYS["salt"]).hgetall(KEYS["fleets"])
        try:
            *_, (seconds, micros), layout, salt, fleets = ask.execute()
        except self._denied as error:
            raise PermissionError(f"it refused the user or password ({error})") from None
        return seconds + micros / 1e6, {"layout": layout, "salt": salt}, fleets

    def _step(self, name: str, change: Change) -> Fleet:
        keys = [KEYS["salt"], KEYS["fleets"]]
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.0005 * 2**attempt)))
            ask = self._client.pipeline().time().get(keys[0]).hget(keys[1], name)
            (seconds, micros), salt, text = ask.execute()
            fleet = change(seconds + micros / 1e6, salt, text)
            seen = hashlib.sha1((text or "").encode(), usedforsecurity=False).hexdigest()
            if self._client.eval(_WRITE, 2, *keys, salt, name, seen, fleet.text()):
                return fleet
        raise TimeoutError("it is busy")

    def close(self) -> None:
        """End the connections."""
        self._client.close()


def open_store(address: str) -> Store:
    """The store that an address means: a folder, or a URL of Redis. Nothing is connected yet."""
    place, own = without_password(address), os.environ.get("TINKER_EXT_FLEET", "")
    if "://" not in place:
        return Database(place)
    if not _URL.fullmatch(address):
        raise ConfigurationError(
            f"A fleet cannot live at {place}; give a folder, or redis://HOST:PORT/DB. In a "
            "password, write # as %23, / as %2F, ? as %3F, @ as %40, [ as %5B and ] as %5D."
        )
    if address == place and "://" in own and without_password(own) == place:
        address = own  # it came from another process, without the password that this one knows
    return Redis(place, address)


def without_password(address: str) -> str:
    """The address as it may travel to other processes and be shown.

    Example:
        >>> without_password("redis://user:secret@host:6379/0")
        'redis://user@host:6379/0'
    """
    if found := _URL.fullmatch(address):
        user = f"{found['user']}@" if found["user"] else ""
        query = [pair for pair in parse_qsl(found["query"] or "") if pair[0] in _SHOWN]
        shown = f"{found['scheme']}://{user}{found['host']}"
        return f"{shown}?{urlencode(query, safe='/')}" if query else shown
    if "://" in address or re.match("(?i:rediss?|unix):", address):
        return f"{address.partition(':')[0]}://…"
    try:
        os.fsencode(folder := str(Path(address).expanduser().absolute()))
    except (RuntimeError, UnicodeError) as error:
        problem = f"The fleet's folder {address!r} cannot be used: {error}"
        raise ConfigurationError(problem) from None
    return folder
