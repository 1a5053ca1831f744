"""The short form of `tests/simulation/run.py`: every step takes effect once, in order, or is told.

A failure prints the seed; `python tests/simulation/run.py --first SEED --seeds 1 --trace` replays
it.
"""

from __future__ import annotations

import gc

import pytest
from simulation.behaviours import BEHAVIOURS
from simulation.conduct import Plan as OddPlan
from simulation.conduct import conduct
from simulation.execution import PROFILES, Plan, execute, reference
from simulation.network import KINDS

SEEDS = 8
ODD_SEEDS = 1
"""`nox -s simulate` runs 300, these among them, and a third of them on odd servers."""


def test_each_step_takes_effect_once():
    """M19 M20 M22: lost, repeated, late, refused or restarted: weights bit-equal, nothing left."""
    outcomes = [execute(seed) for seed in range(SEEDS)]
    gc.collect()
    assert {outcome.plan.seed: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    assert sum(outcome.faults for outcome in outcomes) > SEEDS


def test_seeds_cover_the_ground():
    """The plans of the seeds cover profiles, wires, patience and every kind of fault."""
    plans = [Plan.of(seed) for seed in range(80)]
    assert {plan.seq for plan in plans} == set(PROFILES)
    assert {plan.wire for plan in plans} == {None, "json", "proto"}
    assert {kind for plan in plans for kind in plan.weather.kinds} == set(KINDS)
    assert {plan.ahead for plan in plans} == {True, False}


def test_one_seed_is_one_execution():
    """The same seed makes the same requests, meets the same faults and ends at the same time."""
    first, second = execute(7), execute(7)
    assert first.trace
    assert (first.trace, first.requests, first.seconds) == (
        second.trace,
        second.requests,
        second.seconds,
    )


def test_programs_lead_to_different_weights():
    """The comparison of weights can tell programs apart."""
    assert len({reference(number, "json") for number in range(6)}) == 6


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_an_odd_server_costs_little_and_trains_once(name):
    """M19 M22 M24 F1 F3 F4 F5 F6 F7 F8 F12 F21 F28: calm on the wire, each step once, in time."""
    verdicts = [conduct(seed, name) for seed in range(ODD_SEEDS)]
    assert {v.plan.seed: v.wrong for v in verdicts if v.wrong} == {}
    assert all(v.calls > 8 for v in verdicts)


def test_odd_seeds_cover_the_ground():
    """The plans of the seeds cover every behaviour, profile and wire."""
    plans = [OddPlan.of(seed) for seed in range(2, 900, 3)]
    assert {plan.name for plan in plans} == set(BEHAVIOURS)
    assert {plan.seq for plan in plans} == set(PROFILES)
    assert {plan.wire for plan in plans} == {None, "json", "proto"}
    assert {plan.ahead for plan in plans} == {True, False}


def test_one_odd_seed_is_one_execution():
    """The same seed makes the same requests and ends at the same time."""
    first, second = conduct(5), conduct(5)
    assert first.requests > 20
    assert (first.requests, first.seconds, first.rate) == (
        second.requests,
        second.seconds,
        second.rate,
    )
