"""A fleet on many machines: a Redis or Valkey server, one Lua script a step."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import attrs
import orjson

from tinker_ext._extras import how_to_install
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.store import (
    LAYOUT,
    LONGEST_PAUSE,
    NOTHING,
    RECOVERY_SECONDS,
    Amounts,
    FleetRecord,
    Grant,
    MemberRecord,
    Report,
    StoreUnreachableError,
    check_layout,
    without_password,
)

PREFIX = "tinker-ext:fleet"
SOCKET_SECONDS = 2.0

# Every script takes one JSON value and gives one back. Numbers of daily work are fields of `state`,
# written at full length; `facts` and `plan` are text that no script reads.
_HEAD = """
local state, plan, facts, leases, targets, expires, seen, spend = unpack(KEYS)
local given = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local kinds = {'tokens', 'train', 'prefill', 'sample', 'cost'}
local function get(field, default)
    return tonumber(redis.call('HGET', state, field) or default)
end
local function set(field, value) redis.call('HSET', state, field, string.format('%.17g', value)) end
local function forget(id)
    set('leased', get('leased', 0) - (redis.call('HGET', leases, id) or 0))
    for _, key in ipairs({facts, leases, targets}) do redis.call('HDEL', key, id) end
    for _, key in ipairs({expires, seen}) do redis.call('ZREM', key, id) end
end
"""

_SCRIPTS = {
    "enter": """
if redis.call('ZCOUNT', expires, '(' .. now, '+inf') == 0 then
    redis.call('DEL', spend)
    redis.call('HDEL', state, 'prices')
    for _, kind in ipairs(kinds) do
        redis.call('HDEL', state, 'limit ' .. kind, 'taken ' .. kind)
    end
end
redis.call('HSET', state, 'base_url', given.base_url)
if given.prices then redis.call('HSET', state, 'prices', given.prices) end
for kind, most in pairs(given.limits) do
    set('limit ' .. kind, math.min(get('limit ' .. kind, most), most))
end
return '0'
""",
    "sync": """
local id = given.id
local window = get('window', given.window)
local old = redis.call('HGET', leases, id)
local leased = get('leased', 0) - (old or 0)
local members = redis.call('HLEN', leases) + (old and 0 or 1)
local target
if old then
    target = tonumber(redis.call('HGET', targets, id))
elseif given.joining then
    target = math.floor(math.floor(window) / members)
else
    target = given.claim
    set('recovering', now + given.recovery)
end
local cap = math.min(target, math.floor(window) - leased)
if get('recovering', 0) > now then cap = math.min(cap, given.claim) end
cap = math.max(0, cap)
local pause = math.min(math.max(get('pause', 0), now + given.pause), now + given.longest)
local serial = 0
local news = not old or (given.refused and given.round == get('round', 0))
local wait = get('next', 0) - now - (news and 0.75 * given.every or 0)
if wait <= 0 or wait > given.every then
    set('next', now + given.every)
    serial = redis.call('HINCRBY', state, 'serial', 1)
end
set('window', window)
set('leased', leased + math.max(cap, given.active))
set('pause', pause)
redis.call('HSET', leases, id, math.max(cap, given.active))
redis.call('HSET', targets, id, target)
redis.call('HSET', facts, id, given.facts)
redis.call('ZADD', expires, now + given.ttl, id)
redis.call('ZADD', seen, now, id)
local limits, taken, mine = {}, {}, {}
for _, kind in ipairs(kinds) do
    limits[kind] = tonumber(redis.call('HGET', state, 'limit ' .. kind) or nil)
    taken[kind] = get('taken ' .. kind, 0)
    mine[kind] = tonumber(redis.call('HGET', spend, kind .. ' ' .. id) or 0)
end
return cjson.encode({cap = cap, target = target, window = window, round = get('round', 0),
    pause = math.max(0, pause - now), members = members, serial = serial, known = old and true
    or false, limits = limits, taken = taken, mine = mine})
""",
    "look": """
if given.sweep then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', expires, '-inf', now)) do forget(id) end
end
return {string.format('%.6f', now), redis.call('HGETALL', state), redis.call('GET', plan) or '{}',
    redis.call('HGETALL', facts), redis.call('HGETALL', leases), redis.call('HGETALL', targets),
    redis.call('ZRANGE', seen, 0, -1, 'WITHSCORES'), redis.call('HGETALL', spend),
    redis.call('ZRANGEBYSCORE', expires, '(' .. now, '+inf')}
""",
    "settle": """
if get('serial', 0) ~= given.serial then return '0' end
set('window', given.size)
set('round', given.round)
redis.call('SET', plan, given.plan)
for id, target in pairs(given.targets) do
    if redis.call('HEXISTS', leases, id) == 1 then redis.call('HSET', targets, id, target) end
end
return '0'
""",
    "take": """
local function fits(amounts)
    for kind, amount in pairs(amounts) do
        local most = get('limit ' .. kind, 1e308)
        if amount ~= 0 and get('taken ' .. kind, 0) + amount > most then return false end
    end
    return true
end
for _, name in ipairs({'want', 'need'}) do
    if not given.check or fits(given[name]) then
        for kind, amount in pairs(given[name]) do
            local sum = get('taken ' .. kind, 0) + amount
            set('taken ' .. kind, sum)
            local key = kind .. ' ' .. given.id
            sum = tonumber(redis.call('HGET', spend, key) or 0) + amount
            redis.call('HSET', spend, key, string.format('%.17g', sum))
        end
        return cjson.encode(name)
    end
