"""`Fleet`: what the members of a fleet share, and the one step that changes it, a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import orjson

from tinker_ext.fleet.plan import Plan, Row, make_plan

KINDS = ("tokens", "train", "prefill", "sample", "cost")  # what a budget may limit
Amounts = Mapping[str, float]
_TOLD = list(attrs.fields_dict(Row))[1:]
BLOCK_CALLS = 64  # calls like the present one that a block of the budget has room for …
BLOCK_PART = 0.25  # … but at most this part of an equal share of the rest: they shrink at the end
EARLIER, MOST_LEFT = "earlier members", 50
_GONE: dict[str, Any] = {"expires": 0.0, "said": {}, "spend": {}}
RATE_SECONDS, LONGEST_LEASE = 2.0, 9.0
SILENT_SECONDS = 60.0  # after the leases of all have ended, in which a fleet is not empty yet


def _kept(part: Any) -> dict[str, Any]:
    return attrs.asdict(part, recurse=False, filter=lambda field, _: field.init)


@attrs.define
class Fleet:
    """All that a store keeps about one server and credential."""

    now: float = 0.0  # when it was read
    base_url: str = ""
    # By member: when its lease `expires`, its `spend` (what it has used or set aside of the budget)
    # and what it `said` last (a `Row` for the plan, and more for people; nothing when it has left).
    rows: dict[str, dict[str, Any]] = attrs.Factory(dict)
    plan: Plan = attrs.Factory(Plan)
    next: float = 0.0  # when the next plan is due
    limits: dict[str, Any] = attrs.Factory(dict)  # of the budget
    prices: dict[str, Any] = attrs.Factory(dict)
    lacks: str | None = attrs.field(default=None, init=False)  # what less is left of than was asked

    @classmethod
    def read(cls, text: str | None, now: float) -> Fleet:
        """What a text keeps; without one, as before the first report."""
        kept = orjson.loads(text or "{}")
        return cls(**kept | {"now": now, "plan": Plan(**kept.get("plan", {}))})

    def text(self) -> str:
        """The same as text."""
        return orjson.dumps(self, _kept).decode()

    @property
    def members(self) -> list[dict[str, Any]]:
        """What those alive said, and when."""
        rows = sorted(self.rows.items())
        return [{**row["said"], "id": name} for name, row in rows if row["expires"] > self.now]

    @property
    def count(self) -> int:
        """How many are alive, and at least one: who asks is."""
        return max(1, len([row for row in self.rows.values() if row["expires"] > self.now]))

    @property
    def spend(self) -> dict[str, Amounts]:
        """What each member, living or not, has used or set aside."""
        return {name: row["spend"] for name, row in self.rows.items()}

    def taken(self) -> dict[str, float]:
        """What all of them have."""
        return {kind: sum(each.get(kind, 0) for each in self.spend.values()) for kind in KINDS}

    def left(self) -> dict[str, float]:
        """What is left of each limit."""
        taken = self.taken()
        return {kind: most - taken[kind] for kind, most in self.limits.items()}

    def short(self, need: Amounts) -> str | None:
        """What less is left of than a call needs."""
        left = self.left().items()
        return next((kind for kind, most in left if need[kind] and most < need[kind]), None)

    def report(self, given: Mapping[str, Any]) -> None:
        """Renew a lease, or end it (`ttl` 0), take what is needed, and plan if it is time."""
        now, name, ttl, every = self.now, given["id"], given["ttl"], given["every"]
        if self.plan.made > now:  # the clock was set back: as if the store had lost its plan
            self.plan, self.next = Plan(), 0.0
            for row in self.rows.values():
                row["expires"] = min(row["expires"], now + LONGEST_LEASE)
        if name not in self.rows:
            self._admit(given["new"], given["known"])
        said = self._noted(given["said"], self.rows.get(name, _GONE)["said"]) if ttl else {}
        row = self.rows[name] = {"expires": now + ttl, "said": said, "spend": given["has"]}
        self.base_url, self.prices = given["base_url"], given["prices"] or self.prices
        for kind, most in given["limits"].items():
            self.limits[kind] = min(most, self.limits.get(kind, most))
        need = given["need"]
        self.lacks = self.short(need) if need else None
        if need and not self.lacks:
            # For the next calls too, while there is plenty.
            part, left = BLOCK_PART / self.count, self.left()
            blocks = (part * (left[kind] - need[kind]) // need[kind] for kind in left if need[kind])
            calls = 1 + min([BLOCK_CALLS, *blocks])
            row["spend"] = {kind: row["spend"][kind] + calls * need[kind] for kind in KINDS}
        if not ttl:
            self._add_up()
        # Newcomers and refusals do not wait for the next plan, but many of them share one.
        wait = self.next - now - (0.75 * every if given["urgent"] else 0.0)
        if ttl and not 0 < wait <= every:
            rows = [Row(each["id"], *(each[name] for name in _TOLD)) for each in self.members]
            self.plan, self.next = make_plan(self.plan, rows, now), now + every

    def _noted(self, said: dict[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
        """What a member said, when, since when it waits for that, and how fast it is."""
        now, waiting, accepted = self.now, said["waiting"], said["accepted"]
        since = last["since"] if last and last["waiting"] == waiting else now
        passed = max(1e-3, now - last["seen"]) if last else RATE_SECONDS
        rate, part = last.get("rate", 0.0), min(1.0, passed / RATE_SECONDS)
        rate += part * ((accepted - last.get("accepted", accepted)) / passed - rate)
        return said | {"seen": now, "plan": self.plan.number, "since": since, "rate": rate}

    def _admit(self, new: bool, known: Mapping[str, Amounts]) -> None:
        rows = [(row["expires"], row["said"]) for row in self.rows.values()]
        ended = LONGEST_LEASE + max((expires for expires, said in rows if not said), default=0.0)
        # Who fell silent long after the last one left may come back: all lost their store at once.
        waits = [expires + SILENT_SECONDS * (s["seen"] > ended) for expires, s in rows if s]
        if new and max(waits, default=0.0) < self.now:
            # A new run begins, and what the last one spent is not its business.
            self.rows, self.limits, self.prices = {}, {}, {}
        # A store that has lost what it held learns it again, from who knows the most of each.
        for name, spend in known.items():
            row = self.rows.setdefault(name, dict(_GONE))
            row["spend"] = {kind: max(spend[kind], row["spend"].get(kind, 0)) for kind in KINDS}

    def _add_up(self) -> None:
        """Keep the sum of what most of those spent that have left: every report reads all rows."""
        left = [name for name, row in self.rows.items() if not row["said"] and name != EARLIER]
        for name in left[:-MOST_LEFT]:
            spend = self.rows.pop(name)["spend"]
            earlier = self.rows.setdefault(EARLIER, dict(_GONE))
            earlier["spend"] = {k: spend[k] + earlier["spend"].get(k, 0) for k in KINDS}
