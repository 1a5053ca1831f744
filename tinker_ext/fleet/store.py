"""What a fleet keeps in its store, and the steps that change it.

Of each fleet a store has `members`, their `shares` and their `spend` by id, and the `state` of all:
the plan, whose turn it is to make the next, and the budget, its `limits` and what is `taken` of it,
also what members knew to be taken in a store that was `lost`.
Every step is atomic and in the store's own time; `sqlite` says the steps in Python, `redis` in Lua:

====== ============================================================================================
report renew a lease, tell what is set aside of the budget, read what applies; or leave, with ttl 0
take   set aside more of the budget, unless it would be exceeded
look   read everything
settle write a plan, unless a later one was begun
====== ============================================================================================
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import attrs

from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet.plan import Plan, Row, make_plan

LAYOUT = 3
"""Number of what is written into a store; changed when another version could misread it."""

KINDS = ("tokens", "train", "prefill", "sample", "cost")
"""What a budget may limit."""

ONE_VERSION = "Run one version in all processes, or give this run a place of its own."
Amounts = Mapping[str, float]


class StoreUnreachableError(Exception):
    """The store did not answer; users of a running client see a warning instead."""


class StoreLostError(StoreUnreachableError):
    """The store is there without what it held, or another is in its place: enter it anew."""


class Reply(NamedTuple):
    """What a member may do until its lease ends."""

    now: float  # time of the store
    plan: Plan
    share: int | None  # its permits by that plan; None when it was not there yet
    state: Mapping[str, Any]
    members: int


class FleetRecord(NamedTuple):
    """Everything a store knows about one server and credential."""

    now: float
    state: Mapping[str, Any]
    members: tuple[dict[str, Any], ...]  # what those alive said, and when
    shares: Mapping[str, int]
    spend: Mapping[str, Amounts]  # what each member, living or not, has used or set aside


class Store:
    """A place that all members of a fleet reach; `place` is its address without a password."""

    place: str
    salt = ""
    """Known after `open`, which writes it into a store that has lost its own."""

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one atomic step, or raise `StoreUnreachableError`."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connections."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make what another program wrote into the store a `StoreUnreachableError`."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreUnreachableError(
                f"{self.place}: what it holds is damaged ({error!r}); delete it when no fleet "
                "uses it, or give another place"
            ) from error

    def report(self, group: str, report: Mapping[str, Any]) -> Reply:
        """Report, and make the next plan for everybody when it is this member's turn."""
        with self.reading():
            now, turn, state, share, members = self.run("report", group, report)
            plan = read_plan(state)
            if turn:
                found = self.look(group)
                told = attrs.fields_dict(Row).keys()
                rows = [Row(**{name: each[name] for name in told}) for each in found.members]
                last = read_plan(found.state)
                made, shares = make_plan(last, rows, found.shares, found.now, turn)
                settled = {"turn": turn, "plan": attrs.asdict(made), "shares": shares}
                if self.run("settle", group, settled):
                    plan, share = made, shares.get(report["id"])
            return Reply(now, plan or Plan(), share, state, members)

    def look(self, group: str) -> FleetRecord:
        """Read everything."""
        with self.reading():
            now, state, rows, shares, spend = self.run("look", group, {})
            members = tuple(
                {**row.pop("said"), **row, "id": name}
                for name, row in sorted(rows.items())
                if row["expires"] > now
            )
            return FleetRecord(now, state, members, shares, spend)

    def group_of(self, base_url: str, fingerprint: str) -> str:
        """The name of a server and a credential (its one-way mark) here; reveals neither."""
        text = f"{base_url}\0{fingerprint}".encode()
        return hmac.new(self.salt.encode(), text, hashlib.sha256).hexdigest()[:24]

    def check_layout(self, found: str | None) -> None:
        """Refuse a store that was written by an older or newer version."""
        if found not in (None, str(LAYOUT)):
            age = "an older" if str(found).isdigit() and int(str(found)) < LAYOUT else "a newer"
            raise ConfigurationError(
                f"The fleet at {self.place} was written by {age} version of tinker-ext: its layout "
                f"is {found}, and version {__version__} uses {LAYOUT}. {ONE_VERSION}"
            )


def read_plan(state: Mapping[str, Any]) -> Plan | None:
    """The plan in the state of a fleet, None before the first."""
    return Plan(**state["plan"]) if "plan" in state else None
