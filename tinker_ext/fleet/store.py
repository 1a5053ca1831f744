"""`Store`: where the members of a fleet meet; reports to it, and what it says about all of them."""

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
from tinker_ext.fleet.steps import Amounts, Kept

LAYOUT = 4
"""Number of what is written into a store; changed when another version could misread it."""

ONE_VERSION = "Run one version in all processes, or give this run a place of its own."


class StoreUnreachableError(Exception):
    """The store did not answer; users of a running client see a warning instead."""


class StoreLostError(StoreUnreachableError):
    """The store is there without what it held, or another is in its place: enter it anew."""


class Reply(NamedTuple):
    """What a member may do until its lease ends."""

    now: float  # time of the store
    plan: Plan
    state: Mapping[str, Any]
    members: int  # all that are alive, or were when the plan was made


class FleetRecord(NamedTuple):
    """Everything a store knows about one server and credential."""

    now: float
    plan: Plan | None
    state: Mapping[str, Any]
    members: tuple[dict[str, Any], ...]  # what those alive said, and when
    spend: Mapping[str, Amounts]  # what each member, living or not, has used or set aside


class Store:
    """A place that all members of a fleet reach; `place` is its address without a password."""

    place: str
    salt = ""
    """Known after `open`, which writes it into a store that has lost its own."""

    def run(self, step: str, group: str, given: Mapping[str, Any]) -> Any:
        """Take one of the `STEPS` at once, or raise `StoreUnreachableError`."""
        raise NotImplementedError

    def read(self, group: str) -> tuple[float, Kept]:
        """The time, and everything that is kept of a fleet."""
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

    def report(self, group: str, given: Mapping[str, Any]) -> Reply:
        """Report, and make the next plan for everybody when it is this member's turn."""
        with self.reading():
            now, turn, state = self.run("report", group, given)
            if turn:
                found, told = self.look(group), attrs.fields_dict(Row).keys()
                rows = [Row(**{name: each[name] for name in told}) for each in found.members]
                made = attrs.asdict(make_plan(found.plan, rows, found.now, turn))
                settled = {"plan": made, "left": found.state.get("joined", 0) - len(rows)}
                if self.run("settle", group, {"id": given["id"], **settled}):
                    state |= settled
            members = state.get("joined", 0) - state.get("left", 0)
            return Reply(now, _plan_of(state) or Plan(), state, max(1, members))

    def leave(self, group: str, given: Mapping[str, Any]) -> None:
        """Report for the last time; a fleet that nobody is left of ends, unless somebody joins."""
        found = self.look(group)
        alone = all(each["id"] == given["id"] for each in found.members)
        last = found.state.get("joined") if alone else None
        self.run("report", group, {**given, "ttl": 0, "last": last})

    def look(self, group: str) -> FleetRecord:
        """Read everything."""
        with self.reading():
            now, kept = self.read(group)
            members = tuple(
                {**row["said"], **row, "id": name}
                for name, row in sorted(kept["rows"].items())
                if row["expires"] > now
            )
            spend = {name: row["spend"] for name, row in kept["rows"].items()}
            state = kept["state"]
            return FleetRecord(now, _plan_of(state), state, members, spend)

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


def _plan_of(state: Mapping[str, Any]) -> Plan | None:
    return Plan(**state["plan"]) if "plan" in state else None
