"""Both stores take the same steps."""

import os
import random
import threading
import time

import pytest
from fleet.conftest import overwrite

from tinker_ext._version import __version__
from tinker_ext.errors import ConfigurationError
from tinker_ext.fleet import open_store, state
from tinker_ext.fleet.state import EARLIER, KINDS, MOST_LEFT, SILENT_SECONDS
from tinker_ext.fleet.store import Store

SERVER = ("http://s", "f")
NOTHING = dict.fromkeys(KINDS, 0.0)
USUAL = {"limits": {}, "known": {}, "need": None, "prices": {}, "base_url": "http://s"}
SAID = dict.fromkeys(("cap", "active", "held", "accepted", "pause"), 0)
SAID |= {"demand": 99, "refusal": -1, "window": 64, "version": __version__, "waiting": "idle"}


def step(store, name, has=None, **fields):
    """A report that does not plan unless it is the first; what the store says then."""
    given = {"new": False, "ttl": 60.0, "every": 1e6, "urgent": False, "said": SAID}
    given |= {"id": name, "has": {**NOTHING, **(has or {})}, **USUAL, **fields}
    return store.report(SERVER, given)


def take(store, name, has=None, known=None, limits=None, ttl=60.0, **need):
    """Ask for some of the budget besides what the member has; what it has then, or None."""
    told = {**NOTHING, "tokens": has or 0}
    fields = {"need": {**NOTHING, **need}, "known": known or {}, "limits": limits or {}}
    spent = step(store, name, told, ttl=ttl, **fields).spend[name]
    if spent == told:
        return None
    assert all(spent[kind] >= told[kind] + amount for kind, amount in need.items())
    return spent["tokens"]


def look(store):
    return store.look()[store.name_of(*SERVER)]


def share(store, name, **fields):
    """Permits that a member has after a report; None when it is not in the plan yet."""
    return step(store, name, **fields).plan.shares.get(name)


def spend(store):
    return {name: each["tokens"] for name, each in look(store).spend.items()}


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
    assert look(store).members == []
    assert share(store, "b", every=0.0) == 64


