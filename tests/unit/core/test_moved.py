"""News of an operation: what counts as such, and what is said of one that has none."""

from __future__ import annotations

import asyncio
import logging

import pytest
from in_process import MODEL, adam, client, deadline, run, server
from scripted import Scripted

from tinker_ext import Config
from tinker_ext.errors import DeadlineExceededError


@pytest.mark.parametrize("queue_period", [60.0, 1e4])
@pytest.mark.parametrize(("accepted", "told"), [(None, [60, 120, 180]), (50.0, [120, 180])])
def test_the_watchdog_counts_from_the_last_news(accepted, told, queue_period, caplog):
    """M28: that the server has taken a request is news; every minute without any is told of."""
    caplog.set_level(logging.WARNING)
    said = []

    async def script(sent, deliver):
        if sent.name == "optim_step":
            await asyncio.sleep(1e5 if accepted is None else accepted)
        if sent.name == "retrieve_future" and ready:
            await asyncio.sleep(1e5)

    ready = False

    async def scenario():
        nonlocal ready
        network = Scripted(server(), script)
        config = Config(queue_log_period=queue_period, request_timeout=1e6, poll_timeout=1e6)
        async with client(network, config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ready = True
            with deadline(200.0):
                future = await training.optim_step_async(adam())
            for minute in (1, 2, 3):
                await asyncio.sleep(60.0 if minute > 1 else 60.5)
                if any("have not moved" in text for text in caplog.messages):
                    said.append(60 * minute)
                caplog.clear()
            (entry,) = service.pending()
            assert entry.stage == ("sending" if accepted is None else "waiting")
            with pytest.raises(DeadlineExceededError):
                await future

    run(scenario)
    assert said == told


@pytest.mark.parametrize("told", ["state", "reason", "same"])
def test_a_new_state_or_reason_is_news(told, caplog):
    """M28: as long as the server says something new, nobody is told that nothing moves."""
    caplog.set_level(logging.WARNING)

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and ready:
            await asyncio.sleep(40.0)
            count = len(network.sent)
            state = ("paused_capacity", "paused_rate_limit")[count % 2 if told == "state" else 0]
            reason = f"place {count}" if told == "reason" else "busy"
            return 408, {"type": "try_again", "queue_state": state, "queue_state_reason": reason}
        return None

    async def scenario():
        nonlocal network, ready
        network = Scripted(server(), script)
        config = Config(queue_log_period=1e4, poll_timeout=1e6, heartbeat_interval=1e6)
        async with client(network, config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ready = True
            with deadline(300.0):
                future = await training.optim_step_async(adam())
            with pytest.raises(DeadlineExceededError):
                await future

    network, ready = None, False
    run(scenario)
    still = any("have not moved" in text for text in caplog.messages)
    assert still is (told == "same")
