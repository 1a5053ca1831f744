"""Both stores take the same steps."""

import os
import random
import threading
import time

import pytest

from tinker_ext.fleet import open_store
from tinker_ext.fleet.steps import KINDS
from tinker_ext.fleet.store import Store

GROUP = "g"
NOTHING = dict.fromkeys(KINDS, 0.0)
USUAL = {"limits": {}, "known": {}, "was": {}}
SAID = dict.fromkeys(("cap", "active", "held", "accepted", "pause"), 0)
SAID |= {"demand": 99, "refusal": -1, "window": 64}
steps = iter(range(1, 10**9))


def report(name, have=None, **fields):
    usual = {"new": False, "ttl": 60.0, "every": 1e6, "urgent": False, "base_url": "http://s"}
    usual |= {"prices": {}, "said": SAID, "have": {**NOTHING, **(have or {})}}
    return {"id": name, "seq": next(steps), **USUAL, **usual, **fields}


def take(store, name, *asks, **fields):
    given = {"id": name, "seq": next(steps), "asks": [{**NOTHING, **ask} for ask in asks]}
    return store.run("take", GROUP, USUAL | given | fields)[0]


def step(store, name, **fields):
    """Time, turn and state."""
    return store.run("report", GROUP, report(name, **fields))


def share(store, name, **fields):
    """Permits that a member has after a report; None when it is not in the plan yet."""
    return store.report(GROUP, report(name, **fields)).plan.shares.get(name)


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
    first = store.report(GROUP, report("a"))
    assert (first.plan.shares, first.plan.size, first.members) == ({"a": 64}, 64, 1)
    assert share(store, "b") is None
    second = store.report(GROUP, report("a", every=1e5))
    assert (second.plan.shares["a"], second.members) == (32, 2)
    assert share(store, "b") == 0  # "a" has not read yet that it has less
    store.report(GROUP, report("a"))
    assert share(store, "b", every=1e4) == 32


def test_a_lease_ends_with_its_time(store):
    """M49: the permits of a member that stopped reporting are given to others."""
    store.report(GROUP, report("a", ttl=0.05, every=0.0))
    time.sleep(0.1)
    assert store.look(GROUP).members == ()
    assert share(store, "b", every=0.0) == 64


def test_leaving_gives_back_at_once(store):
    """M49."""
    store.report(GROUP, report("a", every=0.0))
    store.leave(GROUP, report("a"))
    assert share(store, "b", every=0.0) == 64


def test_one_member_plans_at_a_time(store):
    """M49: a plan begun earlier does not overwrite one begun later; what is urgent comes soon."""
    early, late = step(store, "a", every=0.0)[1], step(store, "b", every=60.0)[1]
    assert 0 < early < late
    for number in (early, late):
        plan = {"id": "a", "plan": {"number": number}, "left": 0}
        assert store.run("settle", GROUP, plan) == (number == late)
    _, turn, state = step(store, "a", every=100.0)
    assert (turn, state["plan"]) == (0, {"number": late})
    assert step(store, "a", every=100.0, urgent=True)[1] > late
    assert step(store, "b", every=100.0, urgent=True)[1] == 0


def test_the_budget_is_never_exceeded_and_the_rest_can_be_taken(store):
    """M49: the first ask there is room for, else nothing; what is told counts in any case."""
    step(store, "a", limits={"tokens": 100})
    assert take(store, "a", {"tokens": 60, "sample": 60}, {"tokens": 10}) == 1
    assert take(store, "b", {"tokens": 60}, {"tokens": 10}) == 2
    assert take(store, "b", {"tokens": 41}) == 0
    assert take(store, "b", {"tokens": 10, "sample": 10**6}) == 1  # not limited
    step(store, "a", have={"tokens": 30})
    assert take(store, "b", {"tokens": 70}) == 1
    assert spend(store) == {"a": 30, "b": 70}
    step(store, "b", have={"tokens": 80})
    assert take(store, "b", {"tokens": 80, "train": 5}) == 1  # no more of what is used up
    state = step(store, "b", have={"tokens": 70})[2]
    assert (state["limits"]["tokens"], state["taken"]["tokens"]) == (100, 100)


def test_what_was_told_earlier_does_not_undo_what_was_told_later(store):
    """M49: a report and a call may reach the store in another order than they were made."""
    late = report("a", have={"tokens": 10})
    assert take(store, "a", {"tokens": 50}) == 1
    store.run("report", GROUP, late)
    assert spend(store) == {"a": 50}


