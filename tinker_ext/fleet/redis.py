"""A fleet on many machines: a Redis or Valkey server, one Lua script a step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.plan import LONGEST_PAUSE, RECOVERY_SECONDS
from tinker_ext.fleet.store import KINDS, LAYOUT, Store, StoreUnreachableError, without_password

PREFIX = "tinker-ext:fleet"

# The steps of the SQLite store, each given one JSON value. Members are JSON texts; the sum of their
# leases is kept besides, so that a report does not read them all.
_HEAD = """
local numbers, texts, members, spend = unpack(KEYS)
local given, call = cjson.decode(ARGV[1]), redis.call
local time = call('TIME')
local now = time[1] + time[2] / 1000000
local function get(field, default) return tonumber(call('HGET', numbers, field) or default) end
local function set(field, value) call('HSET', numbers, field, value) end
local function read(id)
    local text = call('HGET', members, id)
    return text and cjson.decode(text)
end
local function forget(id)
    local row = read(id)
    if row then set('leased', get('leased', 0) - row.lease) end
    call('HDEL', members, id)
end
"""

_SCRIPTS = {
    "sync": """
local new = given.claim == cjson.null
if new and get('alive', 0) <= now then
    call('DEL', spend)
    call('HDEL', texts, 'prices')
    for _, kind in ipairs(given.kinds) do call('HDEL', numbers, 'limit '..kind, 'taken '..kind) end
end
for field, text in pairs(given.texts) do call('HSET', texts, field, text) end
for kind, most in pairs(given.limits) do
    set('limit '..kind, math.min(most, get('limit '..kind, most)))
end
for field, first in pairs({window = given.window, round = 0, growing = 1}) do
    call('HSETNX', numbers, field, first)
end
local window, row = math.floor(get('window')), read(given.id)
local leased = get('leased', 0) - (row and row.lease or 0)
local count = call('HLEN', members) + (row and 0 or 1)
if not row and not new then set('recovering', now + given.recovery) end
local claim = new and 0 or given.claim
local target = row and row.target or new and math.floor(window / count) or claim
local cap = math.min(target, window - leased)
if get('recovering', 0) > now then cap = math.min(cap, claim) end
cap = math.max(0, cap)
local lease = math.max(cap, given.active)
set('leased', leased + lease)
call('HSET', members, given.id, cjson.encode({lease = lease, target = target, seen = now,
    expires = now + given.ttl, facts = given.facts}))
set('alive', now + given.ttl)
set('pause', math.min(math.max(get('pause', 0), now + given.pause), now + given.longest))
local wait, turn = get('next', 0) - now - (given.urgent and 0.75 * given.every or 0), 0
if wait <= 0 or wait > given.every then
    set('next', now + given.every)
    turn = call('HINCRBY', numbers, 'turn', 1)
end
return {string.format('%.6f', now), call('HGETALL', numbers), row and 1 or 0, cap, target, turn,
    count}
""",
    "look": """
if given.sweep then
    for _, id in ipairs(call('HKEYS', members)) do
        if read(id).expires <= now then forget(id) end
    end
end
return {string.format('%.6f', now), call('HGETALL', numbers), call('HGETALL', texts),
    call('HGETALL', members), call('HGETALL', spend)}
""",
    "settle": """
if get('turn', 0) ~= given.turn then return end
for field, value in pairs(given.numbers) do set(field, value) end
call('HSET', texts, 'plan', given.plan)
for id, target in pairs(given.targets) do
    local row = read(id)
    if row then
        row.target = target
        call('HSET', members, id, cjson.encode(row))
    end
end
""",
    "take": """
local function fits(amounts)
    for kind, amount in pairs(amounts) do
        local total = get('taken '..kind, 0) + amount
        if amount ~= 0 and total > get('limit '..kind, total) then return false end
    end
    return true
end
for _, choice in ipairs({'want', 'need'}) do
    if not given.check or fits(given[choice]) then
        for kind, amount in pairs(given[choice]) do
            call('HINCRBYFLOAT', numbers, 'taken '..kind, amount)
            call('HINCRBYFLOAT', spend, kind..' '..given.id, amount)
        end
        return choice
    end
end
return ''
""",
    "leave": """
forget(given.id)
if call('HLEN', members) == 0 then set('alive', 0) end
""",
}
_SHARED = {"kinds": KINDS, "recovery": RECOVERY_SECONDS, "longest": LONGEST_PAUSE}


class RedisStore(Store):
    """A store on a Redis server, given its URL with the password when it has one."""

    def __init__(self, url: str) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise ConfigurationError(
                f"A fleet on redis:// needs the redis package: {how_to_install('fleet')}."
            ) from None
        self.place = without_password(url)
        self._errors = redis.exceptions
        try:
            # Waiting for a store that is away is the member's business.
            once, most = (
                Retry(NoBackoff(), 0),
                {"socket_timeout": 2.0, "socket_connect_timeout": 2.0},
            )
            self._client: Any = redis.Redis.from_url(url, decode_responses=True, retry=once, **most)
        except ValueError as error:
            raise ConfigurationError(f"{self.place} is not a URL of Redis: {error}.") from None
        add = self._client.register_script
        self._scripts = {name: add(_HEAD + text) for name, text in _SCRIPTS.items()}

    def open(self) -> bytes:
        """Connect, check the layout, and return the salt of this store."""
        wrong, client = self._errors, self._client
        try:
            self.check_layout(client.get(f"{PREFIX}:layout"))
            client.setnx(f"{PREFIX}:layout", str(LAYOUT))
            client.setnx(f"{PREFIX}:salt", secrets.token_hex(16))
            return bytes.fromhex(client.get(f"{PREFIX}:salt"))
        except (wrong.RedisError, OSError) as error:
            what, hint = "cannot hold a fleet", "Give another server, or ask who runs this one"
            if isinstance(error, wrong.AuthenticationError | wrong.NoPermissionError):
                what = "refused the user or password"
                hint = (
                    "Give both in TINKER_EXT_FLEET (redis://USER:PASSWORD@HOST), or the password "
                )
                hint += "in REDISCLI_AUTH"
            elif isinstance(error, wrong.ConnectionError | wrong.TimeoutError | OSError):
                what = "cannot be reached"
                hint = "Check host and port, and that a Redis or Valkey server runs there"
            reason = str(error).rstrip(".")
            raise ConfigurationError(f"The store {self.place} {what}: {reason}. {hint}.") from None

    def groups(self) -> list[str]:
        """All fleets in this store."""
        names = self._guard(lambda: list(self._client.scan_iter(f"{PREFIX}:{{*}}:numbers")))
        return sorted(name.partition("{")[2].partition("}")[0] for name in names)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step, or raise `StoreUnreachableError`."""
        # The braces keep all keys of a fleet on one node of a cluster.
        keys = [f"{PREFIX}:{{{group}}}:{part}" for part in ("numbers", "texts", "members", "spend")]
        text = orjson.dumps({**given, **_SHARED})
        reply = self._guard(lambda: self._scripts[step](keys, [text]))
        if step == "sync":
            return float(reply[0]), _pairs(reply[1], float), *reply[2:]
        if step == "look":
            kinds: tuple[Callable[[str], Any], ...] = (float, str, orjson.loads, float)
            return float(reply[0]), *map(_pairs, reply[1:], kinds)
        return reply

    def _guard(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (self._errors.RedisError, OSError) as error:
            raise StoreUnreachableError(f"{self.place}: {error}") from error


def _pairs(flat: Iterable[str], kind: Callable[[str], Any]) -> dict[str, Any]:
    values = iter(flat)
    return {name: kind(value) for name, value in zip(values, values, strict=True)}
