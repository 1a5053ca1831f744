"""What a fleet keeps in its store, and which store an address means.

Every method of a store is one atomic step, in the store's own time. The steps of daily work, `sync`
and `take`, look at one member only.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit, urlunsplit

import attrs

from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError

LAYOUT = 1
"""Number of what is written into a store; changed when another version could misread it."""

RECOVERY_SECONDS = 3.0
"""After the return of a store nobody gets more than it had, until everybody has reported."""

LONGEST_PAUSE = 60.0
"""Seconds; a longer pause is told again by who was asked for it."""

KINDS = ("tokens", "train", "prefill", "sample", "cost")
"""What a budget may limit."""

NOTHING = dict.fromkeys(KINDS, 0.0)

Amounts = Mapping[str, float]


class StoreUnreachableError(Exception):
    """The store did not answer; users of a running client see a warning instead."""


@attrs.frozen(kw_only=True)
class Report:
    """What a member tells at each synchronisation.

    Attributes:
        id: The member: host, process and number.
        active: Requests sent or being sent.
        claim: Permits it has, as far as it knows.
        joining: Whether this is the first report of a new member.
        ttl: Seconds the lease is to last without another report.
        pause: Seconds the server asked everybody to wait.
        refused: Whether a request was refused since the cut number `round`.
        window: The last window it knows, for a store that lost its own.
        every: Seconds between plans.
        facts: The rest, kept as it is for plans and for people.
    """

    id: str
    active: int
    claim: int
    joining: bool
    ttl: float
    pause: float
    refused: bool
    round: int
    window: float
    every: float
    facts: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Grant:
    """What a member may do until its lease ends.

    Attributes:
        cap: Permits.
        target: Permits it will have when others have given theirs back.
        window: Permits of all members.
        round: Counts the cuts of the window.
        pause: Seconds for which nobody sends.
        members: How many there are.
        serial: Number of the plan this member is to make now; 0 when it is not its turn.
        known: Whether the store knew the member.
        limits: The budget of the fleet.
        taken: What all members have used or set aside.
        mine: The part of this member.
    """

    cap: int
    target: int
    window: float
    round: int
    pause: float
    members: int
    serial: int
    known: bool
    limits: Amounts
    taken: Amounts
    mine: Amounts


@attrs.frozen(kw_only=True)
class MemberRecord:
    """A living member: its facts, its lease, its target, and seconds since its last report."""

    id: str
    lease: int
    target: int
    age: float
    facts: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class FleetRecord:
    """Everything a store knows about one server and credential.

    Attributes:
        group: Salted hash of both.
        base_url: The server.
        now: Time of the store.
        pause: Seconds for which nobody sends.
        window: Fields of the window as the last plan left it; empty before the first.
        size: Permits of all members.
        members: Who is alive.
        limits: The budget.
        prices: The price table somebody joined with.
        spend: What each member, living or not, has used or set aside.
    """

    group: str
    base_url: str
    now: float
    pause: float
    window: Mapping[str, Any]
    size: float
    members: tuple[MemberRecord, ...]
    limits: Amounts
    prices: Mapping[str, Any] | None
    spend: Mapping[str, Amounts]


class Store(Protocol):
    """A place that all members of a fleet reach; `place` is its address without a password."""

    place: str

    def open(self) -> bytes:
        """Connect, check the layout, and return the salt of this store.

        Raises:
            ConfigurationError: It cannot be used; says why and what to do.
        """

    def enter(
        self, group: str, base_url: str, limits: Amounts, prices: Mapping[str, Any] | None
    ) -> None:
        """Make the fleet, begin its spend anew when nobody is alive, merge the budget."""

    def sync(self, group: str, report: Report) -> Grant:
        """Renew a lease and read what applies to all."""

    def look(self, group: str, *, sweep: bool = False) -> FleetRecord | None:
        """Read everything; with `sweep`, first forget members whose lease ended."""

    def settle(
        self, group: str, serial: int, window: Mapping[str, Any], targets: Mapping[str, int]
    ) -> None:
        """Write a plan, unless a later one was begun."""

    def take(
        self, group: str, member: str, need: Amounts, want: Amounts, *, check: bool
    ) -> Amounts | None:
        """Set aside a part of the budget for a member; negative amounts give back.

        Returns:
            What was set aside: `want`, or `need` when the budget has no more, or None.
        """

    def leave(self, group: str, member: str) -> None:
        """Give a lease back at once; what the member spent stays."""

    def groups(self) -> list[str]:
        """All fleets in this store."""

    def close(self) -> None:
        """End the connection."""


def grant(state: dict[str, Any], old: int | None, others: int, leased: int, report: Report,
          now: float) -> tuple[int, int, int]:  # fmt: skip
    """Decide one report; the script of the Redis store says the same in Lua.

    Args:
        state: What applies to all; changed in place.
        old: The target of this member, None when it is not known.
        others: How many other members there are.
        leased: Permits leased to them.
        report: What the member says.
        now: Time of the store.

    Returns:
        Permits, target, and number of the plan to make now or 0.
    """
    window = int(state.setdefault("window", report.window))
    if old is not None:
        target = old
    elif report.joining:
        target = window // (others + 1)
    else:
        target, state["recovering"] = report.claim, now + RECOVERY_SECONDS
    cap = min(target, window - leased)
    if state.get("recovering", 0) > now:
        cap = min(cap, report.claim)
    # What lies further ahead was written before the clock was set back.
    state["pause"] = min(max(state.get("pause", 0), now + report.pause), now + LONGEST_PAUSE)
    # Newcomers and refusals do not wait for the next plan, but many of them share one.
    news = old is None or (report.refused and report.round == state.get("round", 0))
    wait = state.get("next", 0) - now - (0.75 * report.every if news else 0)
    if 0 < wait <= report.every:
        return max(0, cap), target, 0
    state["next"], state["serial"] = now + report.every, state.get("serial", 0) + 1
    return max(0, cap), target, state["serial"]


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
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{name}@{host}" if name else host))


def _with_password(address: str) -> str:
    """The address with the password this process knows, for one that came without it."""
    own, password = os.environ.get("TINKER_EXT_FLEET", ""), os.environ.get("REDISCLI_AUTH")
    parts = urlsplit(address)
    if parts.password is not None:
        return address
    if "://" in own and without_password(own) == address:
        return own
    if not password:
        return address
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def check_layout(found: str | None, place: str) -> None:
    """Refuse a store of another layout.

    Raises:
        ConfigurationError: It was written by an older or newer version.
    """
    if found is None or found == str(LAYOUT):
        return
    older = found.isdigit() and int(found) < LAYOUT
    raise ConfigurationError(
        f"The fleet at {place} was written by {'an older' if older else 'a newer'} version of "
        f"tinker-ext: its layout is {found}, and version {__version__} uses {LAYOUT}. Run one "
        "version in all processes, or give this run a place of its own."
    )


def check_versions(record: FleetRecord | None, place: str) -> None:
    """Refuse to join members of another version, which would plan by other rules.

    Raises:
        ConfigurationError: A living member has another version.
    """
    for member in record.members if record else ():
        theirs = str(member.facts.get("version"))
        if theirs.split(".")[:2] != __version__.split(".")[:2]:
            raise ConfigurationError(
                f"The fleet at {place} is in use by tinker-ext {theirs} ({member.id}) and this is "
                f"{__version__}. Run one version in all processes, or give this run a place of "
                "its own."
            )
