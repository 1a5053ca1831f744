"""`SharedLedger`: a client's ledger whose budget is that of the whole fleet.

A part of the budget is set aside in the store for several calls at once, so that most calls are
checked without it. What all members have set aside never exceeds the budget; the part of one that
was killed counts as spent, since its requests may have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tinker_ext.errors import BudgetExceededError
from tinker_ext.fleet.store import KINDS, NOTHING, Amounts, Grant, StoreUnreachableError
from tinker_ext.observe.ledger import Account, Budget, Ledger
from tinker_ext.types.tokens import Tokens

if TYPE_CHECKING:
    from tinker_ext.fleet.member import Member

BLOCK_CALLS = 64
"""Calls like the present one that a block has room for."""
BLOCK_PART = 4
"""… but it is at most this part of an equal share of what is left, so it shrinks at the end."""
NAMED = 5
"""Members named in the error, the largest first."""


class SharedLedger(Ledger):
    """Counts one client, and is stopped by the budget of all.

    Args:
        member: The client's place in the fleet.
    """

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member
        self._aside = dict(NOTHING)  # set aside in the store for this client
        self._limits: Amounts = {}
        self._fleet: Amounts = NOTHING  # used or set aside by all, as far as is known
        self._members = 1

    def reset(self) -> None:
        """Count from nothing, as in a forked child: what its parent spent is not its own."""
        self._used, self._taken, self._aside = Account(), Account(), dict(NOTHING)

    def balance(self, grant: Grant) -> None:
        """Bring what is set aside in the store up to date; on the thread that reports.

        Raises:
            StoreUnreachableError: The store does not answer.
        """
        member = self._member
        with self._lock:
            self._limits, self._members = grant.amounts("limit"), grant.members
            self._fleet = NOTHING | grant.amounts("taken")
            # The rest is checked here; this one makes a model without a price an error.
            self.budget = Budget(cost=self._limits.get("cost"))
            if not grant.known:
                # New, forgotten, or all is lost: then what was spent is told again.
                record = member.store.look(member.group)
                self._aside = NOTHING | dict(record.spend.get(member.id, {}) if record else {})
            in_use, change = _amounts(self._taken.tokens, self._taken.cost), {}
            for kind in KINDS:
                left = self._aside[kind] - in_use[kind]
                keep = self._share(kind) / BLOCK_PART if kind in self._limits else 0.0
                if not 0 <= left <= keep:
                    change[kind] = (keep if left > keep else 0.0) - left
            if change:
                self._take(change, change, check=False)

    def _check(self, would: Account, more: Tokens, cost: float, operation: str) -> None:
        for kind in self._limits:
            if _amount(kind, would.tokens, would.cost) > self._aside[kind] and (
                _amount(kind, more, cost)
            ):
                self._set_aside(_amounts(would.tokens, would.cost), _amounts(more, cost), operation)
                return

    def _set_aside(self, would: Amounts, need: Amounts, operation: str) -> None:
        """Get a block from the store, or fail as the budget demands."""
        block = {
            kind: max(amount, min(amount * BLOCK_CALLS, self._share(kind) / BLOCK_PART))
            if kind in self._limits
            else amount
            for kind, amount in need.items()
        }
        member, spend = self._member, {}
        try:
            if member.is_cut_off:
                raise StoreUnreachableError
            if self._take(need, block, check=True):
                return
            record = member.store.look(member.group)
            spend = dict(record.spend) if record is not None else {}
        except StoreUnreachableError:
            # Nobody takes more than its share of what was left: together they stay within it.
            if all(
                not need[kind] or would[kind] <= self._aside[kind] + self._share(kind)
                for kind in self._limits
            ):
                return
        raise self._exceeded(need, spend).with_context(operation=operation or None)

    def _take(self, need: Amounts, want: Amounts, *, check: bool) -> bool:
        member = self._member
        got = member.store.take(member.group, member.id, need, want, check=check)
        if got is not None:
            self._aside = {kind: self._aside[kind] + got.get(kind, 0) for kind in KINDS}
            self._fleet = {kind: self._fleet[kind] + got.get(kind, 0) for kind in KINDS}
        return got is not None

    def _share(self, kind: str) -> float:
        """An equal share of what is left of the budget, as far as is known."""
        return max(0.0, self._limits[kind] - self._fleet[kind]) / self._members

    def _exceeded(self, need: Amounts, spend: Mapping[str, Amounts]) -> BudgetExceededError:
        total = self._fleet
        if spend:
            total = {kind: sum(each[kind] for each in spend.values()) for kind in KINDS}
        over = [kind for kind, most in self._limits.items() if need[kind] + total[kind] > most]
        kind = (over or list(self._limits))[0]
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        what = unit if kind in ("tokens", "cost") else f"{unit} tokens"
        shares = sorted(((each[kind], name) for name, each in spend.items()), reverse=True)
        who = ", ".join(f"{name} {amount:,.6g}" for amount, name in shares[:NAMED])
        more = f" and {len(shares) - NAMED} more" if len(shares) > NAMED else ""
        return BudgetExceededError(
            f"The fleet's budget of {self._limits[kind]:,.6g} {what} would be exceeded: "
            f"{total[kind]:,.6g} used or set aside, and this call may use {need[kind]:,.6g}. "
            "Nothing was sent. "
            + (
                f"Spent by: {who}{more}."
                if spend
                else "Its store does not answer, and this client has used its share."
            )
        )


def _amount(kind: str, tokens: Tokens, cost: float) -> float:
    if kind == "cost":
        return cost
    return tokens.total if kind == "tokens" else getattr(tokens, kind)


def _amounts(tokens: Tokens, cost: float) -> dict[str, float]:
    return {kind: _amount(kind, tokens, cost) for kind in KINDS}
