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
        self.limits: Amounts = {}
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
            need = _amounts(tokens, cost)
            cut_off = self._member.is_cut_off
            granted, fleet = (False, None) if cut_off else self._member.sync(need)
            if not granted and (cut_off or fleet):
                raise self._exceeded(need, fleet).with_context(operation=operation or None)

    def _settle(self, hold: Hold, used: Tokens) -> None:
        if hold._life == self._life:
            super()._settle(hold, used)

    def told(self, *, keep: bool) -> dict[str, Any]:
        """What a report says of the budget, also to a store that has lost what it held.

        Args:
            keep: Whether the rest of a block stays, unless it is large; else it is given back.
        """
        with self._lock:
            has = _amounts(self._taken.tokens, self._taken.cost)
            for kind, share in self._left.items() if keep else ():
                has[kind] += max(0.0, min(self._aside[kind] - has[kind], BLOCK_PART * share))
            # The store may note it though its reply is lost: what is given back is not used.
            self._aside = {kind: min(amount, has[kind]) for kind, amount in self._aside.items()}
        prices = attrs.asdict(self.prices) if self.prices else {}
        return {"has": has, "prices": prices, "limits": self.limits, "known": self._known}

    def learn(self, fleet: Fleet) -> None:
        """Take note of the budget of all, and of what is set aside for this client."""
        limits, count = fleet.limits, max(1, len(fleet.members))
        # Made first: nothing of a store that is damaged is taken over, and told to it again.
        left = {kind: max(0.0, most) / count for kind, most in fleet.left().items()}
        budget = Budget(**cast("dict[str, Any]", limits))
        prices = Prices(**fleet.prices) if self.prices is None and fleet.prices else self.prices
        with self._lock:
            self._known, self.limits, self._left = fleet.spend, limits, left
            self._aside = self._known[self._member.id]
        self.prices, self.budget = prices, budget

    def _exceeded(self, need: Amounts, fleet: Fleet | None) -> BudgetExceededError:
        left = fleet.left() if fleet else self._left
        kind = max((k for k in self.limits if need[k]), key=lambda k: need[k] > left.get(k, 0))
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        what = unit if kind in ("tokens", "cost") else f"{unit} tokens"
        used, who = "", "Its store does not answer, and this client has used its share"
        if fleet:
            used = f"{fleet.taken()[kind]:,.6g} used or set aside, and "
            spend = sorted(
                ((each.get(kind, 0), name) for name, each in fleet.spend.items()), reverse=True
            )
            who = "Spent by: " + ", ".join(f"{name} {most:,.6g}" for most, name in spend[:NAMED])
            who += f" and {len(spend) - NAMED} more" if len(spend) > NAMED else ""
        return BudgetExceededError(
            f"The fleet's budget of {self.limits[kind]:,.6g} {what} would be exceeded: {used}this "
            f"call may use {need[kind]:,.6g}. Nothing was sent. {who}."
        )


def _amounts(tokens: Tokens, cost: float | None) -> dict[str, float]:
    return {"tokens": tokens.total, **tokens.to_dict(), "cost": cost or 0.0}
