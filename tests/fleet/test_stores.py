"""Both stores take the same steps."""

import os
import random
import threading
import time

import pytest

from tinker_ext.fleet import open_store, state
from tinker_ext.fleet.state import EARLIER, KINDS, MOST_LEFT
from tinker_ext.fleet.store import Store

GROUP = "g"
NOTHING = dict.fromkeys(KINDS, 0.0)
USUAL = {"limits": {}, "known": {}, "was": {}, "asks": [], "prices": {}, "base_url": "http://s"}
SAID = dict.fromkeys(("cap", "active", "held", "accepted", "pause"), 0)
SAID |= {"demand": 99, "refusal": -1, "window": 64}


def report(store, name, has=None, **fields):
    """A report that does not plan unless it is the first."""
    given = {"new": False, "ttl": 60.0, "every": 1e6, "urgent": False, "said": SAID}
    given |= {"id": name, "has": {**NOTHING, **(has or {})}, **USUAL, **fields}
    return store.report(GROUP, given)


def step(*args, **fields):
    """The same; what the store says then."""
    return report(*args, **fields)[1]


def take(store, name, *asks, has=None, **fields):
    """Ask for blocks of the budget, with what the member has."""
    has = has or store.look(GROUP).spend.get(name)
    return report(store, name, has, asks=[{**NOTHING, **ask} for ask in asks], **fields)[0]


def share(store, name, **fields):
    """Permits that a member has after a report; None when it is not in the plan yet."""
    return step(store, name, **fields).plan.shares.get(name)


def spend(store):
    return {name: each["tokens"] for name, each in store.look(GROUP).spend.items()}


def empty_redis(server):
    import redis

    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture
def store(address):
    store = open_store(address)
    store.open()
    yield store
    store.close()


def test_a_plan_is_made_by_who_reports_and_read_by_all(store):
    """M49: whoever reports first plans for everybody; the others read their share."""
    first = step(store, "a")
    assert (first.plan.shares, first.plan.size, len(first.members)) == ({"a": 64}, 64, 1)
    assert share(store, "b") is None
    second = step(store, "a", every=1e5)
    assert (second.plan.shares["a"], len(second.members)) == (32, 2)
    assert share(store, "b") == 0  # "a" has not read yet that it has less
    step(store, "a")
    assert share(store, "b", every=1e4) == 32


def test_a_lease_ends_with_its_time(store):
    """M49: the permits of a member that stopped reporting are given to others."""
    step(store, "a", ttl=0.05, every=0.0)
    time.sleep(0.1)
    assert store.look(GROUP).members == ()
    assert share(store, "b", every=0.0) == 64


def test_leaving_gives_back_at_once(store):
    """M49."""
    step(store, "a", every=0.0)
    step(store, "a", ttl=0)
    assert store.look(GROUP).members == ()
    assert share(store, "b", every=0.0) == 64


def test_workers_that_come_and_go_do_not_fill_the_store(store):
    """M49: of many that left their sum stays, so what all have spent is still known."""
    step(store, "stays", {"tokens": 1.0})
    for number in range(MOST_LEFT + 20):
        step(store, f"w{number}", {"tokens": 2.0})
        step(store, f"w{number}", {"tokens": 3.0}, ttl=0)
    found = spend(store)
    assert len(found) == MOST_LEFT + 2
    assert (found["stays"], found[f"w{MOST_LEFT + 19}"], found[EARLIER]) == (1.0, 3.0, 60.0)
    assert store.look(GROUP).state["taken"]["tokens"] == sum(found.values())


def test_one_plan_serves_all_for_a_while(store):
    """M49: who reports before the next one is due reads it; what is urgent comes soon, once."""
    early = step(store, "a", every=0.0).plan.number
    late = step(store, "b", every=60.0).plan.number
    assert 0 < early < late
    assert step(store, "a", every=100.0).plan.number == late
    soon = step(store, "a", every=100.0, urgent=True).plan.number
    assert soon > late
    assert step(store, "b", every=100.0, urgent=True).plan.number == soon


