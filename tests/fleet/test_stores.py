"""Both stores take the same steps."""

import random
import time

import attrs
import pytest

from tinker_ext.fleet.store import KINDS, NOTHING, group_name, open_store

GROUP = "g"


def report(name, **fields):
    usual = {"active": 0, "claim": None, "window": 64.0, "ttl": 60.0, "every": 1e6, "pause": 0.0}
    usual |= {"urgent": False, "limits": {}, "texts": {}, "facts": "{}"}
    return {"id": name, **usual, **fields}


@pytest.fixture
def store(address):
    store = open_store(address)
    store.open()
    yield store
    store.close()


def test_leases_never_exceed_the_window(store):
    """M49: who joins late waits until others have given back."""
    first = store.sync(GROUP, report("a", every=0.0))
    assert (first.cap, first.numbers["window"], first.members, first.known) == (64, 64, 1, False)
    second = store.sync(GROUP, report("b"))
    assert (second.cap, second.target) == (0, 32)
    store.settle(GROUP, second.turn, {"size": 64.0, "round": 0}, {"a": 32})
    assert store.sync(GROUP, report("a", claim=0)).cap == 32
    assert store.sync(GROUP, report("b", claim=0)).cap == 32


def test_what_is_in_flight_stays_leased(store):
    """M49: a member that has more under way than its share keeps others from going beyond."""
    store.sync(GROUP, report("a", every=0.0))
    second = store.sync(GROUP, report("b"))
    store.settle(GROUP, second.turn, {"size": 64.0, "round": 0}, {"a": 32})
    assert store.sync(GROUP, report("a", claim=0, active=60)).cap == 32
    assert store.sync(GROUP, report("b", claim=0)).cap == 4


def test_a_lease_ends_with_its_time(store):
    """M49: the permits of a member that stopped reporting are given to others."""
    store.sync(GROUP, report("a", ttl=0.05))
    time.sleep(0.1)
    record = store.look(GROUP, sweep=True)
    assert record is not None
    assert record.members == ()
    assert store.sync(GROUP, report("b")).cap == 64


def test_leaving_gives_back_at_once(store):
    """M49."""
    store.sync(GROUP, report("a"))
    store.leave(GROUP, "a")
    assert store.sync(GROUP, report("b")).cap == 64


def test_a_pause_is_everybodys(store):
    """M49: a 429 of one member pauses all, and a shorter one later does not shorten it."""
    store.sync(GROUP, report("a", pause=5.0))
    assert 4.5 < store.sync(GROUP, report("b", pause=1.0)).pause <= 5.0


def test_one_member_plans_at_a_time(store):
    """M49: a plan begun earlier does not overwrite one begun later; what is urgent comes soon."""
    early = store.sync(GROUP, report("a", every=0.0)).turn
    late = store.sync(GROUP, report("b", every=60.0)).turn
    assert 0 < early < late
    store.settle(GROUP, early, {"size": 10.0, "round": 1}, {})
    assert store.sync(GROUP, report("a", claim=0)).numbers["window"] == 64
    store.settle(GROUP, late, {"size": 20.0, "round": 1}, {})
    got = store.sync(GROUP, report("a", claim=0, every=100.0))
    assert (got.numbers["window"], got.numbers["round"], got.turn) == (20, 1, 0)
    assert store.sync(GROUP, report("a", claim=0, every=100.0, urgent=True)).turn > late
    assert store.sync(GROUP, report("b", claim=0, every=100.0, urgent=True)).turn == 0


def test_a_store_that_lost_everything_hands_out_what_members_had(store):
    """M49: no stampede at its return: nobody gets more than it had until all have reported."""
    got = store.sync(GROUP, report("a", claim=7, window=80.0))
    assert (got.cap, got.numbers["window"], got.known) == (7, 80, False)
    assert store.sync(GROUP, report("b", claim=9, window=80.0)).cap == 9
    # A newcomer waits for the rest to report.
    assert store.sync(GROUP, report("c")).cap == 0


def test_the_budget_is_never_exceeded_and_the_rest_can_be_taken(store):
    """M49: `want` where there is room, else `need`, else nothing; unlimited kinds are counted."""
    store.sync(GROUP, report("a", limits={"tokens": 100}))
    ten, sixty = {"tokens": 10, "sample": 10}, {"tokens": 60, "sample": 60}
    assert store.take(GROUP, "a", ten, sixty, check=True) == sixty
    assert store.take(GROUP, "b", ten, sixty, check=True) == ten
    assert store.take(GROUP, "b", sixty, sixty, check=True) is None
    assert store.take(GROUP, "a", {"tokens": -30}, {"tokens": -30}, check=True) is not None
    assert store.take(GROUP, "b", sixty, sixty, check=True) == sixty
    record = store.look(GROUP)
    assert record is not None
    assert record.spend["a"] == {**NOTHING, "tokens": 30, "sample": 60}
    assert record.spend["b"] == {**NOTHING, "tokens": 70, "sample": 70}
    got = store.sync(GROUP, report("b", claim=0))
    assert (got.amounts("limit"), got.amounts("taken")["tokens"]) == ({"tokens": 100}, 100)


