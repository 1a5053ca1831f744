"""The net under all tests of clients: what is taken and not given back is seen."""

from __future__ import annotations

import asyncio

import given_back
import pytest

from tinker_ext._transport.limits import ByteBudget, FairQueue


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(given_back, "PATIENCE", 0.05)


def test_a_slot_that_is_kept_is_seen():
    """A lane that holds one, or gave one back twice."""
    with given_back.watched(weak=True) as taken:
        queue = FairQueue(2)
        assert queue.try_acquire()
        assert "holds 1" in taken.left_by_threads()[0]
        queue.release()
        assert taken.left_by_threads() == []


def test_bytes_that_are_kept_are_seen():
    """Also when their owner is gone."""
    with given_back.watched(weak=True) as taken:
        asyncio.run(ByteBudget(10).acquire(3))
        assert "has 7 left" in taken.left_by_threads()[0]
