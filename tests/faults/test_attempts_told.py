"""How often a training request was sent is told: by its error, and by `pending()` meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, deadline, run, server
from scripted import Scripted, fresh_url

from tinker_ext.errors import TinkerError


@pytest.mark.parametrize("seq", ["dedupe", "gap"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_call_tells_how_often_it_was_sent(seq, status):
    """M12 M22: the number of requests that the server has seen, while it goes on and at its end."""

    async def script(sent, deliver):
        return (status, {"detail": "later"}) if sent.name == "optim_step" else None

    async def scenario():
        network = Scripted(server(seq=seq), script)
        async with client(network, wire="json", base_url=fresh_url()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            with deadline(60.0):
                future = await training.optim_step_async(adam())
            shown = []
            for _ in range(5):
                await asyncio.sleep(5.0)
                (call,) = service.pending()
                shown.append((call.attempt, network.count("optim_step")))
            with pytest.raises(TinkerError) as caught:
                await future
            return shown, caught.value, network.count("optim_step")

    shown, error, count = run(scenario)
    assert count > 3
    assert all(told == seen for told, seen in shown), shown
    assert shown[-1][0] > 1
    assert error.attempts == count
