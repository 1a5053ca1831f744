"""The steps that change what a store keeps of a fleet; a store only has to take each at once.

Kept are the `state` of all (the plan, whose turn it is to make the next, the budget with its
`limits` and what is `taken` of it, also what members knew to be taken in a store that was `lost`,
how many `joined` and `left`) and, by member, `rows` (what it said and has set aside). A step is
given at least the row of the member that takes it, and the store's own time:

====== ============================================================================================
report renew a lease, tell what is set aside of the budget, read what applies; or leave, with ttl 0
take   set aside more of the budget, unless it would be exceeded
settle write a plan, unless a later one was begun
====== ============================================================================================

Steps of many members meet in the state alone, so it is left as it is where nothing is new: a store
then need not repeat the steps of others. Rows that a step replaces are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = ("tokens", "train", "prefill", "sample", "cost")
"""What a budget may limit."""
LONGEST_LEASE = 60.0
Amounts = Mapping[str, float]
Kept = dict[str, dict[str, Any]]


def empty() -> Kept:
    """What is kept of a fleet before its first step."""
    return {"state": {"limits": {}, "taken": {}}, "rows": {}}


def report(kept: Kept, now: float, given: Mapping[str, Any]) -> tuple[float, int, Any]:
    """Returns the time, the number of the plan to make now or 0, and the state."""
    state, ttl, turn = kept["state"], given["ttl"], 0
    if given["new"]:
        state["joined"] = state.get("joined", 0) + 1
        if state.get("alive", 0) <= now:
            # Nobody was left: a new run begins, and what the last one spent is not its business.
            state |= {"limits": {}, "taken": {}, "lost": {}, "prices": {}}
            kept["rows"] = {}
    row = _own_row(kept, given)
    state["base_url"] = given["base_url"]
    if given["prices"]:
        state["prices"] = given["prices"]
    _set_aside(kept, given, given["have"])
    said = {"seen": now, "plan": state.get("plan", {}).get("number", 0), "said": given["said"]}
    row |= {"expires": now + ttl, **(said if ttl else {"said": {}})}
    if ttl and not now + ttl <= state.get("alive", 0) <= now + LONGEST_LEASE:
        state["alive"] = now + 1.5 * ttl
    elif not ttl and given["last"] == state.get("joined"):
        state["alive"] = 0
    # Newcomers and refusals do not wait for the next plan, but many of them share one. What lies
    # further ahead was written before the clock was set back.
    wait = state.get("next", 0) - now - (0.75 * given["every"] if given["urgent"] else 0)
    if ttl and not 0 < wait <= given["every"]:
        state["next"] = now + given["every"]
        turn = state["turn"] = state.get("turn", 0) + 1
    return now, turn, state


def take(kept: Kept, _: float, given: Mapping[str, Any]) -> tuple[int, Amounts]:
    """Returns which of the asks there was room for, or 0, and what all have taken."""
    own, state = _own_row(kept, given)["spend"], kept["state"]
    left = {kind: most - state["taken"].get(kind, 0) for kind, most in state["limits"].items()}
    for number, amounts in enumerate(given["asks"], 1):
        if all(amounts[kind] - own[kind] <= max(0, left[kind]) for kind in left):
            _set_aside(kept, given, amounts)
            return number, state["taken"]
    return 0, state["taken"]


def settle(kept: Kept, _: float, given: Mapping[str, Any]) -> bool:
    """Returns whether the plan was written."""
    if kept["state"].get("turn") != given["plan"]["number"]:
        return False
    kept["state"] |= {"plan": given["plan"], "left": given["left"]}
    return True


STEPS = {"report": report, "take": take, "settle": settle}


def _own_row(kept: Kept, given: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a member; from one without a row the store learns again what it has lost.

    Before that, all had taken what the one who knows most has read; `_set_aside` adds what each has
    taken since, which is what it has above what it `was` then.
    """
    state = kept["state"]
    for kind, most in given["limits"].items():
        state["limits"][kind] = min(most, state["limits"].get(kind, most))
    if given["id"] not in kept["rows"]:
        lost, taken = state.setdefault("lost", {}), state["taken"]
        for kind, known in given["known"].items():
            more = max(0, known - lost.get(kind, 0))
            lost[kind], taken[kind] = lost.get(kind, 0) + more, taken.get(kind, 0) + more
        spend = {kind: given["was"].get(kind, 0) for kind in KINDS}
        kept["rows"][given["id"]] = {"expires": 0, "seq": 0, "spend": spend, "said": {}}
    row: dict[str, Any] = kept["rows"][given["id"]]
    return row


def _set_aside(kept: Kept, given: Mapping[str, Any], amounts: Amounts) -> None:
    """Note what a member has of the budget, whether there is room for it or not."""
    taken, row = kept["state"]["taken"], kept["rows"][given["id"]]
    if row["seq"] < given["seq"]:  # else a later step was faster
        for kind, amount in amounts.items():
            taken[kind] = taken.get(kind, 0) + amount - row["spend"][kind]
        row |= {"seq": given["seq"], "spend": amounts}
