"""What a fleet keeps in its store, the steps that change it, and which store an address means.

Of each fleet a store has `numbers` and `texts` that belong to all, `members` by id, and `spend` by
kind and id. Every step is atomic and in the store's own time; `sqlite` says the steps in Python,
`redis` in Lua. Those of daily work, `sync` and `take`, look at one member only.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import attrs
import orjson

from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError

LAYOUT = 1
"""Number of what is written into a store; changed when another version could misread it."""

KINDS = ("tokens", "train", "prefill", "sample", "cost")
"""What a budget may limit."""

ONE_VERSION = "Run one version in all processes, or give this run a place of its own."
NOTHING = dict.fromkeys(KINDS, 0.0)
Amounts = Mapping[str, float]


class StoreUnreachableError(Exception):
    """The store did not answer; users of a running client see a warning instead."""


@attrs.frozen
class Shared:
    """The numbers of all members: `window`, `round`, and by kind `limit …` and `taken …`."""

    now: float  # time of the store
    numbers: Mapping[str, float]

    @property
    def pause(self) -> float:
        """Seconds for which nobody sends."""
        return max(0.0, self.numbers.get("pause", 0.0) - self.now)

    def amounts(self, what: str) -> dict[str, float]:
        """By kind, the `limit` of the fleet's budget, or what was `taken` of it."""
        found = ((kind, self.numbers.get(f"{what} {kind}")) for kind in KINDS)
        return {kind: amount for kind, amount in found if amount is not None}


@attrs.frozen
class Grant(Shared):
    """What a member may do until its lease ends."""

    known: bool  # whether the store knew the member
    cap: int  # permits
    target: int  # permits it will have when others have given theirs back
    turn: int  # number of the plan this member is to make now; 0 when it is not its turn
    members: int


@attrs.frozen
class FleetRecord(Shared):
    """Everything a store knows about one server and credential."""

    group: str  # salted hash of both
    texts: Mapping[str, str]  # `base_url`; `prices` of who brought some; the last `plan`
    members: tuple[dict[str, Any], ...]  # facts, lease and `age` of who is alive
    spend: Mapping[str, Amounts]  # what each member, living or not, has used or set aside


class Store:
    """A place that all members of a fleet reach; `place` is its address without a password."""

    place: str

    def open(self) -> bytes:
        """Connect, check the layout, and return the salt of this store.

        Raises:
            ConfigurationError: It cannot be used; says why and what to do.
        """
        raise NotImplementedError

    def groups(self) -> list[str]:
        """All fleets in this store."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection."""

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step, or raise `StoreUnreachableError`."""
        raise NotImplementedError

    def sync(self, group: str, report: Mapping[str, Any]) -> Grant:
        """Renew a lease, add a budget to that of all, and read what applies to all."""
        return Grant(*self.run("sync", group, report))

    def look(self, group: str, *, sweep: bool = False) -> FleetRecord | None:
        """Read everything; with `sweep`, first forget members whose lease ended."""
        now, numbers, texts, rows, spent = self.run("look", group, {"sweep": sweep})
        members = tuple(
            {**orjson.loads(row.pop("facts")), **row, "id": name, "age": now - row["seen"]}
            for name, row in sorted(rows.items())
            if row["expires"] > now
        )
        spend: dict[str, dict[str, float]] = {}
        for name, amount in spent.items():
            kind, _, member = name.partition(" ")
            spend.setdefault(member, dict(NOTHING))[kind] = amount
        return FleetRecord(now, numbers, group, texts, members, spend) if numbers else None

    def settle(
        self, group: str, turn: int, window: Mapping[str, Any], targets: Mapping[str, int]
    ) -> None:
        """Write a plan, unless a later one was begun."""
        growing = int(window.get("phase") == "grow")
        numbers = {"window": window["size"], "round": window["round"], "growing": growing}
        given = {"turn": turn, "numbers": numbers, "plan": orjson.dumps(window).decode()}
        self.run("settle", group, {**given, "targets": targets})

    def take(
        self, group: str, member: str, need: Amounts, want: Amounts, *, check: bool
    ) -> Amounts | None:
        """Set aside a part of the budget for a member; negative amounts give back.

        Returns:
            What was set aside: `want`, or `need` when the budget has no more, or None.
        """
        given = {"id": member, "need": need, "want": want, "check": check}
        return {"want": want, "need": need}.get(self.run("take", group, given))

    def leave(self, group: str, member: str) -> None:
        """Give a lease back at once; what the member spent stays."""
        self.run("leave", group, {"id": member})

    def check_layout(self, found: str | None) -> None:
        """Refuse a store that was written by an older or newer version."""
        if found not in (None, str(LAYOUT)):
            age = "an older" if str(found).isdigit() and int(str(found)) < LAYOUT else "a newer"
            raise ConfigurationError(
                f"The fleet at {self.place} was written by {age} version of tinker-ext: its layout "
                f"is {found}, and version {__version__} uses {LAYOUT}. {ONE_VERSION}"
            )


def group_name(salt: bytes, base_url: str, fingerprint: str) -> str:
    """The name of a server and a credential (its one-way mark) in a store; reveals neither."""
    text = f"{base_url}\0{fingerprint}".encode()
    return hmac.new(salt, text, hashlib.sha256).hexdigest()[:24]


def open_store(address: str | os.PathLike[str]) -> Store:
    """The store that an address means: a folder, or a URL of Redis. Nothing is connected yet.

    Raises:
        ConfigurationError: The address is neither, or a package is missing.
    """
    text = os.fspath(address)
    scheme, colon, _ = text.partition("://")
    if not colon:
        from tinker_ext.fleet.sqlite import SqliteStore

        return SqliteStore(Path(without_password(text)))
    if scheme not in ("redis", "rediss", "unix"):
        raise ConfigurationError(
            f"A fleet cannot live at {scheme}://…; give a folder, or redis://HOST:PORT/DB."
        )
    from tinker_ext.fleet.redis import RedisStore

    return RedisStore(_with_password(text))


def without_password(address: str | os.PathLike[str]) -> str:
    """The address as it may travel to other processes and be shown.

    Example:
        >>> without_password("redis://user:secret@host:6379/0")
        'redis://user@host:6379/0'
    """
    text = os.fspath(address)
    if "://" not in text:
        return str(Path(text).expanduser().absolute())
    parts = urlsplit(text)
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit(parts._replace(netloc=user + parts.netloc.rpartition("@")[2]))


def _with_password(address: str) -> str:
    """The address with the password this process knows, for one that came without it."""
    own, password = os.environ.get("TINKER_EXT_FLEET", ""), os.environ.get("REDISCLI_AUTH")
    parts = urlsplit(address)
    if parts.password is None and "://" in own and without_password(own) == address:
        return own
    if parts.password is not None or not password:
        return address
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))
