"""One budget for all members."""

import threading

import pytest
from fleet.test_members import Work

from tinker_ext.errors import BudgetExceededError, ConfigurationError
from tinker_ext.fleet.member import Member
from tinker_ext.fleet.store import StoreUnreachableError
from tinker_ext.observe.ledger import Budget, Ledger
from tinker_ext.observe.prices import Prices
from tinker_ext.types.tokens import Tokens

PRICES = Prices({"*": {"prefill": 1.0, "sample": 4.0, "train": 2.0}}, "EUR")


@pytest.fixture
def ledgers(address):
    """Makes ledgers of members of one fleet."""
    made = []

    def make(count, budget=None, prices=None):
        for _ in range(count):
            member = Member(address, Work(), ("http://s", "f"))
            member.join()
            made.append((member, member.share(Ledger(budget, prices))))
        return [ledger for _, ledger in made]

    yield make
    for member, _ in made:
        member.leave()


def spend_all(ledgers, tokens, used=None):
    """Every ledger in a thread of its own until the budget stops it; the errors."""
    errors, calls = [], []

    def work(ledger):
        while True:
            try:
                hold = ledger.hold(tokens, "m", "asample")
            except BudgetExceededError as error:
                errors.append(error)
                return
            hold.settle(used or tokens)
            calls.append(1)

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors, len(calls)


def test_all_members_together_stop_at_the_budget(ledgers):
    """M49: never above it, and at most one block below it."""
    made = ledgers(4, Budget(tokens=10_000))
    errors, calls = spend_all(made, Tokens(prefill=3, sample=4))
    assert len(errors) == 4
    used = sum(ledger.used.total for ledger in made)
    assert used == calls * 7
    # One block: what a call needs, for each member.
    assert 10_000 - 4 * 7 <= used <= 10_000


def test_the_error_says_who_spent_what(ledgers):
    """M49."""
    made = ledgers(2, Budget(tokens=1000))
    made[0].hold(Tokens(sample=900)).settle(Tokens(sample=900))
    with pytest.raises(BudgetExceededError) as caught:
        made[1].hold(Tokens(sample=200), operation="asample")
    text = str(caught.value)
    assert "fleet's budget of 1,000 tokens" in text
    assert f"{made[0]._member.id} 900" in text
    assert "this call may use 200" in text
    assert "Nothing was sent" in text


def test_members_without_a_budget_are_held_to_that_of_the_fleet(ledgers):
    """M49: a worker that came with a pickled client brings no budget of its own."""
    first = ledgers(1, Budget(sample=100))[0]
    worker = ledgers(1)[1]
    first.hold(Tokens(sample=80)).settle(Tokens(sample=80))
    with pytest.raises(BudgetExceededError):
        worker.hold(Tokens(sample=30))
    worker.hold(Tokens(train=10**6)).release()  # another kind


def test_a_budget_of_money_counts_at_the_prices_of_the_fleet(ledgers):
    """M49."""
    made = ledgers(2, Budget(cost=0.001), PRICES)
    errors, _ = spend_all(made, Tokens(prefill=10, sample=10))
    used = sum(ledger.cost or 0 for ledger in made)
    assert 0.001 - 2 * 0.00005 <= used <= 0.001 + 1e-12
    assert "EUR" in str(errors[0])


def test_a_budget_of_money_needs_prices(ledgers):
    """M49: the same error as without a fleet."""
    with pytest.raises(ConfigurationError, match="price table"):
        ledgers(1, Budget(cost=1.0))


def test_what_a_call_did_not_use_is_free_again(ledgers):
    """M49: a hold of the most a call may use becomes what it did use."""
    made = ledgers(2, Budget(tokens=1000))
    _, calls = spend_all(made, Tokens(sample=50), used=Tokens(sample=5))
    assert calls >= (1000 - 2 * 50) / 5 - 20


def test_most_calls_are_checked_without_the_store(ledgers):
    """M49: a block serves many calls."""
    ledger = ledgers(1, Budget(tokens=10**9))[0]
    takes = []
    take = ledger._member.store.take
    ledger._member.store.take = lambda *a, **k: takes.append(1) or take(*a, **k)
    for _ in range(1920):
        ledger.hold(Tokens(sample=10)).settle(Tokens(sample=10))
    assert len(takes) <= 1920 / 64 + 20


def test_without_its_store_a_member_uses_its_share_and_no_more(ledgers, monkeypatch):
    """M49: all members together stay within the budget though none can ask."""
    made = ledgers(2, Budget(tokens=1000))
    for ledger in made:
        ledger._member.sync()

    def away(*_, **__):
        raise StoreUnreachableError("away")

    for ledger in made:
        for step in ("take", "sync", "look"):
            monkeypatch.setattr(ledger._member.store, step, away)
    errors, calls = spend_all(made, Tokens(sample=10))
    assert calls * 10 <= 1000
    assert calls * 10 >= 900
    assert "does not answer" in str(errors[0])


def test_spend_is_told_again_to_a_store_that_lost_it(ledgers, address):
    """M49: the budget survives the loss of the store as long as its members live."""
    ledger = ledgers(1, Budget(tokens=1000))[0]
    ledger.hold(Tokens(sample=600)).settle(Tokens(sample=600))
    member = ledger._member
    if address.startswith("redis"):
        member.store._client.flushall()
    else:
        with member.store._transaction() as run:
            run("DELETE FROM fleets")
    member.sync()
    record = member.store.look(member.group)
    assert record is not None
    assert record.spend[member.id]["tokens"] >= 600
    assert record.amounts("limit") == {"tokens": 1000}
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(sample=500))