def test_the_smallest_budget_counts_and_a_new_run_begins_anew(store):
    """M49: spend belongs to a fleet while anybody is alive; who joins an empty one starts at 0."""
    prices = {"prices": '{"models":{}}'}
    store.sync(GROUP, report("a", limits={"tokens": 100, "cost": 2.5}, texts=prices))
    store.sync(GROUP, report("b", limits={"tokens": 80}))
    store.take(GROUP, "a", {"tokens": 5}, {"tokens": 5}, check=True)
    record = store.look(GROUP)
    assert record is not None
    assert record.amounts("limit") == {"tokens": 80, "cost": 2.5}
    assert record.texts["prices"] == prices["prices"]
    store.leave(GROUP, "a")
    store.leave(GROUP, "b")
    store.sync(GROUP, report("c"))
    record = store.look(GROUP)
    assert record is not None
    assert (record.amounts("limit"), "prices" in record.texts, record.spend) == ({}, False, {})


def test_both_stores_decide_alike(tmp_path, redis_server):
    """M49: the Lua and the Python form of every step give equal answers to 500 random ones."""
    import redis

    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    stores = [open_store(str(tmp_path / "f")), open_store(redis_server.url)]
    rng, turn = random.Random(7), 0
    for store in stores:
        store.open()
        store.sync(GROUP, report("z", limits={"tokens": 5000, "cost": 1.5}))
    for _ in range(500):
        name, kind = rng.choice("abcdef"), rng.random()
        if kind < 0.6:
            fields = {"active": rng.randrange(30), "claim": rng.choice([None, 3, 19])}
            fields |= {"every": 0.0, "window": rng.choice([64.0, 90.5])}
            said = report(name, **fields)
            answers = [attrs.asdict(store.sync(GROUP, said)) for store in stores]
            for answer in answers:
                own = {"pause", "next", "leased", "alive", "recovering"}
                answer["numbers"] = {k: v for k, v in answer["numbers"].items() if k not in own}
                del answer["now"]
            turn = answers[0]["turn"]
        elif kind < 0.7:
            window = {"size": rng.choice([3.0, 40.25, 64.0]), "round": rng.randrange(5)}
            targets = {other: rng.randrange(20) for other in "abcdef"}
            answers = [store.settle(GROUP, turn, window, targets) for store in stores]
        elif kind < 0.95:
            need = {kind: rng.choice([0, 1, 25.5]) for kind in KINDS}
            want = {kind: amount * 4 for kind, amount in need.items()}
            check = rng.random() < 0.9
            answers = [store.take(GROUP, name, need, want, check=check) for store in stores]
        else:
            answers = [store.leave(GROUP, name) for store in stores]
        assert answers[0] == answers[1]
    records = [store.look(GROUP) for store in stores]
    assert records[0] is not None
    assert records[1] is not None
    assert records[0].spend == records[1].spend
    assert records[0].amounts("limit") == records[1].amounts("limit")
    leases = [[(m["id"], m["lease"], m["target"]) for m in r.members] for r in records if r]
    assert leases[0] == leases[1]
    for store in stores:
        store.close()


def test_names_in_a_store_reveal_nothing():
    """M49: two stores name the same server and credential differently."""
    one, other = (group_name(salt, "http://s", "finger") for salt in (b"1", b"2"))
    assert one != other
    assert "finger" not in one


def test_a_clock_that_was_set_back_does_not_stop_the_fleet(tmp_path):
    """M49: times that lie far ahead in the store are not waited for."""
    store = open_store(str(tmp_path))
    store.open()
    ahead = {"size": 64.0, "round": 0}
    store.settle(GROUP, store.sync(GROUP, report("a")).turn, ahead, {})
    with store._transaction() as run:
        for name in ("pause", "next"):
            path = f"$.numbers.{name}"
            run("UPDATE fleets SET kept = json_set(kept, ?, unixepoch() + 7200)", (path,))
    got = store.sync(GROUP, report("a", claim=0, every=1.0))
    assert got.pause <= 60
    assert got.turn > 0
    store.close()
