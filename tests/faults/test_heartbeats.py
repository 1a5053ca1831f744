"""Heartbeats go on through everything that passes, and stop only where they were never taken."""

from __future__ import annotations

import asyncio
import logging

import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted, lost, page

INTERVAL = 10.0


def beats(answer, seconds=200.0):
    """Times of the heartbeats in so many seconds, while each is answered by a script.

    Args:
        answer: Called with the number of the heartbeat; gives its answer or None, or raises.
    """
    count = 0

    async def script(sent, deliver):
        nonlocal count
        if sent.name == "session_heartbeat":
            count += 1
            return answer(count)
        return None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network) as service:
            await service.create_lora_training_client_async(MODEL, rank=1)
            await asyncio.sleep(seconds)
            return [sent.when for sent in network.of("session_heartbeat")]

    return run(scenario)


def _lose():
    raise lost()


@pytest.mark.parametrize(
    "fault",
    [
        *(lambda s=s: (s, {"detail": "Not Found"}) for s in (404, 405, 501)),
        *(lambda s=s: page(s) for s in (404, 405, 501, 200, 500)),
        _lose,
    ],
    ids=["404", "405", "501", "page404", "page405", "page501", "page200", "page500", "lost"],
)
@pytest.mark.parametrize("at", [3, 7])
def test_a_fault_that_passes(fault, at):
    """F9: one refusal, page or lost connection among good answers ends nothing."""
    times = beats(lambda n: fault() if n == at else None)
    assert 17 <= len(times) <= 25
    assert times[-1] > 180


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_heartbeats_is_left_in_peace(status, caplog):
    """F9: where none was ever answered, they stop, and that can be read in the log."""
    with caplog.at_level(logging.INFO, "tinker_ext"):
        times = beats(lambda _: (status, {"detail": "Not Found"}))
    assert len(times) <= 5
    assert [r for r in caplog.records if "heartbeat" in r.getMessage().lower()]


def test_a_connection_lost_at_every_beat():
    """F9: a server out of reach is tried again at every beat."""
    assert len(beats(lambda _: _lose())) >= 17
