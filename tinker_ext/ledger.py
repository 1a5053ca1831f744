"""`Ledger`: the tokens a run has used and holds, what they cost, and the budget no call may exceed.

A call holds what it may use at most before anything is sent; when it ends, the hold is replaced by
what it did use. Used and held tokens together never exceed the budget.

A price table, a JSON or TOML file, gives prices per million tokens, by base model; ``*`` stands for
every model that is not named. `docs/see-your-runs.md` has one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tinker_ext import forks
from tinker_ext.errors import BudgetExceededError, ConfigurationError

KINDS = ("train", "prefill", "sample")
PER_TOKENS = 1_000_000
ANY_MODEL = "*"


@attrs.frozen
class Tokens:
    """Token counts by the kinds a server bills apart.

    Attributes:
        train: Tokens of forward_backward.
        prefill: Tokens of prompts and of forward passes without gradient.
        sample: Tokens generated.

    Example:
        >>> Tokens(train=3) + Tokens(sample=2)
        Tokens(train=3, prefill=0, sample=2)
    """

    train: int = 0
    prefill: int = 0
    sample: int = 0

    @property
    def total(self) -> int:
        """All kinds together."""
        return self.train + self.prefill + self.sample

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.train + other.train, self.prefill + other.prefill, self.sample + other.sample
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.train - other.train, self.prefill - other.prefill, self.sample - other.sample
        )

    def __bool__(self) -> bool:
        return self.total != 0

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {"train": self.train, "prefill": self.prefill, "sample": self.sample}


@attrs.frozen
class Prices:
    """Prices per million tokens by model.

    Example:
        >>> table = Prices({"*": {"train": 2.0, "prefill": 1.0, "sample": 3.0}})
        >>> table.cost(Tokens(train=500_000), "any/model")
        1.0
    """

    models: Mapping[str, Mapping[str, float]]
    currency: str = "USD"
    date: str | None = None

    def __attrs_post_init__(self) -> None:
        for model, row in self.models.items():
            _check_prices(model, row)

    @classmethod
    def load(cls, path: str | Path) -> Prices:
        """Read a table from a ``.json`` or ``.toml`` file.

        Raises:
            ConfigurationError: The file cannot be read or is not a price table; says why.
        """
        import tomllib

        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise ConfigurationError(
                f"Cannot read the price table {path}: {error.strerror}."
            ) from None
        except ValueError as error:
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise ConfigurationError(
                f"The price table {path} is not valid {kind}: {error}."
            ) from None
        models = data.get("models") if isinstance(data, dict) else None
        if not isinstance(models, dict) or not models:
            raise ConfigurationError(
                f"The price table {path} has no `models`: name each model (or '*') with its "
                "prices of train, prefill and sample per million tokens."
            )
        date = data.get("date")
        return cls(models, str(data.get("currency", "USD")), None if date is None else str(date))

    def row(self, model: str | None) -> Mapping[str, float] | None:
        """Prices of a model, those of `*` when it is not listed, else None."""
        return self.models.get(model or ANY_MODEL, self.models.get(ANY_MODEL))

    def cost(self, tokens: Tokens, model: str | None) -> float | None:
        """What tokens cost on a model; None when the table does not know it."""
        row = self.row(model)
        if row is None:
            return None
        counts = tokens.to_dict()
        return sum(counts[kind] * row.get(kind, 0.0) for kind in KINDS) / PER_TOKENS


def _check_prices(model: str, row: Any) -> None:
    if not isinstance(row, Mapping):
        raise ConfigurationError(f"The prices of {model!r} must be a table, not {row!r}.")
    for kind, price in row.items():
        if kind not in KINDS:
            raise ConfigurationError(
                f"The prices of {model!r} name {kind!r}; known are {', '.join(KINDS)}."
            )
        if not _is_amount(price) or math.isinf(price):
            raise ConfigurationError(
                f"The price of {kind} for {model!r} must be a number of at least 0, not {price!r}."
            )


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _limit(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not _is_amount(value):
        raise ConfigurationError(
            f"The budget of {attribute.name} must be a number of at least 0, not {value!r}."
        )


@attrs.frozen(kw_only=True)
class Budget:
    """The most a run may use; a limit that is None does not stop anything.

    Attributes:
        tokens: Tokens of all kinds together.
        train: Tokens of forward_backward.
        prefill: Tokens of prompts and forward passes.
        sample: Tokens generated.
        cost: Money, by the price table.
    """

    tokens: int | None = attrs.field(default=None, validator=_limit)
    train: int | None = attrs.field(default=None, validator=_limit)
    prefill: int | None = attrs.field(default=None, validator=_limit)
    sample: int | None = attrs.field(default=None, validator=_limit)
    cost: float | None = attrs.field(default=None, validator=_limit)


@attrs.define  # a frozen one takes twice as long to make, and every sample makes three
class Account:
    """Tokens and their cost; `priced` unless one of them had no price."""

    tokens: Tokens = attrs.field(factory=Tokens)
    cost: float = 0.0
    priced: bool = True

    def plus(self, tokens: Tokens, cost: float | None) -> Account:
        """The sum of both."""
        return Account(
            self.tokens + tokens, self.cost + (cost or 0.0), self.priced and cost is not None
        )

    def amounts(self) -> dict[str, float]:
        """How much it is of all that a budget may limit."""
        return {"tokens": self.tokens.total, **self.tokens.to_dict(), "cost": self.cost}


class Ledger:
    """Counts tokens and money of one client; safe from any thread.

    Args:
        budget: What may not be exceeded.
        prices: What tokens cost; needed for a budget of money.

    Raises:
        ConfigurationError: A budget of money without prices.

    Example:
        >>> ledger = Ledger(Budget(train=100))
        >>> hold = ledger.hold(Tokens(train=80))
        >>> hold.settle(Tokens(train=80))
        >>> ledger.used.train
        80
        >>> try:
        ...     ledger.hold(Tokens(train=40))
        ... except BudgetExceededError as error:
        ...     print(error.message[:36])
        The budget of 100 train tokens would
    """

    def __init__(self, budget: Budget | None = None, prices: Prices | None = None) -> None:
        self.prices = prices
        self.limits: Mapping[str, Any]
        self.budget = budget or Budget()
        self._lock, self._life = forks.lock(), 0
        self.reset()

    def reset(self) -> None:
        """Count from nothing, as in a forked child with a budget of its own."""
        self._life += 1  # what is held now may end later, and is not given back then
        self._used = Account()
        self._taken = Account()  # used, or held by calls under way

    @property
    def budget(self) -> Budget:
        """What may not be exceeded."""
        return Budget(**self.limits)

    @budget.setter
    def budget(self, budget: Budget) -> None:
        if budget.cost is not None and self.prices is None:
            raise ConfigurationError(
                "A budget of money needs a price table: pass prices='prices.toml'."
            )
        self.limits = attrs.asdict(budget, filter=lambda _, value: value is not None)

    @property
    def used(self) -> Tokens:
        """Tokens of all calls that have ended."""
        return self._used.tokens

    @property
    def held(self) -> Tokens:
        """Tokens that calls under way may still use."""
        return self._taken.tokens - self._used.tokens

    @property
    def cost(self) -> float | None:
        """Money used; None without prices, also of one model."""
        used = self._used
        return used.cost if self.prices is not None and used.priced else None

    def totals(self) -> dict[str, int | float | None]:
        """What was used, as the run log writes it."""
        return {**self.used.to_dict(), "cost": self.cost}

    def terms(self) -> dict[str, Any]:
        """Return the budget and the currency, as the run log writes them."""
        return {"budget": dict(self.limits), "currency": self.prices and self.prices.currency}

    def hold(self, tokens: Tokens, model: str | None = None, operation: str = "") -> Hold:
        """Set aside what a call may use at most.

        Args:
            tokens: The most the call may use.
            model: Name of the base model, for its price.
            operation: For the error.

        Raises:
            BudgetExceededError: The call could exceed the budget; nothing is set aside.
            ConfigurationError: The budget is money and the model has no price.
        """
        hold = Hold(self, tokens, self._price(tokens, model), model, self._life)
        if kind := self._take(hold):
            raise BudgetExceededError(
                f"The budget of {self.limits[kind]:,} {self._unit(kind)} would be exceeded: "
                f"{self._taken.amounts()[kind]:,.6g} used or under way, and this call may use "
                f"{hold.amounts()[kind]:,.6g}. Nothing was sent."
            ).with_context(operation=operation or None)
        return hold

    def _price(self, tokens: Tokens, model: str | None) -> float | None:
        if self.prices is None:
            return None
        cost = self.prices.cost(tokens, model)
        if cost is None and tokens and "cost" in self.limits:
            raise ConfigurationError(
                f"The price table has no prices for {model or 'this model'}, so its cost cannot "
                "be held to the budget; add the model or '*' to the table."
            )
        return cost

    def _allowed(self) -> Mapping[str, float]:
        """The most that may be used and held; asked with the lock."""
        return self.limits

    def _take(self, hold: Hold) -> str | None:
        """Hold what a call may use, unless it would exceed a limit; returns which one."""
        with self._lock:
            would = self._taken.plus(hold.tokens, hold.cost)
            if allowed := self._allowed():
                total = would.amounts()
                for kind, most in allowed.items():
                    # A call that uses nothing of a kind cannot exceed its limit.
                    if total[kind] > most and hold.amounts()[kind]:
                        return kind
            self._taken = would
        return None

    def _unit(self, kind: str) -> str:
        unit = self.prices.currency if kind == "cost" and self.prices else kind
        return unit if kind in ("tokens", "cost") else f"{unit} tokens"

    def _settle(self, hold: Hold, used: Tokens) -> None:
        if hold._life != self._life:
            return
        cost = None if self.prices is None else self.prices.cost(used, hold.model)
        with self._lock:
            if used != hold.tokens or cost != hold.cost:
                less = (cost or 0.0) - (hold.cost or 0.0)
                self._taken = self._taken.plus(used - hold.tokens, less)
            if used:
                self._used = self._used.plus(used, cost)


@attrs.define(weakref_slot=False)
class Hold:
    """What one call may use; ended once, by `settle` or `release`."""

    _ledger: Ledger
    tokens: Tokens
    cost: float | None
    model: str | None
    _life: int  # of the ledger, which may begin to count anew meanwhile
    _open: bool = True

    def amounts(self) -> dict[str, float]:
        """How much it is of all that a budget may limit."""
        return Account(self.tokens, self.cost or 0.0).amounts()

    def settle(self, used: Tokens) -> None:
        """Replace the hold by what was used."""
        if self._open:
            self._open = False
            self._ledger._settle(self, used)

    def release(self) -> None:
        """Give everything back: nothing was used."""
        self.settle(Tokens())
