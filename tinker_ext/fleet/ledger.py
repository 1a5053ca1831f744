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
from tinker_ext.observe.ledger import Budget, Hold, Ledger
from tinker_ext.observe.prices import Prices
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
        prices: What tokens cost.
    """

    def __init__(self, member: Member, prices: Prices | None = None) -> None:
        super().__init__(Budget(), prices)
        self._member = member
        self._in_use, self._taken = dict(NOTHING), dict(NOTHING)
        self._ended = dict(NOTHING)
        self._priced = True
        self.version = 0
        """Changes with every step in the store, so that an older answer is known as such."""
        self._limits: Amounts = {}
        self._fleet: dict[str, float] = dict(NOTHING)
        self._members = 1

    @property
    def used(self) -> Tokens:
        """Tokens of all calls of this client that have ended."""
        return _tokens(self._ended)

    @property
    def held(self) -> Tokens:
        """Tokens that calls under way may still use."""
        with self._lock:
            return _tokens(self._in_use) - _tokens(self._ended)

    @property
    def cost(self) -> float | None:
        """Money this client used; None without prices, also of one model."""
        return self._ended["cost"] if self.prices is not None and self._priced else None

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most.

        Raises:
            BudgetExceededError: The call could exceed the budget of the fleet; says who spent it.
            ConfigurationError: The budget is money and the model has no price.
        """
        cost = self._price(tokens, model)
        need = _amounts(tokens, cost)
        in_use = self._in_use
        with self._lock:
            for kind in self._limits:
                amount = need.get(kind)
                if amount and in_use[kind] + amount > self._taken[kind]:
                    self._set_aside(need, operation)
                    break
            _add(in_use, need)
        return Hold(self, tokens, cost, model)

    def _settle(self, hold: Hold, used: Tokens) -> None:
        cost = None if self.prices is None else self.prices.cost(used, hold.model)
        spent, held = _amounts(used, cost), _amounts(hold.tokens, hold.cost)
        with self._lock:
            _add(self._ended, spent)
            _add(self._in_use, spent)
            _add(self._in_use, held, -1)
            self._priced &= cost is not None or not used

    def balance(self, grant: Grant, version: int) -> None:
        """Bring what is set aside in the store up to date.

        Args:
            grant: What the store said.
            version: `version` before it was asked.

        Raises:
            StoreUnreachableError: The store does not answer.
        """
        with self._lock:
            self._limits, self._members = grant.limits, grant.members
            self._fleet = dict(grant.taken)
            self.budget = Budget(cost=grant.limits.get("cost"))
            if version == self.version:
                # After a loss of the store this is nothing, and all of it is told again.
                self._taken = dict(grant.mine)
            change = {}
            for kind in KINDS:
                left = self._taken[kind] - self._in_use[kind]
                keep = self._share(kind) / BLOCK_PART if kind in self._limits else 0.0
                if left < 0 or left > keep:
                    change[kind] = (0.0 if left < 0 else keep) - left
            if any(change.values()):
                self._take(change, change, check=False)

    def _share(self, kind: str) -> float:
        """An equal share of what is left of the budget, as far as is known."""
        return max(0.0, self._limits[kind] - self._fleet[kind]) / self._members

    def _take(self, need: Amounts, want: Amounts, *, check: bool) -> bool:
        member = self._member
        got = member.store.take(member.group, member.id, need, want, check=check)
        if got is None:
            return False
        self.version += 1
        _add(self._taken, got)
        _add(self._fleet, got)
        return True

    def _set_aside(self, need: Amounts, operation: str) -> None:
        """Get a block from the store, or fail as the budget demands."""
        block = {
            kind: max(amount, min(amount * BLOCK_CALLS, self._share(kind) / BLOCK_PART))
            if kind in self._limits
            else amount
            for kind, amount in need.items()
        }
        member = self._member
        try:
            if member.is_cut_off:
                raise StoreUnreachableError
            if self._take(need, block, check=True):
                return
            record = member.store.look(member.group, sweep=False)
            spend = record.spend if record is not None else {}
        except StoreUnreachableError:
            # Nobody takes more than its share of what was left: together they stay within it.
            if all(
                self._in_use[kind] + need[kind] <= self._taken[kind] + self._share(kind)
                for kind in self._limits
                if kind in need
            ):
                return
            spend = {}
        raise self._exceeded(need, spend).with_context(operation=operation or None)

    def _exceeded(self, need: Amounts, spend: Mapping[str, Amounts]) -> BudgetExceededError:
        total = {kind: sum(each[kind] for each in spend.values()) for kind in KINDS}
        total = total if spend else self._fleet
        over = [k for k, most in self._limits.items() if need.get(k, 0) + total[k] > most]
        kind = (over or list(self._limits))[0]
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        what = unit if kind in ("tokens", "cost") else f"{unit} tokens"
        text = (
            f"The fleet's budget of {self._limits[kind]:,.6g} {what} would be exceeded: "
            f"{total[kind]:,.6g} used or set aside, and this call may use "
            f"{need.get(kind, 0):,.6g}. Nothing was sent."
        )
        if not spend:
            return BudgetExceededError(
                f"{text} Its store does not answer, and this client has used its share."
            )
        shares = sorted(((each[kind], name) for name, each in spend.items()), reverse=True)
        named = ", ".join(f"{name} {amount:,.6g}" for amount, name in shares[:NAMED])
        more = f" and {len(shares) - NAMED} more" if len(shares) > NAMED else ""
        return BudgetExceededError(f"{text} Spent by: {named}{more}.")


def _amounts(tokens: Tokens, cost: float | None) -> dict[str, float]:
    train, prefill, sample = tokens.train, tokens.prefill, tokens.sample
    amounts: dict[str, float] = {"tokens": train + prefill + sample}
    if train:
        amounts["train"] = train
    if prefill:
        amounts["prefill"] = prefill
    if sample:
        amounts["sample"] = sample
    if cost:
        amounts["cost"] = cost
    return amounts


def _add(total: dict[str, float], amounts: Amounts, times: int = 1) -> None:
    for kind, amount in amounts.items():
        total[kind] += times * amount


def _tokens(amounts: Amounts) -> Tokens:
    return Tokens(*(round(amounts[kind]) for kind in ("train", "prefill", "sample")))