def test_leaving_gives_back_at_once(store):
    """M49."""
    step(store, "a", every=0.0)
    step(store, "a", ttl=0)
    assert look(store).members == []
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
    assert look(store).taken()["tokens"] == sum(found.values())


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
    assert take(store, "a", tokens=70, sample=70) == 70
    assert take(store, "b", tokens=31) is None
    assert take(store, "b", tokens=30) == 30
    assert spend(store) == {"a": 70, "b": 30}
    assert take(store, "b", has=30, sample=10**6) == 30  # not limited
    step(store, "a", has={"tokens": 40})
    assert take(store, "b", has=30, tokens=2) == 30 + 2 * (1 + 28 / 4 / 2 // 2)
    assert take(store, "b", has=60, tokens=1) is None
    step(store, "b", has={"tokens": 80})
    assert take(store, "b", has=80, train=5) == 80  # no more of what is used up
    found = step(store, "b", has={"tokens": 60})
    assert (found.limits["tokens"], found.taken()["tokens"]) == (100, 100)


def test_a_block_is_for_some_calls_and_less_than_a_part_of_what_is_left(store):
    """M49: so that the next calls need no step, and most of it can still be taken by others."""
    step(store, "a", limits={"tokens": 10**6})
    assert take(store, "a", tokens=10) == 65 * 10
    step(store, "a", has={"tokens": 10**6 - 100})
    assert take(store, "a", has=10**6 - 100, tokens=5) == 10**6 - 100 + 5 * (1 + 95 / 4 // 5)


def test_a_call_decided_before_a_report_of_its_own_client_is_decided_anew(
    redis_server, monkeypatch
):
    """M49: also when others took what that report gave back, so that the sum is what it was."""
    store, others = (open_store(empty_redis(redis_server)) for _ in "ab")
    store.open()
    others.open()
    step(others, "a", limits={"tokens": 100}, has={"tokens": 60}, ttl=20.0)
    assert take(others, "b", tokens=40) == 40
    decide = state.Fleet.report

    def decide_and_lose_time(*args):
        decide(*args)
        monkeypatch.undo()
        step(others, "a", has={"tokens": 30}, ttl=20.0)
        assert take(others, "b", has=40, tokens=30) == 70

    monkeypatch.setattr(state.Fleet, "report", decide_and_lose_time)
    assert take(store, "a", has=30, tokens=30) is None
    assert spend(others) == {"a": 30, "b": 70}
    store.close()
    others.close()


def test_a_store_is_not_too_busy_for_many_that_begin_at_once(redis_server):
    """M49: each gets its turn; one that is told of a busy store would take it for a lost one."""
    address = empty_redis(redis_server)
    first = open_store(address)
    first.open()
    step(first, "first", limits={"tokens": 10**6})
    # Their work grows with the square of their number: hundreds are for `nox -s fleet`.
    members, takes = (150, 4) if "TINKER_FLEET_REDIS" in os.environ else (40, 2)
    together = threading.Barrier(members)
    failed = []

    def work(name):
        store = open_store(address)
        store.open()
        together.wait()
        try:
            for amount in range(1, takes + 1):
                assert take(store, name, has=amount - 1, tokens=1) >= amount
                step(store, name, has={"tokens": amount})
        except Exception as error:
            failed.append(error)
        store.close()

    threads = [threading.Thread(target=work, args=(f"m{n}",)) for n in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert look(first).taken()["tokens"] == members * takes
    first.close()


def test_the_smallest_budget_counts_and_a_new_run_begins_anew(store):
    """M49: spend belongs to a fleet while anybody is alive; who joins an empty one starts at 0."""
    prices = {"models": {"*": {"train": 1.5}}, "currency": "EUR", "date": None}
    step(store, "a", new=True, limits={"tokens": 100, "cost": 2.5}, prices=prices)
    step(store, "b", new=True, limits={"tokens": 80}, has={"tokens": 5})
    found = look(store)
    assert (found.limits, found.prices) == ({"tokens": 80, "cost": 2.5}, prices)
    for name in "ab":
        step(store, name, has={"tokens": 5}, ttl=0)
    assert spend(store) == {"a": 5, "b": 5}
    step(store, "c", new=True)
    found = look(store)
    assert (found.prices, found.limits) == ({}, {})
    assert spend(store) == {"c": 0}


def test_a_newcomer_does_not_reset_the_budget_of_members_that_are_silent_for_a_while():
    """M49: their store was away, or their machine suspended, for longer than their leases."""
    fleet = state.Fleet(9000.0)
    given = {"ttl": 5.0, "every": 1.0, "urgent": False, "said": SAID, **USUAL}
    given |= {"limits": {"tokens": 100}, "has": {**NOTHING, "tokens": 70}}
    fleet.report(given | {"id": "silent", "new": True})
    fleet.now += 30.0
    fleet.report(given | {"id": "next", "new": True, "limits": {}, "has": NOTHING})
    assert (fleet.limits, fleet.taken()["tokens"]) == ({"tokens": 100}, 70)
    fleet.now += 5.0 + SILENT_SECONDS + 1.0  # nobody came back
    fleet.report(given | {"id": "new run", "new": True, "limits": {}, "has": NOTHING})
    assert (fleet.limits, fleet.taken()["tokens"]) == ({}, 0)


def test_a_run_is_over_when_its_first_member_leaves_and_its_workers_are_ended_without_leaving():
    """M49: as workers of multiprocessing are; who starts it again soon has the whole budget."""
    fleet = state.Fleet(9000.0)
    given = {"every": 1.0, "urgent": False, "said": SAID, **USUAL}
    given |= {"limits": {"tokens": 100}, "has": {**NOTHING, "tokens": 45}, "ttl": 5.0, "new": False}
    fleet.report(given | {"id": "main", "new": True})
    fleet.report(given | {"id": "worker"})
    fleet.report(given | {"id": "main", "ttl": 0})
    fleet.now += 1.0
    fleet.report(given | {"id": "worker"})
    fleet.now += 4.0
    fleet.report(given | {"id": "early", "new": True, "has": NOTHING})
    assert fleet.taken()["tokens"] == 90  # the worker's lease has not ended
    fleet.report(given | {"id": "early", "ttl": 0, "has": NOTHING})
    fleet.now += 2.0
    fleet.report(given | {"id": "again", "new": True, "has": NOTHING})
    assert fleet.taken()["tokens"] == 0


def test_a_store_that_lost_everything_counts_what_any_member_knows(store):
    """M49: the most that one of them has read, and what each has taken since then."""
    known = {name: {**NOTHING, "tokens": n} for name, n in (("a", 380), ("b", 450), ("gone", 50))}
    told = {"limits": {"tokens": 1000}, "has": 400, "known": known}
    assert take(store, "a", tokens=101, **told) is None
    assert take(store, "a", tokens=90, has=400) == 490
    assert spend(store) == {"a": 490, "b": 450, "gone": 50}
    known |= {"a": {**NOTHING, "tokens": 470}, "gone": {**NOTHING, "tokens": 55}}
    step(store, "a", has={"tokens": 480})
    found = step(store, "c", has={"tokens": 1}, known=known)
    assert found.taken()["tokens"] == 480 + 450 + 55 + 1
    found = step(store, "b", has={"tokens": 440}, known=known)  # what it told itself counts
    assert found.taken()["tokens"] == 480 + 440 + 55 + 1


def test_both_stores_decide_alike(tmp_path, redis_server):
    """M49: a step is one on both: 500 random ones get equal answers and leave the same behind."""
    stores = [open_store(str(tmp_path / "f")), open_store(empty_redis(redis_server))]
    rng, now = random.Random(7), 1e9

    def at_once(step):
        """Both have their own clocks, and what is over goes round with the time."""
        return lambda fleet, change: step(fleet, lambda _, *kept: change(now, *kept))

    for store in stores:
        store.open()
        store._step = at_once(store._step)
    for _ in range(500):
        now += rng.choice([0.01, 0.3, 5.0])
        has, need = ({k: rng.choice([0, 1, 25.5, 700]) for k in KINDS} for _ in range(2))
        fields = {"new": rng.random() < 0.3, "every": rng.choice([0.0, 1e6])}
        fields |= {"ttl": rng.choice([0, 60.0]), "urgent": rng.random() < 0.2}
        fields |= {"limits": rng.choice([{}, {"tokens": 900, "cost": 50.5}])}
        fields |= {"need": rng.choice([None, need])}
        fields |= {"known": {rng.choice("abcz"): {**NOTHING, "tokens": rng.randrange(900)}}}
        name = rng.choice("abcdef")
        one, other = (step(each, name, has, **fields) for each in stores)
        assert one.spend == other.spend, fields
        assert one.members == other.members
        assert one.plan == other.plan
        assert one.limits == other.limits, fields
    assert look(store).spend == other.spend
    for store in stores:
        store.close()


def test_names_in_a_store_reveal_nothing():
    """M49: two stores name the same server and credential differently."""
    stores = Store(""), Store("")
    stores[0].salt, stores[1].salt = "1", "2"
    one, other = (store.name_of("http://s", "finger") for store in stores)
    assert one != other
    assert "finger" not in one


def test_a_clock_that_was_set_back_does_not_stop_the_fleet(tmp_path):
    """M49: times that lie far ahead in the store are not waited for."""
    store = open_store(str(tmp_path))
    store.open()
    before = step(store, "a")
    before.next = time.time() + 7200
    overwrite(str(tmp_path), before.text())
    assert step(store, "a", every=1.0).plan.number > before.plan.number
    store.close()


def test_a_clock_that_was_set_back_does_not_lengthen_the_lease_of_one_that_was_killed():
    """M49: who is alive reports again; the other one's permits are free after a while."""
    fleet = state.Fleet(9000.0)
    given = {"new": False, "ttl": 5.0, "every": 1.0, "urgent": False, "said": SAID}
    given |= {"has": NOTHING, **USUAL}
    for name in ("alive", "killed"):
        fleet.report(given | {"id": name})
    shares = []
    for fleet.now in (100.0, 108.0, 110.0):  # an hour and more before
        fleet.report(given | {"id": "alive"})
        shares.append(list(fleet.plan.shares))
    assert shares == [["alive", "killed"], ["alive", "killed"], ["alive"]]


def test_a_clock_that_was_set_back_does_not_pause_the_fleet_or_stop_its_plans():
    """M49: what was written before it says nothing about the time now; who joins gets permits."""
    fleet = state.Fleet(9000.0)
    given = {"new": False, "ttl": 5.0, "every": 0.25, "urgent": False, "has": NOTHING, **USUAL}
    fleet.report(given | {"id": "old", "said": SAID | {"pause": 30.0}})
    assert fleet.plan.pause == 9030.0
    fleet.now = 100.0
    for _ in range(40):
        for name in ("old", "new"):
            said = SAID | {"cap": fleet.plan.shares.get(name, 0)}
            fleet.report(given | {"id": name, "said": said})
        fleet.now += 0.25
    assert fleet.plan.pause < fleet.now
    assert fleet.plan.shares == {"new": 32, "old": 32}


def test_a_step_within_a_step_of_its_thread_fails_and_does_not_wait_for_ever(tmp_path, monkeypatch):
    """M49: a client that is forgotten may leave while another client of its process reports."""
    monkeypatch.setattr("tinker_ext.fleet.store.BUSY_SECONDS", 0.1)
    store, other, failed = open_store(str(tmp_path)), open_store(str(tmp_path)), []
    store.open()
    other.open()

    def be_interrupted(now, salt, text):
        with pytest.raises(ConfigurationError, match="locked") as caught:
            step(other, "forgotten", ttl=0)
        failed.append(caught.value)
        return state.Fleet(now)

    thread = threading.Thread(target=store._step, args=("another", be_interrupted), daemon=True)
    thread.start()
    thread.join(60)
    assert len(failed) == 1
    step(other, "goes on")
    assert [member["id"] for member in look(other).members] == ["goes on"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_in_the_middle_of_a_step_can_use_the_store(tmp_path):
    """M49: it does not wait for the lock of a step that its parent goes on with."""
    store, inside = open_store(str(tmp_path)), threading.Event()
    store.open()

    def lose_time(now, salt, text):
        inside.set()
        time.sleep(0.3)
        return state.Fleet(now)

    thread = threading.Thread(target=store._step, args=("another", lose_time))
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
    assert [member["id"] for member in look(store).members] == ["child"]
