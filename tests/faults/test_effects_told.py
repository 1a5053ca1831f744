"""However a training call ends in an error, the error says what of it took effect, and truly."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, client, datum, deadline, run, server
from scripted import Scripted, fresh_url, lost, undeclared

from tinker_ext import Config
from tinker_ext.errors import DeadlineExceededError, TinkerError

RULES = ("gap", "dedupe", "strict", "ignore", "late", "undeclared")


def _answered(answer):
    async def script(sent, deliver):
        return answer

    return script


async def _lost(sent, deliver):
    await deliver()
    raise lost()


async def _held(sent, deliver):
    await deliver()
    await asyncio.sleep(1e6)


async def _swallowed(sent, deliver):
    await asyncio.sleep(1e6)


# What becomes of one training request: at its post, or when its result is asked for.
POSTS = {
    "refused": _answered((422, {"detail": "no"})),
    "unknown": _answered((401, {"detail": "no"})),
    "busy": _answered((429, {"detail": "no"})),
    "broken": _answered((500, {"detail": "no"})),
    "a page": _answered((200, "<html>")),
    "no id": _answered((200, {})),
    "lost": _lost,  # every answer, also to repeats
    "held": _held,
    "swallowed": _swallowed,
}
POLLS = {
    "failed": (200, {"error": "bad data", "category": "user"}),
    "expired": (410, {"detail": "expired"}),
    "missing": (404, {"detail": "no such future"}),
    "conflict": (409, {"detail": "conflict"}),
    "another key": (401, {"detail": "who"}),
    "another result": (200, {"type": "brand_new"}),
    "never": None,
}


def _ended(rule, name, parts, *, closed=False):
    """Make a call whose last but one part ends badly; its error, and the parts with an effect."""
    struck = max(1, parts - 1)
    ids = set()

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == struck:
            if name in POSTS:
                return await POSTS[name](sent, deliver)
            if name == "failed":  # it never reaches the engine
                ids.add("failed")
                return 200, {"request_id": "failed"}
            response = await deliver()
            ids.add(response.json()["request_id"])
            return response
        if sent.name == "retrieve_future" and sent.body["request_id"] in ids:
            return POLLS[name] or await asyncio.sleep(1e6)
        return None

    async def scenario():
        app = server(**(undeclared(seq="ignore") if rule == "undeclared" else {"seq": rule}))
        network = Scripted(app, script)
        config = Config(chunk_datums=1, retry_window=60.0)
        async with client(network, wire="json", config=config, base_url=fresh_url()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with deadline(200.0):
                batch = [datum(first=i + 1) for i in range(parts)]
                future = await training.forward_backward_async(batch, "cross_entropy")
            if closed:
                await asyncio.sleep(3.0)
                await service.close("success")
            with pytest.raises(TinkerError) as caught:
                await future
            done = app.log.training(training.model_id)
            return caught.value, {e.seq for e in done if e.op == "forward_backward"}

    return run(scenario)


def _check(error, took, parts):
    said = str(error)
    assert error.parts_taken is not None, said
    if "had no effect." in said or "It was not sent." in said or "None of the" in said:
        assert took == set(), said
        assert error.parts_taken == ()
    elif error.parts_taken:
        assert "take effect" in said or "takes effect" in said or "taken effect" in said
    else:
        assert "may or may not" in said or "may have received it" in said, said
    if parts > 1 and not error.parts_taken:
        assert f"the {parts} parts" in said


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in RULES for name in POSTS]
    + [(rule, name) for rule in ("gap", "late") for name in POLLS],
)
def test_an_error_says_what_took_effect(rule, name, parts):
    """F13: refused, lost, late, expired or unreadable, on every kind of server."""
    error, took = _ended(rule, name, parts)
    _check(error, took, parts)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", ["held", "swallowed", "never"])
@pytest.mark.parametrize("rule", ["gap", "strict", "ignore"])
def test_a_closed_client_says_what_took_effect(rule, name, parts):
    """F13 F20: the server goes on with what it has."""
    error, took = _ended(rule, name, parts, closed=True)
    _check(error, took, parts)


def test_a_call_that_was_never_sent_says_so():
    """F13: its deadline passed while it waited behind another."""

    async def script(sent, deliver):
        if sent.name == "forward_backward":
            await asyncio.sleep(50.0)

    async def scenario():
        network = Scripted(server(seq="strict"), script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            first = await training.forward_backward_async([datum()], "cross_entropy")
            with deadline(5.0):
                second = await training.forward_backward_async([datum()], "cross_entropy")
            with pytest.raises(DeadlineExceededError, match="was not sent") as caught:
                await second
            await first
            return caught.value

    assert run(scenario).parts_taken == ()
