"""Every status that may answer a training request: what the call ends with, and what follows it."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, run, server
from scripted import Scripted

from tinker_ext import Config
from tinker_ext.errors import APIStatusError, ConflictError, FeatureMissingError, UnsafeToRetryError

FINAL = (400, 401, 403, 404, 405, 410, 413, 415, 422, 425, 451, 501)
NOT_NOW = (402, 429)
MAYBE_DONE = (408, 500, 502, 503, 504, 520, 599)


def steps(status, times, *, seq, reached=False, **settings):
    """Two updates on a server that answers the first requests with a status.

    Args:
        status: The answer.
        times: To so many requests.
        seq: What the server makes of repeated numbers.
        reached: Whether it does the work all the same.
        settings: Of the client.

    Returns:
        The ends of both, the numbers and keys that were sent, the numbers that took effect, and
        the virtual seconds until the first ended.
    """
    left = times

    async def script(sent, deliver):
        nonlocal left
        if sent.name == "optim_step" and left:
            left -= 1
            if reached:
                await deliver()
            return status, {"detail": "why"}
        return None

    async def scenario():
        app = server(seq=seq, session_ttl=1e6)
        network = Scripted(app, script)
        async with client(network, wire="json", config=Config(**settings)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            loop = asyncio.get_running_loop()
            began = loop.time()
            ends, took = [], []
            for _ in range(2):
                future = await training.optim_step_async(adam())
                ends += await asyncio.gather(future, return_exceptions=True)
                took.append(loop.time() - began)
            sent = [
                (each.body["seq_id"], each.headers["x-idempotency-key"])
                for each in network.of("optim_step")
            ]
            done = [effect.seq for effect in app.log.training(training.model_id)]
            assert network.rate() < 20
            return ends, sent, done, took[0]

    return run(scenario)


def failed(ends):
    return [isinstance(end, Exception) for end in ends]


@pytest.mark.parametrize("seq", ["dedupe", "ignore"])
@pytest.mark.parametrize("status", FINAL)
def test_a_refusal_is_the_answer(status, seq):
    """M19 M24: asked once, shown with its status and text; its number is used by the next call."""
    (error, _), sent, done, _ = ended = steps(status, 1, seq=seq)
    assert failed(ended[0]) == [True, False]
    if status in (405, 501):
        assert isinstance(error, FeatureMissingError)
    else:
        assert isinstance(error, APIStatusError)
        assert error.status_code == status
        assert "why" in str(error)
    assert [number for number, _ in sent] == [1, 1]
    assert len(set(sent)) == 2  # another request, so another key
    assert done == [1]


@pytest.mark.parametrize("seq", ["dedupe", "ignore"])
@pytest.mark.parametrize("status", NOT_NOW)
def test_what_was_not_done_for_now_is_asked_again(status, seq):
    """M20 M24: nothing took effect, so the same request is sent to any server."""
    ends, sent, done, _ = steps(status, 2, seq=seq)
    assert failed(ends) == [False, False]
    assert [number for number, _ in sent] == [1, 1, 1, 2]
    assert len(set(sent)) == 2
    assert done == [1, 2]


@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize("status", MAYBE_DONE)
def test_what_may_have_been_done_is_asked_again_where_repeats_are_known(status, reached):
    """M20: the same number and key, and one effect."""
    ends, sent, done, _ = steps(status, 2, seq="dedupe", reached=reached)
    assert failed(ends) == [False, False]
    assert [number for number, _ in sent] == [1, 1, 1, 2]
    assert len(set(sent)) == 2
    assert done == [1, 2]


@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize("status", MAYBE_DONE)
def test_what_may_have_been_done_is_not_repeated_elsewhere(status, reached):
    """M20: the caller is told; the number stays used, and the next call goes on after it."""
    (error, _), sent, done, _ = ended = steps(status, 1, seq="ignore", reached=reached)
    assert failed(ended[0]) == [True, False]
    assert isinstance(error, UnsafeToRetryError)
    assert isinstance(error.__cause__, APIStatusError)
    assert error.__cause__.status_code == status
    assert [number for number, _ in sent] == [1, 2]
    assert done == ([1, 2] if reached else [2])


@pytest.mark.parametrize("status", [*NOT_NOW, *MAYBE_DONE])
def test_a_status_that_stays_is_shown_after_the_window(status):
    """M24: tried until the window ends, not less and not much more, then shown with its status."""
    (error, _), sent, done, took = steps(status, 10_000, seq="dedupe", retry_window=30.0)
    assert isinstance(error, APIStatusError)
    assert error.status_code == status
    assert {number for number, _ in sent} == {1}
    assert done == []
    assert 20 <= took <= 35


def test_the_window_is_five_minutes():
    """M24: where the user says nothing."""
    _, _, done, took = steps(503, 10_000, seq="dedupe")
    assert done == []
    assert 240 <= took <= 310


def test_a_conflict_is_looked_into_where_repeats_are_known():
    """F4 M20: elsewhere it is the answer at once, and the number is free."""
    ends, sent, done, _ = steps(409, 1, seq="dedupe")
    assert failed(ends) == [False, False]
    assert ([number for number, _ in sent], done) == ([1, 1, 2], [1, 2])
    ends, sent, done, _ = steps(409, 1, seq="ignore")
    assert isinstance(ends[0], ConflictError)
    assert ([number for number, _ in sent], done) == ([1, 1], [1])
