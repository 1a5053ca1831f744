"""`SharedLedger`: a client's ledger whose budget is that of the whole fleet.

A part of the budget is set aside in the store for several calls at once, so that most calls are
checked without it. What all members have set aside never exceeds the budget; the part of one that
was killed counts as spent, since its requests may have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext.errors import BudgetExceededError
from tinker_ext.fleet.state import KINDS, Amounts, FleetRecord
from tinker_ext.ledger import Account, Budget, Hold, Ledger, Prices, Tokens

if TYPE_CHECKING:
    from tinker_ext.fleet.member import Member

BLOCK_CALLS = 64  # calls like the present one that a block has room for …
BLOCK_PART = (
    4  # … but at most this part of an equal share of what is left, so it shrinks at the end
)
NAMED = 5  # members named in the error, the largest first


class SharedLedger(Ledger):
    """Counts one client, and is stopped by the budget of all."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member, self._life = member, 0
        self.limits: Amounts = {}
        self.reset()

    def reset(self) -> None:
        """Count from nothing, as in a forked child: what its parent has is not its own."""
        self._life += 1  # what the parent holds may end here too, and is not given back twice
        self._used, self._taken = Account(), Account()
        self._aside: Amounts = dict.fromkeys(KINDS, 0.0)  # in the store, for this client
        self._left: Amounts = {}  # an equal share of what is left of each, as far as is known
        self._known: Amounts = {}  # what all had taken when the store last counted this client …
        self._was: Amounts = {}  # … and the part of this client in it, or less

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most; see `Ledger.hold`."""
        self._member.enter()  # a forked child has nothing of its own before it has reported
        cost = self._price(tokens, model)
        while True:
            with self._lock:
                would = self._taken.plus(tokens, cost)
                total = _amounts(would.tokens, would.cost)
                # Together they stay within what was left, if all are cut off and read the same.
                share = self._left if self._member.is_cut_off else {}
                over = [k for k in self.limits if total[k] > self._aside[k] + share.get(k, 0.0)]
                # A call that uses nothing of a kind cannot exceed its limit.
                if not over or not any(map(_amounts(tokens, cost).get, over)):
                    self._taken = would
                    return Hold(self, tokens, cost, model, self._life)
            self._get_block(total, _amounts(tokens, cost), operation)

    def _settle(self, hold: Hold, used: Tokens) -> None:
        if hold._life == self._life:
            super()._settle(hold, used)

    def _get_block(self, total: Amounts, need: Amounts, operation: str) -> None:
        """Get a block from the store, or fail as the budget demands."""
        found = None
        if not self._member.is_cut_off:
            least = {k: max(self._aside[k], total[k] if need[k] else 0.0) for k in KINDS}
            most = {k: self._left.get(k, 0.0) / BLOCK_PART for k in KINDS}
            block = {k: least[k] + min(need[k] * BLOCK_CALLS, most[k]) for k in KINDS}
            granted, found = self._member.sync(block, least)
            if granted or found is None:
                return
        raise self._exceeded(need, found).with_context(operation=operation or None)

    def told(self, *, last: bool = False) -> dict[str, Any]:
        """What a report says of the budget; also for a store that has lost what it held."""
        part = 0.0 if last else 1 / BLOCK_PART
        with self._lock:
            has = _amounts(self._taken.tokens, self._taken.cost)
            for kind, used in has.items():
                # The rest of a block stays unless it is large, or its member leaves.
                rest = min(self._aside[kind] - used, self._left.get(kind, 0.0) * part)
                has[kind] = used + max(0.0, rest)
            # The store may note it though its reply is lost: what is given back is not used.
            self._aside = {kind: min(amount, has[kind]) for kind, amount in self._aside.items()}
            self._was = {kind: min(was, has[kind]) for kind, was in self._was.items()}
        prices = attrs.asdict(self.prices) if self.prices else {}
        lost = {"limits": self.limits, "known": self._known, "was": self._was}
        return {"has": has, "prices": prices, **lost}

    def learn(self, found: FleetRecord, aside: Amounts) -> None:
        """Take note of the budget of all, and of what is set `aside` for this client."""
        limits, taken, prices = (found.state[part] for part in ("limits", "taken", "prices"))
        left = {kind: max(0.0, most - taken.get(kind, 0)) for kind, most in limits.items()}
        with self._lock:
            self._known, self._was, self._aside, self.limits = taken, aside, aside, limits
            self._left = {kind: most / max(1, len(found.members)) for kind, most in left.items()}
        if self.prices is None and prices:
            self.prices = Prices(**prices)
        self.budget = Budget(**limits)

    def _exceeded(self, need: Amounts, found: FleetRecord | None) -> BudgetExceededError:
        taken = found.state["taken"] if found else {}
        over = [k for k, most in self.limits.items() if need[k] + taken.get(k, 0.0) > most]
        kind = (over or [k for k in self.limits if need[k]])[0]
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        what = unit if kind in ("tokens", "cost") else f"{unit} tokens"
        used, who = "", "Its store does not answer, and this client has used its share"
        if found:
            used = f"{taken.get(kind, 0.0):,.6g} used or set aside, and "
            spend = sorted(((each[kind], name) for name, each in found.spend.items()), reverse=True)
            who = "Spent by: " + ", ".join(f"{name} {most:,.6g}" for most, name in spend[:NAMED])
            who += f" and {len(spend) - NAMED} more" if len(spend) > NAMED else ""
        return BudgetExceededError(
            f"The fleet's budget of {self.limits[kind]:,.6g} {what} would be exceeded: {used}this "
            f"call may use {need[kind]:,.6g}. Nothing was sent. {who}."
        )


def _amounts(tokens: Tokens, cost: float | None) -> dict[str, float]:
    return {"tokens": tokens.total, **tokens.to_dict(), "cost": cost or 0.0}
