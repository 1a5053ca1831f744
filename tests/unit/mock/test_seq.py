"""M17, M20: order and repetition of one model's operations, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext.mock.messages import HttpError
from tinker_ext.mock.seq import Sequencer


@given(st.permutations(range(1, 9)))
def test_any_order_of_arrival_runs_in_order(arrivals):
    """M17: whatever the order of arrival, operations come out by number."""
    sequencer = Sequencer("gap")
    ran = []
    for seq in arrivals:
        ran += sequencer.accept(seq, f"d{seq}", f"r{seq}", seq)
    assert ran == sorted(arrivals)
    assert sequencer.missing() is None


def test_without_a_number_nothing_waits():
    """M28: clients that send no seq_id run in order of arrival."""
    sequencer = Sequencer("gap")
    assert sequencer.accept(5, "d", "r", "five") == []
    assert sequencer.accept(None, "d", "r", "loose") == ["loose"]
    assert sequencer.repeat(None, "d") is None


def test_skipping_a_gap_continues_after_it():
    """M40: giving up on number 1 runs what is held and expects the next."""
    sequencer = Sequencer("dedupe")
    assert sequencer.accept(3, "c", "r3", "three") == []
    assert sequencer.accept(2, "b", "r2", "two") == []
    assert sequencer.missing() == 1
    assert sequencer.skip() == ["two", "three"]
    assert sequencer.accept(4, "d", "r4", "four") == ["four"]
    assert sequencer.accept(1, "a", "r1", "late") == ["late"]


@pytest.mark.parametrize(
    ("profile", "same", "other"),
    [("dedupe", "r1", 409), ("gap", "r1", 409), ("strict", 409, 409), ("ignore", None, None)],
)
def test_repeats_by_profile(profile, same, other):
    """M20: the table of the four profiles."""
    sequencer = Sequencer(profile)
    sequencer.accept(1, "body", "r1", "one")

    def answer(digest):
        try:
            return sequencer.repeat(1, digest)
        except HttpError as error:
            return error.status

    assert answer("body") == same
    assert answer("another") == other
    assert sequencer.attempts(1) == 3


def test_a_snapshot_remembers_numbers():
    """M40: after a restart a repeat is still a repeat."""
    sequencer = Sequencer("dedupe")
    sequencer.accept(1, "body", "r1", "one")
    restored = Sequencer("dedupe")
    restored.restore(sequencer.to_record())
    assert restored.repeat(1, "body") == "r1"
    assert restored.accept(2, "next", "r2", "two") == ["two"]
