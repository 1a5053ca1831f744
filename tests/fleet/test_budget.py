"""One budget for all members."""

import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from fleet.conftest import lose, overwrite
from fleet.test_members import Work, fleet_of, member_of

from tinker_ext.errors import BudgetExceededError, ConfigurationError
from tinker_ext.fleet import Member
from tinker_ext.fleet.state import KINDS
from tinker_ext.fleet.store import FILE
from tinker_ext.ledger import Budget, Ledger, Prices, Tokens

PRICES = Prices({"*": {"prefill": 1.0, "sample": 4.0, "train": 2.0}}, "EUR")


@pytest.fixture
def ledgers(address):
    """Makes ledgers of members of one fleet."""
    made = []

    def make(count, budget=None, prices=None):
        for _ in range(count):
            member = member_of(address, Work())
            made.append(member)
            member.join()
            member.share(Ledger(budget, prices))
        return [member.ledger for member in made]

    yield make
    for member in made:
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


def test_threads_of_one_client_stop_at_the_budget_together(ledgers):
    """M49: what one asked for may be less than the others have used when it is answered."""
    made = ledgers(2, Budget(tokens=10_000))
    spend_all(made * 8, Tokens(sample=7))
    assert 10_000 - 2 * 7 <= sum(ledger.used.total for ledger in made) <= 10_000


def test_what_a_report_gives_back_is_asked_for_again(ledgers, monkeypatch):
    """M49: a report between the grant of the last tokens and their use is not the budget's end."""
    (ledger,) = ledgers(1, Budget(tokens=100))
    sync, between = Member.sync, []

    def reporting(member, need=None, **options):
        fleet = sync(member, need, **options)
        if need and not between and ledger.used.total == 90:
            between.append(sync(member))
        return fleet

    monkeypatch.setattr(Member, "sync", reporting)
    for _ in range(10):
        ledger.hold(Tokens(sample=10)).settle(Tokens(sample=10))
    assert between
    assert ledger.used.total == 100
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(sample=1))


def test_an_ask_takes_nothing_back_that_is_in_use(ledgers):
    """M49: it was decided before another thread used more."""
    one, two = ledgers(2, Budget(tokens=1000))
    one.hold(Tokens(sample=100))
    assert one._member.sync(dict.fromkeys(KINDS, 10.0)) is not None
    with pytest.raises(BudgetExceededError):
        two.hold(Tokens(sample=901))


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


def test_who_leaves_gives_the_rest_of_its_block_back(ledgers):
    """M49: else workers that come and go would use up a budget with next to nothing."""
    one, two = ledgers(2, Budget(tokens=1000))
    one.hold(Tokens(sample=3)).settle(Tokens(sample=2))
    under_way = one.hold(Tokens(sample=8))
    one._member.leave()
    with pytest.raises(BudgetExceededError, match=f"{one._member.id} 10"):
        two.hold(Tokens(sample=991))
    two.hold(Tokens(sample=990)).release()
    under_way.release()


def test_most_calls_are_checked_without_the_store(ledgers):
    """M49: a block serves many calls."""
    ledger = ledgers(1, Budget(tokens=10**9))[0]
    asked = []
    report = ledger._member.store.report
    ledger._member.store.report = lambda *a: asked.append(a[1]["need"]) or report(*a)
    for _ in range(1920):
        ledger.hold(Tokens(sample=10)).settle(Tokens(sample=10))
    assert sum(map(bool, asked)) <= 1920 / 64 + 20


def test_without_its_store_a_member_uses_its_share_and_no_more(ledgers, monkeypatch):
    """M49: all members together stay within the budget though none can ask."""
    made = ledgers(2, Budget(tokens=1000))
    for ledger in made:
        ledger._member.sync()

    def away(*_, **__):
        raise ConfigurationError("away")

    for ledger in made:
        monkeypatch.setattr(ledger._member.store, "report", away)
    errors, calls = spend_all(made, Tokens(sample=10))
    assert calls * 10 <= 1000
    assert calls * 10 >= 900
    assert "does not answer" in str(errors[0])


def test_the_store_knows_what_was_used_though_calls_and_reports_come_at_once(ledgers):
    """M49: neither undoes what the other has told."""
    made = ledgers(2, Budget(tokens=3000))
    ended = threading.Event()

    def report():
        while not ended.is_set():
            for ledger in made:
                ledger._member.sync()

    thread = threading.Thread(target=report)
    thread.start()
    spend_all(made * 2, Tokens(sample=10), used=Tokens(sample=7))
    ended.set()
    thread.join()
    for ledger in made:
        ledger._member.sync()
    found = fleet_of(made[0]._member)
    for ledger in made:
        rest = found.spend[ledger._member.id]["tokens"] - ledger.used.total
        assert 0 <= rest <= 10
        assert found.spend[ledger._member.id]["sample"] == ledger.used.sample
    total = sum(each["tokens"] for each in found.spend.values())
    assert total == pytest.approx(found.taken()["tokens"])
    assert total <= 3000


def test_spend_is_told_again_to_a_store_that_lost_it(ledgers, address):
    """M49: the budget survives the loss of the store as long as its members live."""
    ledger = ledgers(1, Budget(tokens=1000))[0]
    ledger.hold(Tokens(sample=600)).settle(Tokens(sample=600))
    member = ledger._member
    overwrite(address, None)
    member.sync()
    record = fleet_of(member)
    assert record.spend[member.id]["tokens"] >= 600
    assert record.limits["tokens"] == 1000
    with pytest.raises(BudgetExceededError):
        ledger.hold(Tokens(sample=500))


