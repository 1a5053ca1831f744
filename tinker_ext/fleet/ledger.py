"""`SharedLedger`: a client's ledger whose budget is that of the whole fleet.

A part of the budget is set aside in the store for several calls at once, so that most calls are
checked without it. What all members have set aside never exceeds the budget; the part of one that
was killed counts as spent, since its requests may have been.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinker_ext.errors import BudgetExceededError
from tinker_ext.fleet.steps import KINDS, Amounts
from tinker_ext.fleet.store import StoreLostError, StoreUnreachableError
from tinker_ext.ledger import Account, Budget, Hold, Ledger, Prices, Tokens

if TYPE_CHECKING:
    from tinker_ext.fleet.member import Member
    from tinker_ext.fleet.store import FleetRecord

BLOCK_CALLS = 64
"""Calls like the present one that a block has room for."""
BLOCK_PART = 4
"""… but it is at most this part of an equal share of what is left, so it shrinks at the end."""
ATTEMPTS = 3
"""Times that a call may find its store without what it held."""
NAMED = 5
"""Members named in the error, the largest first."""


class SharedLedger(Ledger):
    """Counts one client, and is stopped by the budget of all."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member
        self._steps = 0
        self._aside = dict.fromkeys(KINDS, 0.0)  # set aside in the store for this client
        self.limits: Amounts = {}
        self._left: Amounts = {}  # an equal share of what is left of each, as far as is known
        self._known: Amounts = {}  # what all had taken when the store last counted this client …
        self._was: Amounts = {}  # … and the part of this client in it, or less
        self._told: dict[str, Any] = {}  # in the last report

    def reset(self) -> None:
        """Count from nothing, as in a forked child: what its parent has is not its own."""
        self._used, self._taken, self._aside = Account(), Account(), dict.fromkeys(KINDS, 0.0)
        self._left = self._known = self._was = {}

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most; see `Ledger.hold`."""
        self._member.enter()  # a forked child has nothing of its own before it has reported
        for _ in range(ATTEMPTS):
            try:
                return super().hold(tokens, model, operation)
            except StoreLostError:
                self._member.sync()  # which tells what was spent, before more is
        raise self._exceeded(_amounts(tokens, 0.0)).with_context(operation=operation or None)

    def told(self) -> dict[str, Any]:
        """What the store is to know: what is in use, and the rest of a block unless it is large."""
        with self._lock:
            for kind, used in _amounts(self._taken.tokens, self._taken.cost).items():
                rest = min(self._aside[kind] - used, self._left.get(kind, 0.0) / BLOCK_PART)
                self._aside[kind] = used + max(0.0, rest)
            # The store may do it though its reply is lost.
            self._was = {k: min(was, self._aside[k]) for k, was in self._was.items()}
            self._told = self._step(have=dict(self._aside))
            return self._told

    def _step(self, **given: Any) -> dict[str, Any]:
        """The next step, with what a store that lost it has to know again."""
        self._steps += 1
        about = {"limits": self.limits, "known": self._known, "was": self._was}
        return {"id": self._member.id, "seq": self._steps, **about, **given}

    def learn(self, state: Mapping[str, Any], members: int) -> None:
        """Take note of the budget of all, and of prices if it has no prices yet."""
        limits, taken = dict(state["limits"]), state["taken"]
        left = {k: max(0.0, most - taken.get(k, 0.0)) / members for k, most in limits.items()}
        with self._lock:
            if self._told["seq"] == self._steps:  # else a call has learned more
                self._known, self._was = _numbers(taken), self._told["have"]
            self.limits, self._left = limits, left
        if self.prices is None and state.get("prices"):
            self.prices = Prices(**state["prices"])
        # The rest is checked here; this one makes a model without a price an error.
        self.budget = Budget(cost=limits.get("cost"))

    def _check(self, would: Account, more: Tokens, cost: float, operation: str) -> None:
        for kind in self.limits:
            if _amount(kind, would.tokens, would.cost) > self._aside[kind] and (
                _amount(kind, more, cost)
            ):
                self._set_aside(_amounts(would.tokens, would.cost), _amounts(more, cost), operation)
                return

    def _set_aside(self, would: Amounts, need: Amounts, operation: str) -> None:
        """Get a block from the store, or fail as the budget demands."""
        least = {k: max(self._aside[k], would[k] if need[k] else 0.0) for k in KINDS}
        block = {
            k: least[k] + min(need[k] * BLOCK_CALLS, self._left.get(k, 0.0) / BLOCK_PART)
            for k in KINDS
        }
        member, asks, found = self._member, [block, least], None
        try:
            if member.is_cut_off:
                raise StoreUnreachableError
            with member.store.reading():
                given = self._step(asks=asks)
                number, taken = member.store.run("take", member.group, given)
                if number:
                    self._known, self._aside = _numbers(taken), asks[number - 1]
                    self._was = dict(self._aside)
                    return
            found = member.store.look(member.group)
        except StoreLostError:
            raise
        except StoreUnreachableError:
            # Together they stay within what was left, if all are cut off and have read the same.
            if all(least[k] <= self._aside[k] + self._left.get(k, 0.0) for k in self.limits):
                return
        raise self._exceeded(need, found).with_context(operation=operation or None)

    def _exceeded(self, need: Amounts, found: FleetRecord | None = None) -> BudgetExceededError:
        total, spend = (found.state["taken"], found.spend) if found else ({}, {})
        over = [k for k, most in self.limits.items() if need[k] + total.get(k, 0.0) > most]
        kind = (over or [kind for kind in self.limits if need[kind]])[0]
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        what = unit if kind in ("tokens", "cost") else f"{unit} tokens"
        shares = sorted(((each[kind], name) for name, each in spend.items()), reverse=True)
        who = ", ".join(f"{name} {amount:,.6g}" for amount, name in shares[:NAMED])
        more = f" and {len(shares) - NAMED} more" if len(shares) > NAMED else ""
        used = f"{total.get(kind, 0.0):,.6g} used or set aside, and this" if spend else "this"
        return BudgetExceededError(
            f"The fleet's budget of {self.limits[kind]:,.6g} {what} would be exceeded: {used} call "
            f"may use {need[kind]:,.6g}. Nothing was sent. "
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


def _numbers(amounts: Amounts) -> Amounts:
    return {kind: float(amount) for kind, amount in amounts.items()}


def _amounts(tokens: Tokens, cost: float) -> dict[str, float]:
    return {kind: _amount(kind, tokens, cost) for kind in KINDS}
