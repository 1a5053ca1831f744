"""A question about repeats that the server refuses: its number is free, also in the journal."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted, lost, undeclared

from tinker_ext.config import Config
from tinker_ext.errors import UnsafeToRetryError


@pytest.mark.parametrize("recorded", [False, True])
def test_the_number_of_a_refused_question_is_used_again(tmp_path, recorded):
    """M20: the next call has it, with a journal and without one."""
    asked = []

    async def script(sent, deliver):
        if sent.name == "optim_step" and not asked:
            asked.append(sent.body["seq_id"])
            raise lost()
        if sent.name == "forward":
            asked.append(sent.body["seq_id"])
            return 422, {"detail": "no such forward pass"}
        return None

    async def scenario():
        app = server(**undeclared(seq="ignore"))
        network = Scripted(app, script)
        options = {"journal": tmp_path / "journal"} if recorded else {}
        async with client(network, wire="json", **options) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            (first,) = await asyncio.gather(
                await training.optim_step_async(adam()), return_exceptions=True
            )
            second = await (await training.forward_backward_async([datum()], "cross_entropy"))
            third = await (await training.optim_step_async(adam()))
            requests = dict(service.holder.journal.state.requests) if recorded else None
            sent = [
                (each.name, each.body["seq_id"])
                for each in network.sent
                if each.name in ("forward_backward", "optim_step", "forward")
            ]
            return first, second, third, sent, requests

    first, second, third, sent, requests = run(scenario)
    assert isinstance(first, UnsafeToRetryError)
    assert "may or may not" in str(first)
    lost_number = asked[0]
    questions = [number for name, number in sent if name == "forward"]
    assert questions[0] == lost_number + 1
    assert ("forward_backward", lost_number + 1) in sent
    assert ("optim_step", lost_number + 2) in sent
    assert second is not None
    assert third is not None
    if recorded:
        assert requests[lost_number + 1].operation == "forward_backward"


@pytest.mark.parametrize(
    ("usual", "takes", "found"),
    [
        (0.0, 2.3, True),
        (0.0, 2.7, False),  # two and a half seconds for a server that is quick
        (4.0, 7.7, True),
        (4.0, 8.3, False),  # twice what it took before
        (40.0, 59.0, True),
        (40.0, 61.0, False),  # and no more than a minute
    ],
)
def test_an_answer_to_a_question_is_waited_for_twice_as_long_as_usual(usual, takes, found):
    """M20 M22: the caller of a lost request is waiting meanwhile."""
    steps = []

    async def script(sent, deliver):
        if sent.name == "optim_step":
            steps.append(sent)
            if len(steps) == 1:
                await asyncio.sleep(usual)
            if len(steps) == 2:
                raise lost()
        if sent.name == "forward":
            await asyncio.sleep(takes)

    async def scenario():
        network = Scripted(server(**undeclared(seq="dedupe")), script)
        config = Config(request_timeout=600.0)
        async with client(network, wire="json", config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ends = []
            for _ in range(2):
                future = await training.optim_step_async(adam())
                ends += await asyncio.gather(future, return_exceptions=True)
            return ends, network.count("forward")

    (first, second), questions = run(scenario)
    assert not isinstance(first, Exception)
    assert questions == 2 or not found  # the same one twice
    assert isinstance(second, UnsafeToRetryError) is not found