def test_a_store_that_lost_everything_learns_the_budget_from_any_member(ledgers, address):
    """M49: also from one that brought no budget, and before anything more is spent."""
    first, second = ledgers(1, Budget(tokens=1000))[0], ledgers(1)[1]
    first.hold(Tokens(sample=600)).settle(Tokens(sample=600))
    second._member.sync()
    lose(address)
    with pytest.raises(BudgetExceededError):
        second.hold(Tokens(sample=500))
    second._member.sync()
    newcomer = ledgers(1)[2]
    first._member.sync()
    with pytest.raises(BudgetExceededError):
        newcomer.hold(Tokens(sample=500))


@pytest.mark.parametrize("late", ["call", "report"])
def test_a_store_that_lost_everything_counts_members_that_have_not_reported(
    ledgers, address, monkeypatch, late
):
    """M49: who reports first knows what the others spent; they are not counted twice later."""
    monkeypatch.setattr(Member, "_start", lambda _: None)  # only the reports below
    made = ledgers(3, Budget(tokens=3000))
    for ledger in made:
        ledger._member.sync()
        ledger.hold(Tokens(sample=800)).settle(Tokens(sample=800))
        ledger._member.sync()
    gone = made.pop()._member
    gone.leave()
    for ledger in made * 2:
        ledger._member.sync()
    lose(address)
    first, second = made
    spend_all([first], Tokens(sample=10))
    if late == "report":
        second._member.sync()
    errors, _ = spend_all([second], Tokens(sample=10))
    assert "does not answer" not in str(errors[0])
    first._member.sync()
    spend_all(made, Tokens(sample=10))
    assert 2900 <= 800 + sum(ledger.used.total for ledger in made) <= 3000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_stay_within_the_budget(ledgers, address):
    """M49: a child asks the store from its first call on, and has nothing of its parent's."""
    ledger = ledgers(1, Budget(tokens=1000))[0]
    ledger.hold(Tokens(sample=10)).settle(Tokens(sample=10))
    ledger._member.sync()
    read, write = os.pipe()
    children = []
    for _ in range(3):
        children.append(os.fork())
        if children[-1] == 0:  # pragma: no cover - another process
            try:
                errors, _ = spend_all([ledger], Tokens(sample=10))
                wrong = "does not answer" in str(errors[0])
                os.write(write, f"{ledger.used.total} {int(wrong)}\n".encode())
            finally:
                os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        used, wrong = zip(*(map(int, line.split()) for line in pipe), strict=True)
    assert len(used) == 3
    assert sum(wrong) == 0
    assert 500 < sum(used) <= 990


def test_what_a_parent_holds_is_not_given_back_by_its_child(ledgers):
    """M49: calls of the parent fail in the child, which has nothing of theirs."""
    ledger = ledgers(1, Budget(tokens=1000))[0]
    hold = ledger.hold(Tokens(sample=400))
    ledger.reset()  # as in a forked child
    hold.release()
    assert ledger.told(keep=True)["has"]["tokens"] == 0
    hold = ledger.hold(Tokens(sample=300))
    hold.settle(Tokens(sample=200))
    assert ledger.used == Tokens(sample=200)


@pytest.mark.parametrize("most", [2**64, 10**30, 1e300, float("inf")])
def test_a_budget_larger_than_any_store_can_hold(ledgers, most):
    """M49: is one that nobody reaches."""
    one, two = ledgers(2, Budget(tokens=most))
    one.hold(Tokens(sample=10**9)).settle(Tokens(sample=10**9))
    two._member.sync()
    assert not two._member.is_cut_off


def test_a_call_does_not_wait_for_a_database_that_another_program_holds(tmp_path):
    """M49: it uses the member's share; a report waits longer, and the call not for the report."""
    member, ended = member_of(str(tmp_path), Work()), []
    member.sync()
    ledger = member.share(Ledger(Budget(tokens=1000)))
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    report = threading.Thread(target=lambda: (member.sync(), ended.append("report")))
    report.start()
    ledger.hold(Tokens(sample=10))
    ended.append("call")
    report.join()
    other.execute("ROLLBACK")
    other.close()
    member.leave()
    assert ended == ["call", "report"]


RESTARTED = """
import os, sys
os.getpid = lambda: 7
from fleet.test_members import Work, member_of
from tinker_ext.errors import BudgetExceededError
from tinker_ext.ledger import Ledger
from tinker_ext.ledger import Tokens

member = member_of(sys.argv[1], Work())
member.join()
ledger = member.share(Ledger())
for _ in range(int(sys.argv[2])):
    member.sync()
used = 0
try:
    for _ in range(int(sys.argv[3])):
        ledger.hold(Tokens(sample=10)).settle(Tokens(sample=10))
        used += 10
except BudgetExceededError:
    pass
print(used, flush=True)
os._exit(0)
"""


def test_a_worker_that_starts_again_with_its_old_process_id_does_not_reset_its_spend(
    ledgers, address
):
    """M49: a container that is restarted has the same host name and the same process id."""
    ledgers(1, Budget(tokens=1000))
    path = os.pathsep.join(filter(None, sys.path))
    used = 0
    for reports, calls in (("20", "40"), ("0", "100"), ("0", "100")):
        done = subprocess.run(
            [sys.executable, "-c", RESTARTED, address, reports, calls],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            check=True,
        )
        used += int(done.stdout)
    assert 400 < used <= 1000
