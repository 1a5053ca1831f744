"""The ledger: what is held, used and refused."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext.errors import BudgetExceededError, ConfigurationError
from tinker_ext.runlog import Budget, Ledger, Prices, Tokens

PRICES = Prices({"big": {"train": 4.0, "sample": 8.0}, "*": {"train": 1.0, "prefill": 0.5}})


@pytest.mark.parametrize(
    ("budget", "more"),
    [
        (Budget(tokens=10), Tokens(train=6, prefill=5)),
        (Budget(train=10), Tokens(train=11)),
        (Budget(prefill=10), Tokens(prefill=11)),
        (Budget(sample=10), Tokens(sample=11)),
        (Budget(train=0), Tokens(train=1)),
    ],
)
def test_a_call_that_could_exceed_a_limit_is_refused_and_holds_nothing(budget, more):
    """M34: the budget stop raises before the step that would exceed it."""
    ledger = Ledger(budget)
    with pytest.raises(BudgetExceededError, match="Nothing was sent"):
        ledger.hold(more)
    assert ledger.held == Tokens()


def test_exactly_the_budget_is_allowed_and_other_kinds_go_on():
    """M34: a limit stops what would exceed it and nothing else."""
    ledger = Ledger(Budget(train=10))
    ledger.hold(Tokens(train=10)).settle(Tokens(train=10))
    ledger.hold(Tokens(sample=1000))
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(train=1))


def test_what_a_call_does_not_use_is_given_back():
    """M34: a sample holds its longest form and pays for what came."""
    ledger = Ledger(Budget(sample=100))
    hold = ledger.hold(Tokens(prefill=5, sample=80))
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(sample=30))
    hold.settle(Tokens(prefill=5, sample=12))
    hold.settle(Tokens(sample=99))
    assert ledger.used == Tokens(prefill=5, sample=12)
    ledger.hold(Tokens(sample=88)).release()
    assert ledger.held == Tokens()


def test_money_needs_prices_and_uses_those_of_the_model():
    """M34: a budget of money is held by the price table."""
    with pytest.raises(ConfigurationError, match="price table"):
        Ledger(Budget(cost=1.0))
    ledger = Ledger(Budget(cost=5.0), PRICES)
    ledger.hold(Tokens(train=1_000_000), "big").settle(Tokens(train=1_000_000))
    assert ledger.cost == pytest.approx(4.0)
    with pytest.raises(BudgetExceededError, match="USD"):
        ledger.hold(Tokens(train=300_000), "big")
    ledger.hold(Tokens(train=300_000), "small")


def test_a_model_without_a_price_stops_a_budget_of_money_and_blanks_the_cost():
    """M34: an unknown price is never taken for zero."""
    only = Prices({"big": {"train": 4.0}})
    with pytest.raises(ConfigurationError, match="no prices for other"):
        Ledger(Budget(cost=5.0), only).hold(Tokens(train=1), "other")
    ledger = Ledger(None, only)
    ledger.hold(Tokens(train=1), "other").settle(Tokens(train=1))
    assert ledger.cost is None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30))
def test_used_and_held_never_exceed_the_budget(calls):
    """M34: whatever calls hold and use, the limit stands."""
    ledger = Ledger(Budget(tokens=100))
    holds = []
    for most, used in calls:
        try:
            holds.append((ledger.hold(Tokens(sample=most)), min(most, used)))
        except BudgetExceededError:
            assert (ledger.used + ledger.held).total + most > 100
        if len(holds) > 2:
            hold, spent = holds.pop(0)
            hold.settle(Tokens(sample=spent))
        assert (ledger.used + ledger.held).total <= 100


def test_threads_share_one_budget():
    """M34: two threads cannot both take the last tokens."""
    ledger = Ledger(Budget(train=50))
    refused = []

    def take():
        for _ in range(20):
            try:
                ledger.hold(Tokens(train=1)).settle(Tokens(train=1))
            except BudgetExceededError:
                refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.used.train == 50
    assert len(refused) == 50


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.toml", '[models."*"]\ntrain = 2\nprefill = 1.5\nsample = 3\n'),
        ("p.json", '{"models": {"*": {"train": 2, "prefill": 1.5, "sample": 3}}}'),
    ],
)
def test_price_tables_in_both_formats(tmp_path, name, text):
    """M34: the price table is a JSON or TOML file."""
    (tmp_path / name).write_text(text)
    table = Prices.load(tmp_path / name)
    assert table.cost(Tokens(2_000_000, 2_000_000, 1_000_000), "x") == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "no `models`"),
        ('{"models": {"m": {"train": "free"}}}', "train for 'm'"),
        ('{"models": {"m": {"tarin": 1}}}', "known are train"),
        ('{"models": {"m": {"train": -1}}}', "at least 0"),
        ('{"models": {"m": 3}}', "must be a table"),
    ],
)
def test_a_wrong_price_table_says_what_is_wrong(tmp_path, text, said):
    """M34: a mistake in the table is found when it is loaded."""
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        Prices.load(tmp_path / "p.json")


def test_a_missing_price_table_is_named(tmp_path):
    """M34: the error names the file."""
    with pytest.raises(ConfigurationError, match=r"gone\.toml"):
        Prices.load(tmp_path / "gone.toml")


@pytest.mark.parametrize("value", [-1, "much", True, float("nan")])
def test_a_budget_is_a_number(value):
    """M34: a wrong budget fails at once."""
    with pytest.raises(ConfigurationError, match="budget of train"):
        Budget(train=value)


def test_tokens_are_counted_by_kind():
    """M34: sums and differences keep training, prefill and sampling apart."""
    assert Tokens(5, 3, 2) - Tokens(1, 2, 2) == Tokens(4, 1, 0)
    assert Tokens(5, 3, 2) + Tokens(1, 2, 2) == Tokens(6, 5, 4)


def test_a_budget_can_be_changed_on_the_way():
    """M34: what was used before counts."""
    ledger = Ledger(Budget(tokens=10))
    ledger.hold(Tokens(train=10))
    ledger.budget = Budget(tokens=12)
    ledger.hold(Tokens(train=2))
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(train=1))
    with pytest.raises(ConfigurationError, match="needs a price table"):
        ledger.budget = Budget(cost=1.0)
    assert ledger.budget == Budget(tokens=12)