def test_the_budget_is_never_exceeded_and_the_rest_can_be_taken(store):
    """M49: the first ask there is room for, else nothing; what is told counts in any case."""
    step(store, "a", limits={"tokens": 100})
    assert take(store, "a", {"tokens": 60, "sample": 60}, {"tokens": 10}) == 1
    assert take(store, "b", {"tokens": 60}, {"tokens": 10}) == 2
    assert take(store, "b", {"tokens": 41}) == 0
    assert take(store, "b", {"tokens": 10, "sample": 10**6}) == 1  # not limited
    step(store, "a", has={"tokens": 30})
    assert take(store, "b", {"tokens": 70}) == 1
    assert spend(store) == {"a": 30, "b": 70}
    step(store, "b", has={"tokens": 80})
    assert take(store, "b", {"tokens": 80, "train": 5}) == 1  # no more of what is used up
    state = step(store, "b", has={"tokens": 70}).state
    assert (state["limits"]["tokens"], state["taken"]["tokens"]) == (100, 100)


def test_a_call_decided_before_a_report_of_its_own_client_is_decided_anew(
    redis_server, monkeypatch
):
    """M49: also when others took what that report gave back, so that the sum is what it was."""
    store, others = (open_store(empty_redis(redis_server)) for _ in "ab")
    store.open()
    others.open()
    step(others, "a", limits={"tokens": 100}, has={"tokens": 60}, ttl=20.0)
    assert take(others, "b", {"tokens": 40}) == 1
    read = store._engine.read

    def read_and_lose_time(*args):
        found = read(*args)
        monkeypatch.undo()
        step(others, "a", has={"tokens": 30}, ttl=20.0)
        assert take(others, "b", {"tokens": 70}) == 1
        return found

    monkeypatch.setattr(store._engine, "read", read_and_lose_time)
    assert take(store, "a", {"tokens": 60}, has={"tokens": 30}) == 0
    assert spend(others) == {"a": 30, "b": 70}
    store.close()
    others.close()


