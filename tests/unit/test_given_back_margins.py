"""The net under all tests keeps nothing of a test that is over."""

from __future__ import annotations

import gc
import weakref

import pytest

from tinker_ext._transport.limits import FairQueue

_earlier: list[weakref.ref[FairQueue]] = []


@pytest.mark.parametrize("turn", ["first", "second"])
def test_what_a_test_made_is_gone_when_the_next_one_runs(turn: str) -> None:
    """Thousands of tests would keep hundreds of megabytes, each slower than the one before."""
    gc.collect()
    assert [made() for made in _earlier] == [None] * len(_earlier)
    _earlier.append(weakref.ref(FairQueue(1)))
