"""How the window moves and how it is divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext.fleet.plan import (
    HOLD_SECONDS,
    Row,
    Window,
    lease_seconds,
    plan,
    sync_seconds,
)


def divide(window, demands, now=1.0):
    rows = [Row(str(i), 0, min(d, 3), d, min(d, 3)) for i, d in enumerate(demands)]
    return plan(Window(size=window, phase="hold"), rows, now, 0.0, 10**6)


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
    window, served = Window(size=size, phase="hold"), dict.fromkeys("abcdefg", 0)
    targets = dict.fromkeys(served, 0)
    for step in range(14 * 40):
        rows = [Row(name, t, active=t, demand=99, cap=t) for name, t in targets.items()]
        window.since = step * 0.25  # hold: the size is not what is looked at
        targets = plan(window, rows, 1 + step * 0.25, 0.0, 10**6)
        for name, target in targets.items():
            served[name] += target
    assert max(served.values()) / min(served.values()) < 1.1


def run_against(limit, members=8, start=1.0, seconds=60.0, window=None):
    """A fleet that always wants more against a server that takes `limit`; one plan is 0.25 s."""
    window = window or Window()
    caps, sizes, refused, now, paused = [0] * members, [], 0, start, 0.0
    while now < start + seconds:
        total = sum(caps)
        over = total > limit and now >= paused
        refused += max(0, total - limit) if over else 0
        if over:
            paused = now + 1.0
        held = 0 if now < paused and not over else min(total, limit)
        share, rest = divmod(held, members)
        rows = [
            Row(
                str(i),
                active=share + (i < rest),
                demand=1000,
                held=share + (i < rest),
                cap=caps[i],
                accepted=int(now * 4) * limit,
                refusal=over and i == 0,
                round=window.round,
                level=share + (i < rest),
            )
            for i in range(members)
        ]
        targets = plan(window, rows, now, max(0.0, paused - now), 10**6)
        caps = [targets[str(i)] for i in range(members)]
        sizes.append(sum(caps))
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
    window = Window()
    run_against(100, window=window)
    sizes, _ = run_against(400, start=61.0, seconds=90.0, window=window)
    assert sizes[-1] >= 0.9 * 400


def test_a_limit_that_falls_is_followed():
    """M49: refusals bring the window down to what the server takes now."""
    window = Window()
    run_against(200, window=window)
    sizes, _ = run_against(50, start=61.0, seconds=30.0, window=window)
    assert 45 <= sizes[-1] <= 52


def test_refusals_of_requests_from_before_the_cut_say_nothing():
    """M49: while older requests still fill the server, the window is not cut again."""
    window = Window(size=80, phase="hold", round=3, since=1.0)
    rows = [Row("a", 0, 90, 500, 90, refusal=True, round=3, level=90)]
    plan(window, rows, 5.0, 0.0, 10**6)
    assert (window.size, window.round) == (80, 3)


def test_the_search_ends_close_below_what_was_refused():
    """M49: half the way each time, and no second refusal where little is to be found."""
    window = Window(size=350, phase="search", low=350, high=402, since=1.0, planned=1.0)
    for step in range(10):
        size = int(window.size)
        rows = [Row("a", 0, size, 999, size, size, accepted=10**6)]
        plan(window, rows, 2.0 + step, 0.0, 10**6)
        assert window.size < 402
    assert window.phase == "hold"
    assert window.size >= 0.96 * 402


def test_an_idle_fleet_learns_nothing():
    """M49: permits that nobody uses do not let the window grow."""
    window = Window(size=64)
    for step in range(100):
        plan(window, [Row("a", 0, 2, 2, 2, cap=64)], 1 + step, 0.0, 10**6)
    assert window.size == 64


def test_leases_outlive_three_reports_and_end_within_ten_seconds():
    """M49: permits of a killed process are free within 10 s, whatever the size of the fleet."""
    for members in (1, 50, 1000, 100_000):
        assert 2.5 * sync_seconds(members) <= lease_seconds(members) <= 9.0


def test_nothing_is_tried_at_the_return_of_a_store():
    """M49: time in which nobody planned does not count as time without refusals."""
    window = Window(size=64, phase="hold", since=1.0, planned=1.0, low=64)
    rows = [Row("a", 0, 64, 500, 64, cap=64, accepted=10**6)]
    plan(window, rows, 1000.0, 0.0, 10**6)
    assert (window.size, window.phase) == (64, "hold")
    for step in range(int(HOLD_SECONDS) + 2):
        plan(window, rows, 1001.0 + step, 0.0, 10**6)
    assert window.phase == "search"


def test_what_is_not_answered_does_not_let_the_window_grow():
    """M49: a slow server is not sent more because what it was sent is under way."""
    window = Window(size=64)
    for step in range(20):
        plan(window, [Row("a", 0, 64, 500, 20, cap=64, accepted=20)], 1 + step / 4, 0.0, 10**6)
    assert window.size == 64
    plan(window, [Row("a", 0, 64, 500, 64, cap=64, accepted=64)], 7.0, 0.0, 10**6)
    assert window.size > 64
