"""What the members of a fleet share, and the one step that changes it: the report of a member.

A store keeps one JSON object for each fleet, and lets nobody else write it during a step:

- `rows`, by member: when its lease `expires`, its `spend` (what it has used or set aside of the
  budget) and what it `said` last (a `Row` for the plan, and more for people);
- the `plan` in force, and when the `next` one is due;
- the `limits` of the budget, what of it is `taken`, what of that members had to tell again because
  a store had `lost` it, and the `prices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import orjson

from tinker_ext.fleet.plan import Plan, Row, make_plan

KINDS = ("tokens", "train", "prefill", "sample", "cost")  # what a budget may limit
Amounts = Mapping[str, float]
Kept = dict[str, Any]
_TOLD = list(attrs.fields_dict(Row))[1:]
EARLIER, MOST_LEFT = "earlier members", 50
LONGEST_LEASE = 60.0  # what ends later was written before the clock was set back


class FleetRecord(NamedTuple):
    """Everything a store knows about one server and credential."""

    now: float
    plan: Plan | None
    state: Mapping[str, Any]
    members: tuple[dict[str, Any], ...]  # what those alive said, and when
    spend: Mapping[str, Amounts]  # what each member, living or not, has used or set aside


def kept_in(text: str | None) -> Kept:
    """What a text keeps; without one, as before the first report."""
    parts = ("rows", "plan", "limits", "taken", "lost", "prices")
    kept: Kept = orjson.loads(text) if text else {"next": 0, **{part: {} for part in parts}}
    return kept


def record_of(kept: Kept, now: float) -> FleetRecord:
    """What is kept, as others read it."""
    rows = sorted(kept["rows"].items())
    members = tuple({**row["said"], "id": name} for name, row in rows if row["expires"] > now)
    plan = Plan(**kept["plan"]) if kept["plan"] else None
    return FleetRecord(now, plan, kept, members, {name: row["spend"] for name, row in rows})


def report(kept: Kept, now: float, given: Mapping[str, Any]) -> int:
    """Renew a lease, or end it (`ttl` 0); set aside some of the budget; plan when it is time.

    Returns:
        Which of the blocks that the member asks for it has got, or 0.
    """
    ttl, every = given["ttl"], given["every"]
    for row in kept["rows"].values():
        row["expires"] = min(row["expires"], now + LONGEST_LEASE)
    if given["new"] and not record_of(kept, now).members:
        # A new run begins, and what the last one spent is not its business.
        kept |= {**kept_in(None), "plan": kept["plan"]}
    granted = _count(kept, given)
    said = {**given["said"], "seen": now, "plan": kept["plan"].get("number", 0)} if ttl else {}
    kept["rows"][given["id"]] |= {"expires": now + ttl, "said": said}
    if not ttl:
        _add_up(kept["rows"])
    kept |= {"base_url": given["base_url"], "prices": given["prices"] or kept["prices"]}
    # Newcomers and refusals do not wait for the next plan, but many of them share one. What lies
    # further ahead was written before the clock was set back.
    wait = kept["next"] - now - (0.75 * every if given["urgent"] else 0.0)
    if ttl and not 0 < wait <= every:
        found = record_of(kept, now)
        rows = [Row(each["id"], *(each[name] for name in _TOLD)) for each in found.members]
        plan = make_plan(found.plan, rows, now, said["plan"] + 1)
        kept |= {"next": now + every, "plan": attrs.asdict(plan)}
    return granted


def _count(kept: Kept, given: Mapping[str, Any]) -> int:
    """Note what a member `has` of the budget, and give it the first block there is room for.

    From a member without a row the store learns again what it has lost: all had taken what the one
    who knows most has read, and each took since then what it has above what it `was` then.
    """
    limits, taken, lost = kept["limits"], kept["taken"], kept["lost"]
    for kind, most in given["limits"].items():
        limits[kind] = min(most, limits.get(kind, most))
    if given["id"] not in kept["rows"]:
        for kind, known in given["known"].items():
            more = max(0, known - lost.get(kind, 0))
            lost[kind], taken[kind] = lost.get(kind, 0) + more, taken.get(kind, 0) + more
        kept["rows"][given["id"]] = {"spend": given["was"]}
    row, has = kept["rows"][given["id"]], given["has"]
    _set_aside(row, has, taken)
    for number, block in enumerate(given["asks"], 1):
        room = {kind: max(0, most - taken.get(kind, 0)) for kind, most in limits.items()}
        if all(block[kind] - has[kind] <= rest for kind, rest in room.items()):
            _set_aside(row, block, taken)
            return number
    return 0


def _add_up(rows: dict[str, Any]) -> None:
    """Keep the sum of what most of those spent that have left: every report reads all rows."""
    left = [name for name, row in rows.items() if not row["said"] and name != EARLIER]
    for name in left[:-MOST_LEFT]:
        spend = rows.pop(name)["spend"]
        earlier = rows.setdefault(EARLIER, {"expires": 0.0, "said": {}, "spend": {}})
        spent = earlier["spend"]
        spent |= {kind: amount + spent.get(kind, 0) for kind, amount in spend.items()}


def _set_aside(row: dict[str, Any], amounts: Amounts, taken: dict[str, float]) -> None:
    for kind, amount in amounts.items():
        taken[kind] = taken.get(kind, 0) + amount - row["spend"].get(kind, 0)
    row["spend"] = amounts
