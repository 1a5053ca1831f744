"""A lost request that stays lost: nothing else leaves before it, and its number stays its own."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted, lost

from tinker_ext.errors import TinkerError


@pytest.mark.parametrize("how", ["lost", 503])
def test_nothing_leaves_before_a_request_that_is_still_lost(how):
    """M20: the call behind it is not sent; both take effect once, in their order, when it can."""
    down = True

    async def script(sent, deliver):
        if sent.name == "optim_step" and down:
            if how == "lost":
                raise lost()
            return how, {"detail": "unwell"}
        return None

    async def scenario():
        nonlocal down
        app = server(seq="dedupe")
        network = Scripted(app, script)
        async with client(network, wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ends = []
            for make in (
                lambda: training.optim_step_async(adam()),
                lambda: training.forward_backward_async([datum()], "cross_entropy"),
            ):
                ends += await asyncio.gather(await make(), return_exceptions=True)
            sent = [each.name for each in network.sent if each.name == "forward_backward"]
            down = False
            future = await training.forward_backward_async([datum()], "cross_entropy")
            ends += await asyncio.gather(future, return_exceptions=True)
            effects = [(e.op, e.seq) for e in app.log.training(training.model_id) if not e.error]
            return ends, sent, effects

    (first, second, third), sent, effects = run(scenario)
    assert isinstance(first, TinkerError)
    assert isinstance(second, TinkerError)
    assert "was not sent" in str(second)
    assert sent == []
    assert not isinstance(third, Exception)
    assert effects == [("optim_step", 1), ("forward_backward", 2)]
