"""A part of a call is refused, and then the filler in its place: what is said of the others."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, client, datum, deadline, run, server
from scripted import Scripted, fresh_url

from tinker_ext import Config
from tinker_ext.errors import DeadlineExceededError, TinkerError, UnprocessableEntityError

PARTS = 4


def _ended(rule, filler, struck=(2,)):
    """The error of a call of which parts are refused, and the parts that took effect."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] in struck:
            await asyncio.sleep(1.0)  # those behind it are accepted meanwhile
            return 422, {"detail": "this datum is not welcome"}
        if sent.name == "forward":
            return await filler(sent.body["seq_id"], deliver)
        return None

    async def scenario():
        app = server(seq=rule)
        network = Scripted(app, script)
        config = Config(chunk_datums=1)
        async with client(network, wire="json", config=config, base_url=fresh_url()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            batch = [datum(first=i + 1) for i in range(PARTS)]
            with deadline(100.0):
                future = await training.forward_backward_async(batch, "cross_entropy")
            with pytest.raises(TinkerError) as caught:
                await future
            await asyncio.sleep(20.0)
            done = app.log.training(training.model_id)
            return caught.value, {e.seq for e in done if e.op == "forward_backward"}

    return run(scenario)


async def _refuses(seq_id, deliver):
    await asyncio.sleep(2.0)
    return 422, {"detail": "nor is this forward pass"}


async def _takes(seq_id, deliver):
    await asyncio.sleep(2.0)
    return await deliver()


async def _holds(seq_id, deliver):
    await asyncio.sleep(1e6)


def test_parts_behind_a_number_that_is_not_filled_have_no_effect():
    """F6 F13: the server works in order, so what it accepted behind the gap is never worked on."""
    error, took = _ended("gap", _refuses)
    assert took == {1}
    assert isinstance(error, UnprocessableEntityError)
    assert "not welcome" in str(error)
    assert error.parts_taken == (1,)
    assert "1 (seq_id 1) took effect, the others did not" in error.effect
    assert "3" not in error.effect.replace("seq_id", "")


def test_parts_behind_a_number_that_is_filled_take_effect():
    """F13: the call ends with its own refusal once the filler is accepted."""
    error, took = _ended("gap", _takes)
    assert took == {1, 3, 4}
    assert error.parts_taken == (1, 3, 4)
    assert isinstance(error, UnprocessableEntityError)


def test_two_refused_parts_of_which_one_is_filled():
    """F13: what is behind the one that is not filled has no effect."""

    async def filler(seq_id, deliver):
        await asyncio.sleep(float(seq_id))
        return await deliver() if seq_id == 2 else (422, {"detail": "nor is this forward pass"})

    error, took = _ended("gap", filler, struck=(2, 3))
    assert took == {1}
    assert error.parts_taken == (1,)
    assert "4" not in error.effect.replace(f"the {PARTS} parts", "")


def test_parts_behind_a_number_that_is_still_being_filled_are_in_doubt():
    """F13: the deadline of the call passes before anybody knows."""
    error, took = _ended("gap", _holds)
    assert took == {1}
    assert not isinstance(error, DeadlineExceededError)  # why it failed says more
    assert error.parts_taken == (1,)
    assert "Of 3, 4 it is not known" in error.effect