def test_a_store_is_not_too_busy_for_hundreds_that_begin_at_once(redis_server):
    """M49: each gets its turn; one that is told of a busy store would take it for a lost one."""
    address = empty_redis(redis_server)
    first = open_store(address)
    first.open()
    step(first, "first", limits={"tokens": 10**6})
    members, takes = 150, 4
    together = threading.Barrier(members)
    failed = []

    def work(name):
        store = open_store(address)
        store.open()
        together.wait()
        try:
            for amount in range(1, takes + 1):
                assert take(store, name, {"tokens": amount}, has={"tokens": amount - 1}) == 1
        except Exception as error:
            failed.append(error)
        store.close()

    threads = [threading.Thread(target=work, args=(f"m{n}",)) for n in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert first.look(GROUP).state["taken"]["tokens"] == members * takes
    first.close()


def test_the_smallest_budget_counts_and_a_new_run_begins_anew(store):
    """M49: spend belongs to a fleet while anybody is alive; who joins an empty one starts at 0."""
    prices = {"models": {"*": {"train": 1.5}}, "currency": "EUR", "date": None}
    step(store, "a", new=True, limits={"tokens": 100, "cost": 2.5}, prices=prices)
    step(store, "b", new=True, limits={"tokens": 80}, has={"tokens": 5})
    state = store.look(GROUP).state
    assert state["limits"] == {"tokens": 80, "cost": 2.5}
    assert state["prices"] == prices
    for name in "ab":
        step(store, name, has={"tokens": 5}, ttl=0)
    assert spend(store) == {"a": 5, "b": 5}
    step(store, "c", new=True)
    state = store.look(GROUP).state
    assert (state["prices"], state["limits"]) == ({}, {})
    assert spend(store) == {"c": 0}


def test_a_store_that_lost_everything_counts_what_any_member_knows(store):
    """M49: the most that one of them has read, and what each has taken since then."""
    told = {"limits": {"tokens": 1000}, "was": {"tokens": 400}, "has": {"tokens": 400}}
    assert take(store, "a", {"tokens": 510}, {"tokens": 490}, known={"tokens": 900}, **told) == 2
    assert store.look(GROUP).state["taken"]["tokens"] == 990
    told |= {"was": {"tokens": 500}, "has": {"tokens": 503}}
    late = step(store, "b", known={"tokens": 905}, **told)
    assert late.state["taken"]["tokens"] == 905 + 90 + 3
    again = step(store, "b", known={"tokens": 998}, **told)
    assert again.state["taken"]["tokens"] == 998  # once
    assert take(store, "new", {"tokens": 3}, {"tokens": 2}) == 2


def test_both_stores_decide_alike(tmp_path, redis_server):
    """M49: a step is one on both: 500 random ones get equal answers and leave the same behind."""
    stores = [open_store(str(tmp_path / "f")), open_store(empty_redis(redis_server))]
    rng = random.Random(7)
    for store in stores:
        store.open()
    for _ in range(500):
        has, *asks = [{k: rng.choice([0, 1, 25.5, 700]) for k in KINDS} for _ in range(3)]
        fields = {"new": rng.random() < 0.3, "every": rng.choice([0.0, 1e6])}
        fields |= {"ttl": rng.choice([0, 60.0]), "urgent": rng.random() < 0.2}
        fields |= {"limits": rng.choice([{}, {"tokens": 900, "cost": 50.5}])}
        fields |= {"asks": rng.choice([[], asks])}
        fields |= rng.choice([{}, {"known": {"tokens": rng.randrange(900)}, "was": {"tokens": 25}}])
        name = rng.choice("abcdef")
        (granted, one), (as_well, other) = (report(each, name, has, **fields) for each in stores)
        assert granted == as_well, fields
        assert one.spend == other.spend
        assert [each["id"] for each in one.members] == [each["id"] for each in other.members]
        if one.plan or other.plan:
            assert (one.plan.number, one.plan.shares) == (other.plan.number, other.plan.shares)
        for part in ("limits", "taken", "lost"):
            assert one.state[part] == other.state[part], fields
    assert store.look(GROUP).spend == other.spend
    for store in stores:
        store.close()


def test_names_in_a_store_reveal_nothing():
    """M49: two stores name the same server and credential differently."""
    stores = Store("", None), Store("", None)
    stores[0].salt, stores[1].salt = "1", "2"
    one, other = (store.group_of("http://s", "finger") for store in stores)
    assert one != other
    assert "finger" not in one


def test_a_clock_that_was_set_back_does_not_stop_the_fleet(tmp_path):
    """M49: times that lie far ahead in the store are not waited for."""
    store = open_store(str(tmp_path))
    store.open()
    before = step(store, "a").plan.number
    with store._engine._transaction(store.salt) as execute:
        execute("UPDATE fleets SET kept = json_set(kept, '$.next', unixepoch() + 7200)")
    assert step(store, "a", every=1.0).plan.number > before
    store.close()


def test_a_clock_that_was_set_back_does_not_lengthen_the_lease_of_one_that_was_killed():
    """M49: who is alive reports again; the other one's permits are free after a while."""
    kept = state.kept_in(None)
    given = {"new": False, "ttl": 5.0, "every": 1.0, "urgent": False, "said": SAID}
    given |= {"has": NOTHING, **USUAL}
    for name in ("alive", "killed"):
        state.report(kept, 9000.0, given | {"id": name})
    shares = []
    for now in (100.0, 158.0, 165.0):  # an hour and more before
        state.report(kept, now, given | {"id": "alive"})
        shares.append(list(kept["plan"]["shares"]))
    assert shares == [["alive", "killed"], ["alive", "killed"], ["alive"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_in_the_middle_of_a_step_can_use_the_store(tmp_path):
    """M49: it does not wait for the lock of a step that its parent goes on with."""
    store, inside = open_store(str(tmp_path)), threading.Event()
    store.open()

    def hold():
        with store._engine._transaction(store.salt):
            inside.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            step(store, "child")
        except BaseException:
            os._exit(1)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert [member["id"] for member in store.look(GROUP).members] == ["child"]
