"""The net under all tests of clients: what is taken and not given back is seen."""

from __future__ import annotations

import asyncio

import given_back
import pytest

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext._transport import ByteBudget, FairQueue
from tinker_ext.mock import Server, Settings


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


def test_a_client_is_seen_and_not_kept(monkeypatch):
    """On a loop thread of its own: a sample under way is seen, a closed client leaves nothing."""
    with Server(Settings()) as server, given_back.watched(weak=True) as taken:
        with ServiceClient(base_url=server.url, api_key="tml-x") as service:
            sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
            server.faults.add("delay", path="retrieve_future", delay=5.0)
            future = sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
            assert taken.left_by_threads() != []
            future.cancel()
        monkeypatch.setattr(given_back, "PATIENCE", 5.0)
        assert taken.left_by_threads() == []
