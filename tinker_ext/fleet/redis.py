"""A fleet on many machines: a Redis or Valkey server.

A step reads what it needs, decides here, and writes unless that has changed meanwhile; then it
begins again. Reading and writing are one Lua script each.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.steps import STEPS, Kept, empty
from tinker_ext.fleet.store import LAYOUT, Store, StoreLostError, StoreUnreachableError

PREFIX = "tinker-ext:fleet"
ATTEMPTS = 50
"""Each means that another step was faster, which happens once or twice."""
LONGEST_PAUSE = 0.5
"""Seconds. Where hundreds of members begin at once, random pauses let each have a turn."""

_HEAD = """
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('LOST') end
"""
_READ = """
local rows = ARGV[2] == '' and call('HGETALL', KEYS[3])
rows = rows or {ARGV[2], call('HGET', KEYS[3], ARGV[2]) or ''}
local time = call('TIME')
return {time[1], time[2], call('GET', KEYS[2]) or '', rows}
"""
_WRITE = """
if (call('GET', KEYS[2]) or '') ~= ARGV[2] then return 0 end
if (call('HGET', KEYS[3], ARGV[3]) or '') ~= ARGV[4] then return 0 end
call('SET', KEYS[2], ARGV[5])
if ARGV[6] == 'replaced' then call('DEL', KEYS[3]) end
for id, text in pairs(cjson.decode(ARGV[7])) do call('HSET', KEYS[3], id, text) end
return 1
"""


class RedisStore(Store):
    """A store on a Redis server, given its URL with the password when it has one, and without."""

    def __init__(self, url: str, place: str) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise ConfigurationError(
                f"A fleet on redis:// needs the redis package: {how_to_install('fleet')}."
            ) from None
        self.place = place
        self._errors = redis.exceptions
        # Waiting for a store that is away is the member's business.
        options = {"retry": Retry(NoBackoff(), 0), "socket_timeout": 2.0}
        try:
            self._client: Any = redis.Redis.from_url(
                url, decode_responses=True, socket_connect_timeout=2.0, **options
            )
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # checks the options of the URL
        except (ValueError, TypeError, redis.RedisError) as error:
            raise ConfigurationError(f"{place} is not a URL of Redis: {error}.") from None
        self._read_script = self._client.register_script(_HEAD + _READ)
        self._write_script = self._client.register_script(_HEAD + _WRITE)

    def open(self, *, make: bool = True) -> None:
        """Connect, check the layout and learn the salt; only `make` gives an empty store one."""
        wrong, client = self._errors, self._client
        try:
            self.check_layout(client.get(f"{PREFIX}:layout"))
            if make:
                client.setnx(f"{PREFIX}:layout", str(LAYOUT))
                client.setnx(f"{PREFIX}:salt", self.salt or secrets.token_hex(16))
            self.salt = client.get(f"{PREFIX}:salt") or ""
        except (wrong.RedisError, OSError) as error:
            what, hint = "cannot hold a fleet", "Give another server, or ask who runs this one"
            if isinstance(error, wrong.AuthenticationError | wrong.NoPermissionError):
                what = "refused the user or password"
                hint = "Give both in TINKER_EXT_FLEET (redis://USER:PASSWORD@HOST), or the "
                hint += "password in REDISCLI_AUTH"
            elif isinstance(error, wrong.ConnectionError | wrong.TimeoutError | OSError):
                what = "cannot be reached"
                hint = "Check host and port, and that a Redis or Valkey server runs there"
            reason = str(error).rstrip(".")
            raise ConfigurationError(f"The store {self.place} {what}: {reason}. {hint}.") from None

    def groups(self) -> list[str]:
        """All fleets in this store."""
        with self._talking():
            names = list(self._client.scan_iter(f"{PREFIX}:{{*}}:state"))
        return sorted(name.partition("{")[2].partition("}")[0] for name in names)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one step at once."""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.0005 * 2**attempt)))
            now, was, kept = self._read(group, given["id"])
            before = kept["rows"]
            answer = STEPS[step](kept, now, given)
            replaced = "" if kept["rows"] is before else "replaced"
            rows = {name: orjson.dumps(row).decode() for name, row in kept["rows"].items()}
            new = orjson.dumps(kept["state"]), replaced, orjson.dumps(rows)
            with self._talking():
                if self._write_script(_keys(group), [self.salt, *was, *new]):
                    return answer
        raise StoreUnreachableError(f"{self.place}: it is busy")

    def read(self, group: str) -> tuple[float, Kept]:
        """The time, and everything that is kept of a fleet."""
        now, _, kept = self._read(group, "")
        return now, kept

    def _read(self, group: str, member: str) -> tuple[float, list[str], Kept]:
        """The time, the texts of the state and of the rows, and what they say.

        The rows are that of a member with its id before it, or those of all.
        """
        with self._talking():
            reply = self._read_script(_keys(group), [self.salt, member])
        seconds, micros, state, flat = reply
        kept = empty()
        if state:
            kept["state"] = orjson.loads(state)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        kept["rows"] = {name: orjson.loads(text) for name, text in pairs if text}
        return int(seconds) + int(micros) / 1e6, [state, *flat], kept

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.RedisError, OSError) as error:
            if str(error) == "LOST":
                raise StoreLostError(f"{self.place}: it has lost what it held") from None
            raise StoreUnreachableError(f"{self.place}: {error}") from error


def _keys(group: str) -> list[str]:
    return [f"{PREFIX}:salt", *(f"{PREFIX}:{{{group}}}:{part}" for part in empty())]