end
return 'null'
""",
    "leave": "forget(given.id) return '0'",
}
_TIMES = {"recovery": RECOVERY_SECONDS, "longest": LONGEST_PAUSE}
_KEYS = ("state", "plan", "facts", "leases", "targets", "expires", "seen", "spend")


class RedisStore:
    """A store on a Redis server.

    Args:
        url: Its URL, with the password when it has one.

    Raises:
        ConfigurationError: The package `redis` is missing, or the URL is not one.
    """

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
            self._client: Any = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=SOCKET_SECONDS,
                socket_connect_timeout=SOCKET_SECONDS,
                # Waiting for a store that is away is the member's business.
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise ConfigurationError(f"{self.place} is not a URL of Redis: {error}.") from None
        self._scripts = {
            name: self._client.register_script(_HEAD + text) for name, text in _SCRIPTS.items()
        }

    def open(self) -> bytes:
        """Connect, check the layout, and return the salt of this store."""
        wrong, client = self._errors, self._client
        try:
            check_layout(client.get(f"{PREFIX}:layout"), self.place)
            client.setnx(f"{PREFIX}:layout", str(LAYOUT))
            client.setnx(f"{PREFIX}:salt", secrets.token_hex(16))
            return bytes.fromhex(client.get(f"{PREFIX}:salt"))
        except (wrong.AuthenticationError, wrong.NoPermissionError) as error:
            raise ConfigurationError(
                f"The fleet's store {self.place} refused the user or password: {error}. Give both "
                "in TINKER_EXT_FLEET (redis://USER:PASSWORD@HOST), or the password in "
                "REDISCLI_AUTH."
            ) from None
        except (wrong.ConnectionError, wrong.TimeoutError, OSError) as error:
            raise ConfigurationError(
                f"The fleet's store {self.place} cannot be reached: {error} Check host and port, "
                "and that a Redis or Valkey server runs there."
            ) from None
        except wrong.RedisError as error:
            raise ConfigurationError(
                f"{self.place} cannot be the store of a fleet: {error}."
            ) from None

    def enter(
        self, group: str, base_url: str, limits: Amounts, prices: Mapping[str, Any] | None
    ) -> None:
        """Make the fleet, begin its spend anew when nobody is alive, merge the budget."""
        text = orjson.dumps(prices).decode() if prices else False
        self._run("enter", group, base_url=base_url, limits=limits, prices=text)
        self._guard(self._client.sadd, f"{PREFIX}:groups", group)

    def sync(self, group: str, report: Report) -> Grant:
        """Renew a lease and read what applies to all."""
        fields = attrs.asdict(report, recurse=False)
        fields["facts"] = orjson.dumps(report.facts).decode()
        reply = orjson.loads(self._run("sync", group, **fields, **_TIMES))
        return Grant(**reply)

    def look(self, group: str, *, sweep: bool = False) -> FleetRecord | None:
        """Read everything; with `sweep`, first forget members whose lease ended."""
        reply = self._run("look", group, sweep=sweep)
        now, plan, alive = float(reply[0]), orjson.loads(reply[2]), reply[8]
        state, facts, leases, targets, seen, spent = (
            dict(zip(flat[::2], flat[1::2], strict=True)) for flat in (reply[1], *reply[3:8])
        )
        if not state:
            return None
        spend: dict[str, dict[str, float]] = {}
        for name, amount in spent.items():
            kind, _, member = name.partition(" ")
            spend.setdefault(member, dict(NOTHING))[kind] = float(amount)
        return FleetRecord(
            group=group,
            base_url=state.get("base_url", ""),
            now=now,
            pause=max(0.0, float(state.get("pause", 0)) - now),
            window=plan,
            size=float(state.get("window", 0)),
            members=tuple(
                MemberRecord(
                    id=name,
                    lease=int(leases[name]),
                    target=int(targets[name]),
                    age=now - float(seen[name]),
                    facts=orjson.loads(facts[name]),
                )
                for name in sorted(alive)
            ),
            limits={k[6:]: float(v) for k, v in state.items() if k.startswith("limit ")},
            prices=orjson.loads(state["prices"]) if "prices" in state else None,
            spend=spend,
        )

    def settle(
        self, group: str, serial: int, window: Mapping[str, Any], targets: Mapping[str, int]
    ) -> None:
        """Write a plan, unless a later one was begun."""
        plan, size, cuts = orjson.dumps(window).decode(), window["size"], window["round"]
        self._run("settle", group, serial=serial, plan=plan, size=size, round=cuts, targets=targets)

    def take(
        self, group: str, member: str, need: Amounts, want: Amounts, *, check: bool
    ) -> Amounts | None:
        """Set aside a part of the budget for a member; negative amounts give back."""
        reply = self._run("take", group, id=member, need=need, want=want, check=check)
        return {"want": want, "need": need, None: None}[orjson.loads(reply)]

    def leave(self, group: str, member: str) -> None:
        """Give a lease back at once; what the member spent stays."""
        self._run("leave", group, id=member)

    def groups(self) -> list[str]:
        """All fleets in this store."""
        return sorted(self._guard(self._client.smembers, f"{PREFIX}:groups"))

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _run(self, name: str, group: str, **given: Any) -> Any:
        # The braces keep all keys of a fleet on one node of a cluster.
        keys = [f"{PREFIX}:{{{group}}}:{part}" for part in _KEYS]
        return self._guard(self._scripts[name], keys, [orjson.dumps(given)])

    def _guard(self, step: Any, *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except (self._errors.RedisError, OSError) as error:
            raise StoreUnreachableError(f"{self.place}: {error}") from error
