"""`SharedLedger`: a client's ledger whose budget is that of the whole fleet.

A part of the budget is set aside in the store for several calls at once, so that most calls are
checked without it. What all members have set aside never exceeds the budget; the part of one that
was killed counts as spent, since its requests may have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

from tinker_ext.errors import BudgetExceededError
from tinker_ext.fleet.state import BLOCK_PART, KINDS, Amounts, Fleet
from tinker_ext.ledger import Account, Budget, Hold, Ledger, Prices, Tokens

if TYPE_CHECKING:
    from tinker_ext.fleet.member import Member

NAMED = 5  # members named in the error, the largest first


class SharedLedger(Ledger):
    """Counts one client, and is stopped by the budget of all."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member, self._life = member, 0
        self.reset()

    def reset(self) -> None:
        """Count from nothing, as in a forked child: what its parent has is not its own."""
        self._life += 1  # what the parent holds may end here too, and is not given back twice
        self._used, self._taken = Account(), Account()
        self._aside: Amounts = dict.fromkeys(KINDS, 0.0)  # in the store, for this client
        self._left: Amounts = {}  # an equal share of what is left of each, as far as is known
        self._known: Mapping[str, Amounts] = {}  # what each member had when the store last said it

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most; see `Ledger.hold`."""
        self._member.enter()  # a forked child has nothing of its own before it has reported
        hold = Hold(self, tokens, self._price(tokens, model), model, self._life)
        fleet: Fleet | None = None  # when it was asked last
        while kind := self._take(hold):
            need = hold.amounts()
            short = fleet.short(need) if fleet else None
            if short or self._member.is_cut_off:
                error = self._exceeded(short or kind, need, fleet)
                raise error.with_context(operation=operation or None)
            fleet = self._member.sync(need)
        return hold

    def _allowed(self) -> Amounts:
        # Together they stay within what was left, if all are cut off and read the same.
        share = self._left if self._member.is_cut_off else {}
        return {kind: self._aside[kind] + share.get(kind, 0.0) for kind in self.limits}

    def _settle(self, hold: Hold, used: Tokens) -> None:
        if hold._life == self._life:
            super()._settle(hold, used)

    def told(self, *, keep: bool) -> dict[str, Any]:
        """What a report says of the budget, also to a store that has lost what it held.

        The rest of a block is given back unless `keep`, and of a large one also then.
        """
        with self._lock:
            has = self._taken.amounts()
            for kind, share in self._left.items() if keep else ():
                has[kind] += max(0.0, min(self._aside[kind] - has[kind], BLOCK_PART * share))
            # The store may note it though its reply is lost: what is given back is not used.
            self._aside = {kind: min(amount, has[kind]) for kind, amount in self._aside.items()}
        prices = attrs.asdict(self.prices) if self.prices else {}
        return {"has": has, "prices": prices, "limits": self.limits, "known": self._known}

    def learn(self, fleet: Fleet) -> None:
        """Take note of the budget of all, and of what is set aside for this client."""
        count = max(1, len(fleet.members))
        # Made first: nothing of a store that is damaged is taken over, and told to it again.
        left = {kind: max(0.0, most) / count for kind, most in fleet.left().items()}
        budget = Budget(**cast("dict[str, Any]", fleet.limits))
        prices = Prices(**fleet.prices) if self.prices is None and fleet.prices else self.prices
        with self._lock:
            self._known, self.limits, self._left = fleet.spend, fleet.limits, left
            self._aside = self._known[self._member.id]
        self.prices, self.budget = prices, budget

    def _exceeded(self, kind: str, need: Amounts, fleet: Fleet | None) -> BudgetExceededError:
        used, who = "", "Its store does not answer, and this client has used its share"
        if fleet:
            used = f"{fleet.taken()[kind]:,.6g} used or set aside, and "
            by_most = sorted(fleet.spend.items(), key=lambda each: -each[1].get(kind, 0))
            named = [f"{name} {spend.get(kind, 0):,.6g}" for name, spend in by_most]
            who = "Spent by: " + ", ".join(named[:NAMED])
            who += f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        return BudgetExceededError(
            f"The fleet's budget of {self.limits[kind]:,.6g} {self._unit(kind)} would be exceeded: "
            f"{used}this call may use {need[kind]:,.6g}. Nothing was sent. {who}."
        )
