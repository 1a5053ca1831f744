"""A fleet on many machines: a Redis or Valkey server, one Lua script a step."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.store import LAYOUT, Store, StoreLostError, StoreUnreachableError

PREFIX = "tinker-ext:fleet"
PARTS = ("state", "members", "shares", "spend")

# The steps of the SQLite store, each given one JSON value and the salt that it was made for.
_HEAD = """
local given, call = cjson.decode(ARGV[1]), redis.call
local salt, common, members, shares, spend = unpack(KEYS)
if call('GET', salt) ~= ARGV[2] then return redis.error_reply('LOST') end
local time = call('TIME')
local now = time[1] + time[2] / 1000000
local state = cjson.decode(call('GET', common) or '{"limits": {}, "taken": {}}')
local own = given.id and call('HGET', spend, given.id)
own = own and cjson.decode(own)
local function recall()
    for kind, most in pairs(given.limits) do
        state.limits[kind] = math.min(most, state.limits[kind] or most)
    end
    if own then return end
    own, state.lost = given.was, state.lost or {}
    for kind, known in pairs(given.known) do
        local more = math.max(0, known - (state.lost[kind] or 0))
        state.lost[kind] = (state.lost[kind] or 0) + more
        state.taken[kind] = (state.taken[kind] or 0) + more
    end
end
local function set_aside(amounts)
    if (own.seq or 0) >= given.seq then return end
    for kind, amount in pairs(amounts) do
        state.taken[kind] = (state.taken[kind] or 0) + amount - (own[kind] or 0)
    end
    amounts.seq = given.seq
    call('HSET', spend, given.id, cjson.encode(amounts))
end
"""

_SCRIPTS = {
    "report": """
local turn = 0
if given.new and (state.alive or 0) <= now then
    state.limits, state.taken, state.lost, state.prices, own = {}, {}, {}, {}, nil
    call('DEL', spend)
end
recall()
state.base_url = given.base_url
if next(given.prices) then state.prices = given.prices end
set_aside(given.have)
if given.ttl == 0 then
    call('HDEL', members, given.id)
    if call('HLEN', members) == 0 then state.alive = 0 end
else
    state.alive = now + given.ttl
    call('HSET', members, given.id, cjson.encode({seen = now, expires = state.alive,
        plan = state.settled or 0, said = given.said}))
    local wait = (state.next or 0) - now - (given.urgent and 0.75 * given.every or 0)
    if wait <= 0 or wait > given.every then
        state.next, state.turn = now + given.every, (state.turn or 0) + 1
        turn = state.turn
    end
end
local text = cjson.encode(state)
call('SET', common, text)
return {string.format('%.6f', now), turn, text, call('HGET', shares, given.id) or '',
    call('HLEN', members)}
""",
    "take": """
recall()
local number = 0
for place, amounts in ipairs(given.asks) do
    local fits = true
    for kind, most in pairs(state.limits) do
        local left = math.max(0, most - (state.taken[kind] or 0))
        if amounts[kind] - (own[kind] or 0) > left then fits = false end
    end
    if fits then
        set_aside(amounts)
        number = place
        break
    end
end
local text = cjson.encode(state)
call('SET', common, text)
return {number, text}
""",
    "look": """
local all = {string.format('%.6f', now), cjson.encode(state)}
for number = 3, #KEYS do all[number] = call('HGETALL', KEYS[number]) end
return all
""",
    "settle": """
if state.turn ~= given.turn then return 0 end
state.plan, state.settled = given.plan, given.turn
call('SET', common, cjson.encode(state))
call('DEL', shares)
for id, share in pairs(given.shares) do call('HSET', shares, id, share) end
for _, id in ipairs(call('HKEYS', members)) do
    local late = not given.shares[id] and cjson.decode(call('HGET', members, id)).expires <= now
    if late then call('HDEL', members, id) end
end
return 1
""",
}


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
        add = self._client.register_script
        self._scripts = {name: add(_HEAD + text) for name, text in _SCRIPTS.items()}

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
        """Take one atomic step."""
        keys = [f"{PREFIX}:salt", *(f"{PREFIX}:{{{group}}}:{part}" for part in PARTS)]
        with self._talking():
            reply = self._scripts[step](keys, [orjson.dumps(given), self.salt])
        if step == "report":
            now, turn, state, share, count = reply
            return float(now), turn, orjson.loads(state), int(share) if share else None, count
        if step == "take":
            return reply[0], orjson.loads(reply[1])["taken"]
        if step == "look":
            now, state, *hashes = reply
            pairs = (zip(flat[::2], map(orjson.loads, flat[1::2]), strict=True) for flat in hashes)
            return float(now), orjson.loads(state), *map(dict, pairs)
        return reply

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.RedisError, OSError) as error:
            if str(error) == "LOST":
                raise StoreLostError(f"{self.place}: it has lost what it held") from None
            raise StoreUnreachableError(f"{self.place}: {error}") from error