def test_a_call_decided_before_a_report_of_its_own_client_is_decided_anew(
    redis_server, monkeypatch
):
    """M49: also when others took what that report gave back, so that the sum is what it was."""
    store, others = (open_store(empty_redis(redis_server)) for _ in "ab")
    store.open()
    others.open()
    step(others, "a", limits={"tokens": 100}, have={"tokens": 60}, ttl=20.0)
    assert take(others, "b", {"tokens": 40}) == 1
    read = store._read

    def read_and_lose_time(*args):
        found = read(*args)
        monkeypatch.undo()
        step(others, "a", have={"tokens": 30}, ttl=20.0)
        assert take(others, "b", {"tokens": 70}) == 1
        return found

    monkeypatch.setattr(store, "_read", read_and_lose_time)
    assert take(store, "a", {"tokens": 60}) == 0
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
                assert take(store, name, {"tokens": amount}) == 1
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
    step(store, "b", new=True, limits={"tokens": 80}, have={"tokens": 5})
    state = store.look(GROUP).state
    assert state["limits"] == {"tokens": 80, "cost": 2.5}
    assert state["prices"] == prices
    for name in "ab":
        store.leave(GROUP, report(name, have={"tokens": 5}))
    assert spend(store) == {"a": 5, "b": 5}
    step(store, "c", new=True)
    state = store.look(GROUP).state
    assert (state["prices"], state["limits"]) == ({}, {})
    assert spend(store) == {"c": 0}


def test_a_store_that_lost_everything_counts_what_any_member_knows(store):
    """M49: the most that one of them has read, and what each has taken since then."""
    told = {"limits": {"tokens": 1000}, "was": {"tokens": 400}}
    assert take(store, "a", {"tokens": 510}, {"tokens": 490}, known={"tokens": 900}, **told) == 2
    assert store.look(GROUP).state["taken"]["tokens"] == 990
    told["was"] = {"tokens": 500}
    late = step(store, "b", known={"tokens": 905}, have={"tokens": 503}, **told)
    assert late[2]["taken"]["tokens"] == 905 + 90 + 3
    again = step(store, "b", known={"tokens": 998}, have={"tokens": 503}, **told)
    assert again[2]["taken"]["tokens"] == 998  # once
    assert take(store, "new", {"tokens": 3}, {"tokens": 2}) == 2


def test_both_stores_decide_alike(tmp_path, redis_server):
    """M49: a step is one on both: 500 random ones get equal answers and leave the same behind."""
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    stores = [open_store(str(tmp_path / "f")), open_store(redis_server.url)]
    rng, turn, joined = random.Random(7), 0, 0
    for store in stores:
        store.open()
    for _ in range(500):
        name, kind = rng.choice("abcdef"), rng.random()
        amounts = [{k: rng.choice([0, 1, 25.5, 700]) for k in KINDS} for _ in range(2)]
        if kind < 0.5:
            fields = {"new": rng.random() < 0.3, "every": rng.choice([0.0, 1e6])}
            fields |= {"ttl": rng.choice([0, 60.0]), "urgent": rng.random() < 0.2}
            fields |= {"last": rng.choice([None, joined])}
            fields |= {"limits": rng.choice([{}, {"tokens": 900, "cost": 50.5}])}
            what, given = "report", report(name, amounts[0], **fields)
        elif kind < 0.6:
            plan = {"number": turn, "shares": {other: rng.randrange(20) for other in "abcdef"}}
            what, given = "settle", {"id": name, "plan": plan, "left": rng.randrange(3)}
        else:
            what, given = "take", {"id": name, "seq": next(steps) - rng.choice([0, 3])}
            given |= {**USUAL, "asks": amounts}
        given |= rng.choice([{}, {"known": {"tokens": rng.randrange(900)}, "was": {"tokens": 25}}])
        answers = [store.run(what, GROUP, given) for store in stores]
        if what == "report":
            for _, _, state in answers:  # each has a clock of its own
                joined = state.get("joined", 0)
                state |= {"alive": state.get("alive", 0) > 0, "next": "next" in state}
            answers = [answer[1:] for answer in answers]
            turn = answers[0][0] or turn
        assert answers[0] == answers[1], (what, given)
    rows = [store.read(GROUP)[1]["rows"] for store in stores]
    for name in rows[0] | rows[1]:
        one, other = (each[name] for each in rows)
        assert (one["spend"], one["seq"]) == (other["spend"], other["seq"])
    for store in stores:
        store.close()


def test_names_in_a_store_reveal_nothing():
    """M49: two stores name the same server and credential differently."""
    stores = Store(), Store()
    stores[0].salt, stores[1].salt = "1", "2"
    one, other = (store.group_of("http://s", "finger") for store in stores)
    assert one != other
    assert "finger" not in one


def test_a_clock_that_was_set_back_does_not_stop_the_fleet(tmp_path):
    """M49: times that lie far ahead in the store are not waited for."""
    store = open_store(str(tmp_path))
    store.open()
    store.report(GROUP, report("a"))
    with store._transaction() as run:
        run("UPDATE fleets SET kept = json_set(kept, '$.state.next', unixepoch() + 7200)")
    assert step(store, "a", every=1.0)[1] > 0
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_in_the_middle_of_a_step_can_use_the_store(tmp_path):
    """M49: it does not wait for the lock of a step that its parent goes on with."""
    store, inside = open_store(str(tmp_path)), threading.Event()
    store.open()

    def step():
        with store._transaction():
            inside.set()
            time.sleep(0.3)

    thread = threading.Thread(target=step)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            store.run("report", GROUP, report("child"))
        except BaseException:
            os._exit(1)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert [member["id"] for member in store.look(GROUP).members] == ["child"]
