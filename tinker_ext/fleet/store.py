"""What a fleet keeps in its store, the steps that change it, and which store an address means.

Of each fleet a store has `numbers` and `texts` that belong to all, `members` by id, and `spend` by
kind and id. Every step is atomic and in the store's own time; `sqlite` says the steps in Python,
`redis` in Lua. Those of daily work, `sync` and `take`, look at one member only.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from abc import ABC, abstractmethod
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

NOTHING = dict.fromkeys(KINDS, 0.0)
Amounts = Mapping[str, float]


class StoreUnreachableError(Exception):
    """The store did not answer; users of a running client see a warning instead."""


@attrs.frozen(kw_only=True)
class Report:
    """What a member says at each synchronisation."""

    id: str  # host, process and number
    active: int = 0  # requests sent or being sent
    claim: int | None = None  # permits it has; None when it is new
    window: float  # the last window it knows, for a store that lost its own
    ttl: float  # seconds the lease lasts without another report
    every: float  # seconds between plans
    urgent: bool = False  # whether the next plan should come soon
    pause: float = 0.0  # seconds the server asked everybody to wait
    limits: Amounts = attrs.field(factory=dict)  # the budget it was given
    texts: Mapping[str, str] = attrs.field(factory=dict)  # its server and prices
    facts: str = "{}"  # the rest, kept as it is for plans and for people


@attrs.frozen
class Grant:
    """What a member may do until its lease ends."""

    known: bool  # whether the store knew the member
    cap: int  # permits
    target: int  # permits it will have when others have given theirs back
    turn: int  # number of the plan this member is to make now; 0 when it is not its turn
    members: int
    window: float  # permits of all members
    round: int  # counts the cuts of the window
    growing: bool  # whether the window grows as fast as members report
    pause: float  # seconds for which nobody sends
    limits: Amounts  # the budget of the fleet
    taken: Amounts  # what all members have used or set aside


@attrs.frozen
class MemberRecord:
    """A living member; `age` is the seconds since its last report."""

    id: str
    lease: int
    target: int
    age: float
    facts: Mapping[str, Any]


@attrs.frozen
class FleetRecord:
    """Everything a store knows about one server and credential."""

    group: str  # salted hash of both
    base_url: str
    now: float  # time of the store
    pause: float  # seconds for which nobody sends
    window: Mapping[str, Any]  # as the last plan left it; empty before the first
    size: float  # permits of all members
    members: tuple[MemberRecord, ...]  # who is alive
    limits: Amounts  # the budget
    prices: Mapping[str, Any] | None  # the price table somebody joined with
    spend: Mapping[str, Amounts]  # what each member, living or not, has used or set aside


class Store(ABC):
    """A place that all members of a fleet reach; `place` is its address without a password."""

    place: str

    @abstractmethod
    def open(self) -> bytes:
        """Connect, check the layout, and return the salt of this store.

        Raises:
            ConfigurationError: It cannot be used; says why and what to do.
        """

    @abstractmethod
    def groups(self) -> list[str]:
        """All fleets in this store."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    @abstractmethod
    def _run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step, or raise `StoreUnreachableError`."""

    def sync(self, group: str, report: Report) -> Grant:
        """Renew a lease, add a budget to that of all, and read what applies to all."""
        given = attrs.asdict(report, recurse=False)
        now, known, cap, target, turn, members, numbers = self._run("sync", group, given)
        return Grant(
            bool(known),
            cap,
            target,
            turn,
            members,
            window=numbers["window"],
            round=int(numbers.get("round", 0)),
            growing=numbers.get("growing", 1) > 0,
            pause=max(0.0, numbers["pause"] - now),
            limits=_part(numbers, "limit "),
            taken=NOTHING | _part(numbers, "taken "),
        )

    def look(self, group: str, *, sweep: bool = False) -> FleetRecord | None:
        """Read everything; with `sweep`, first forget members whose lease ended."""
        now, numbers, texts, rows, spent = self._run("look", group, {"sweep": sweep})
        if not numbers:
            return None
        spend: dict[str, dict[str, float]] = {}
        for name, amount in spent.items():
            kind, _, member = name.partition(" ")
            spend.setdefault(member, dict(NOTHING))[kind] = amount
        return FleetRecord(
            group=group,
            base_url=texts.get("base_url", ""),
            now=now,
            pause=max(0.0, numbers.get("pause", 0.0) - now),
            window=orjson.loads(texts.get("plan", "{}")),
            size=numbers.get("window", 0.0),
            members=tuple(
                MemberRecord(
                    name, row["lease"], row["target"], now - row["seen"], orjson.loads(row["facts"])
                )
                for name, row in sorted(rows.items())
                if row["expires"] > now
            ),
            limits=_part(numbers, "limit "),
            prices=orjson.loads(texts["prices"]) if "prices" in texts else None,
            spend=spend,
        )

    def settle(
        self, group: str, turn: int, window: Mapping[str, Any], targets: Mapping[str, int]
    ) -> None:
        """Write a plan, unless a later one was begun."""
        growing = int(window.get("phase") == "grow")
        numbers = {"window": window["size"], "round": window["round"], "growing": growing}
        given = {"turn": turn, "numbers": numbers, "plan": orjson.dumps(window).decode()}
        self._run("settle", group, {**given, "targets": targets})

    def take(
        self, group: str, member: str, need: Amounts, want: Amounts, *, check: bool
    ) -> Amounts | None:
        """Set aside a part of the budget for a member; negative amounts give back.

        Returns:
            What was set aside: `want`, or `need` when the budget has no more, or None.
        """
        given = {"id": member, "need": need, "want": want, "check": check}
        return {"want": want, "need": need, "": None}[self._run("take", group, given)]

    def leave(self, group: str, member: str) -> None:
        """Give a lease back at once; what the member spent stays."""
        self._run("leave", group, {"id": member})

    def check_layout(self, found: str | None) -> None:
        """Refuse a store that was written by an older or newer version."""
        if found in (None, str(LAYOUT)):
            return
        age = "an older" if str(found).isdigit() and int(str(found)) < LAYOUT else "a newer"
        raise ConfigurationError(
            f"The fleet at {self.place} was written by {age} version of tinker-ext: its layout is "
            f"{found}, and version {__version__} uses {LAYOUT}. {ONE_VERSION}"
        )


ONE_VERSION = "Run one version in all processes, or give this run a place of its own."


def _part(numbers: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {kind: numbers[prefix + kind] for kind in KINDS if prefix + kind in numbers}


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

        return SqliteStore(Path(text).expanduser().absolute())
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
