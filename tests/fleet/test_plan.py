"""How the window moves and how it is divided."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext.fleet.plan import PATIENCE, Plan, Row, lease_seconds, sync_seconds
from tinker_ext.fleet.plan import make_plan as plan_of


def make_plan(last, rows, shares, now, number):
    """The plan after one that gave these shares, and its own."""
    last.shares, last.number = shares, number - 1
    plan = plan_of(last, rows, now)
    return plan, plan.shares


def divide(window, demands, now=1.0):
    rows = [Row(str(i), now, active=min(d, 3), demand=d) for i, d in enumerate(demands)]
    last, shares = Plan(window, "hold", made=now), {}
    for number in range(1, 12):  # what some had is for others when it was read
        last, shares = make_plan(last, rows, shares, now, number)
        rows = [evolve(row, plan=number, active=0) for row in rows]
    return shares


@given(st.integers(1, 500), st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_no_more_is_given_than_there_is(window, demands):
    """M49: permits of all members together never exceed the window, and none is negative."""
    targets = divide(window, demands)
    assert sum(targets.values()) <= window
    assert all(target >= 0 for target in targets.values())


@given(st.integers(1, 500), st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_nobody_is_short_while_another_has_more(window, demands):
    """M49: a member whose need is not met has at least as much as every other, less one."""
    targets = divide(window, demands)
    for i, need in enumerate(demands):
        if targets[str(i)] < need:
            assert targets[str(i)] >= max(targets.values()) - 1


@given(st.integers(1, 300), st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_nothing_lies_idle_while_somebody_needs_it(window, demands):
    """M49: with more need than permits, all of them are given."""
    if sum(demands) >= window:
        assert sum(divide(window, demands).values()) == window


@pytest.mark.parametrize("size", [3, 10])
def test_permits_that_do_not_divide_go_round(size):
    """M49: over time, equal members are served equally although 10 permits, or 3, are for 7."""
    window, served = Plan(size, "hold", made=1.0), dict.fromkeys("abcdefg", 0)
    shares = dict.fromkeys(served, 0)
    for step in range(14 * 40):
        now = 1 + step * 0.25
        rows = [Row(name, now, step, n, n, 99) for name, n in shares.items()]
        window.since = now  # hold: the size is not what is looked at
        window, shares = make_plan(window, rows, shares, now, step + 1)
        for name, share in shares.items():
            served[name] += share
    assert max(served.values()) / min(served.values()) < 1.1


def run_against(limit, members=8, start=1.0, seconds=60.0, window=None):
    """A fleet that always wants more against a server that takes `limit`; one plan is 0.25 s."""
    window = window or Plan(made=start)
    shares, sizes, refused, now, paused = {}, [], 0, start, 0.0
    while now < start + seconds:
        total = sum(shares.values())
        over = total > limit and now >= paused
        refused += max(0, total - limit) if over else 0
        if over:
            paused = now + 1.0
        held = 0 if now < paused and not over else min(total, limit)
        share, rest = divmod(held, members)
        rows = [
            Row(
                str(i),
                now,
                window.number,
                shares.get(str(i), 0),
                active=share + (i < rest),
                demand=1000,
                held=share + (i < rest),
                accepted=int(now * 4) * limit,
                refusal=window.number if over and i == 0 else -1,
                pause=max(0.0, paused - now),
            )
            for i in range(members)
        ]
        _, shares = make_plan(window, rows, shares, now, window.number + 1)
        sizes.append(window.size)
        now += 0.25
    return sizes, refused


@pytest.mark.parametrize("limit", [5, 64, 100, 333, 2000])
def test_the_window_finds_the_limit_and_stays(limit):
    """M49: found within ten seconds, kept within 5 % from then on, almost nothing refused."""
    sizes, refused = run_against(limit)
    assert all(0.95 * limit - 1 <= size <= 1.05 * limit + 1 for size in sizes[60:])
    assert refused <= 64 + 0.4 * limit


def test_a_limit_that_rises_is_found_again():
    """M49: a higher limit is used after at most a few probes."""
    window = Plan(made=1.0)
    run_against(100, window=window)
    sizes, _ = run_against(400, start=61.0, seconds=90.0, window=window)
    assert sizes[-1] >= 0.9 * 400


def test_a_limit_that_falls_is_followed():
    """M49: refusals bring the window down to what the server takes now."""
    window = Plan(made=1.0)
    run_against(200, window=window)
    sizes, _ = run_against(50, start=61.0, seconds=30.0, window=window)
    assert 45 <= sizes[-1] <= 52


def test_refusals_of_requests_from_before_the_cut_say_nothing():
    """M49: while older requests still fill the server, the window is not cut again."""
    window = Plan(80, "hold", since=1.0, made=4.0)
    row = Row("a", 5.0, 0, 80, 90, 500, 90, refusal=0)
    make_plan(window, [row], {"a": 80}, 5.0, 1)
    assert window.size == 80


def test_a_refusal_is_told_once():
    """M49: a member that has not reported again does not cut the window again."""
    window = Plan(80, "hold", since=1.0, made=4.0)
    row = Row("a", 4.5, 0, 80, 78, 500, 78, refusal=0)
    make_plan(window, [row], {"a": 80}, 5.0, 1)
    size = window.size
    assert size < 80
    make_plan(window, [row], {"a": 80}, 7.0, 2)
    assert window.size == size


def test_what_one_had_is_given_when_it_is_free():
    """M49: permits of all never exceed the window: who gives back has read it and sends less."""
    window = Plan(64, "hold", made=1.0)
    rows = [Row("a", 1.0, 0, 64, 60, 500), Row("b", 1.0, 0, 0, 0, 500)]
    _, shares = make_plan(window, rows, {"a": 64}, 1.2, 1)
    assert shares == {"a": 32, "b": 0}  # "a" has not read it
    _, shares = make_plan(window, rows, shares, 1.4, 2)
    assert shares == {"a": 32, "b": 0}
    rows = [evolve(rows[0], plan=2), evolve(rows[1], plan=2)]
    _, shares = make_plan(window, rows, shares, 1.6, 3)
    assert shares == {"a": 32, "b": 4}
    rows = [evolve(rows[0], active=32, plan=3), evolve(rows[1], plan=3)]
    assert make_plan(window, rows, shares, 1.8, 4)[1] == {"a": 32, "b": 32}


def test_a_store_that_lost_everything_hands_out_what_members_had():
    """M49: no stampede at its return: nobody gets more than it had until all have reported."""
    first = Row("a", 5.0, 0, 7, 7, 500, window=80.0)
    plan, shares = make_plan(Plan(), [first], {}, 5.0, 1)
    assert (plan.size, plan.phase, shares) == (80, "hold", {"a": 7})
    rows = [first, evolve(first, id="b", cap=9), Row("c", demand=9)]
    assert make_plan(plan, rows, shares, 6.0, 2)[1] == {"a": 7, "b": 9, "c": 0}
    rows = [evolve(row, plan=2) for row in rows]
    shares = make_plan(plan, rows, {"a": 7, "b": 9, "c": 0}, 20.0, 3)[1]
    assert shares["c"] == 0  # nobody planned for long: the rest may report in a moment
    for step in range(20):
        rows = [evolve(row, plan=plan.number) for row in rows]
        shares = make_plan(plan, rows, shares, 20.0 + step / 4, plan.number + 1)[1]
    assert sum(shares.values()) >= 79


def test_a_pause_is_everybodys():
    """M49: a shorter one later does not shorten it."""
    plan, _ = make_plan(Plan(), [Row("a", 5.0, pause=5.0)], {}, 5.0, 1)
    plan, _ = make_plan(plan, [Row("a", 6.0, pause=1.0)], {}, 6.0, 2)
    assert plan.pause == 10.0


def test_who_is_the_first_to_ask_does_not_take_what_others_need_a_moment_later():
    """M49: it would keep it as long as its samples take, and be served better for that time."""
    plan, rows = Plan(64, made=1.0), [Row(str(i), 1.0, cap=1) for i in range(50)]
    rows[0] = evolve(rows[0], active=1, demand=12)
    _, shares = make_plan(plan, rows, dict.fromkeys(map(str, range(50)), 1), 1.2, 1)
    assert shares["0"] == 2
    for step in range(4):
        rows = [evolve(row, plan=plan.number, cap=shares[row.id]) for row in rows]
        _, shares = make_plan(plan, rows, shares, 1.4 + step / 4, plan.number + 1)
    assert shares["0"] >= 12  # nobody else asked


def test_one_refusal_ends_the_search_at_what_the_server_held():
    """M49: each costs everybody a pause, so none is spent on the last percent."""
    window, now = Plan(350, "search", low=350, since=1.0, made=1.0), 2.0
    row = Row("a", demand=999)
    for _ in range(7):
        size = int(window.size)
        row = evolve(row, cap=size, active=size, held=size, accepted=row.accepted + size)
        make_plan(window, [row], {"a": size}, now, window.number + 1)
        now += 0.5
    assert (window.size > 402, window.phase) == (True, "search")
    row = evolve(row, held=398, refusal=window.number)
    make_plan(window, [row], {"a": row.cap}, now, window.number + 1)
    assert (window.size, window.phase) == (398, "hold")


def test_permits_that_come_back_slowly_go_to_all_alike():
    """M49: a sample ends long after its permit was given on; nobody always waits for it longest."""
    names = [f"{i:02}" for i in range(50)]
    shares, served = dict.fromkeys(names, 3), dict.fromkeys(names, 0)
    plan, past = Plan(190, "hold", made=1.0), [shares] * 12
    for step in range(4 * 300):
        now = 1 + step / 4
        active = {name: max(each[name] for each in past) for name in names}
        rows = [Row(n, now, plan.number, shares[n], active[n], 99) for n in names]
        plan.since = now  # the size is not what is looked at
        plan, shares = make_plan(plan, rows, shares, now, plan.number + 1)
        past = [*past[1:], shares]
        for name, share in shares.items():
            served[name] += share
    assert max(served.values()) / min(served.values()) < 1.05


def test_an_idle_fleet_learns_nothing():
    """M49: permits that nobody uses do not let the window grow."""
    window = Plan()
    for step in range(100):
        make_plan(window, [Row("a", step, 0, 64, 2, 2, 2)], {"a": 64}, 1 + step, 1)
    assert window.size == 64


def test_leases_outlive_three_reports_and_end_within_ten_seconds():
    """M49: permits of a killed process are free within 10 s, whatever the size of the fleet."""
    for members in (1, 50, 1000, 100_000):
        assert 2.5 * sync_seconds(members) <= lease_seconds(members) <= 9.0


def test_nothing_is_tried_at_the_return_of_a_store():
    """M49: time in which nobody planned does not count as time without refusals."""
    window = Plan(64, "hold", since=1.0, made=1.0, low=64)
    rows = [Row("a", 1.0, 0, 64, 64, 500, 64, accepted=10**6)]
    make_plan(window, rows, {"a": 64}, 1000.0, 1)
    assert (window.size, window.phase) == (64, "hold")
    for step in range(int(PATIENCE["hold"]) + 2):
        make_plan(window, rows, {"a": 64}, 1001.0 + step, 1)
    assert window.phase == "search"


def test_what_is_not_answered_does_not_let_the_window_grow():
    """M49: a slow server is not sent more because what it was sent is under way."""
    window = Plan(made=1.0)
    row = Row("a", 1.0, 0, 64, 64, 500, 20, accepted=20)
    for step in range(20):
        make_plan(window, [row], {"a": 64}, 1 + step / 4, 1)
    assert window.size == 64
    make_plan(window, [evolve(row, held=64)], {"a": 64}, 7.0, 1)
    assert window.size > 64
