"""However a training call ends in an error, the error says what of it took effect, and truly."""

from __future__ import annotations

import asyncio
import itertools
import random
import re

import pytest
from in_process import MODEL, client, datum, deadline, run, server
from scripted import Scripted, fresh_url, lost, undeclared

from tinker_ext import Config
from tinker_ext.errors import DeadlineExceededError, TinkerError
from tinker_ext.telemetry import OperationFinished

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
    "refused": _answered((422, {"detail": "beta1 has an effect only below 1"})),
    "unknown": _answered((401, {"detail": "no"})),
    "busy": _answered((429, {"detail": "no"})),
    "broken": _answered((500, {"detail": "the effective batch is too large"})),
    "a page": _answered((200, "<html>")),
    "no id": _answered((200, {})),
    "lost": _lost,  # every answer, also to repeats
    "held": _held,
    "swallowed": _swallowed,
}
POLLS = {
    "failed": (200, {"error": "bad data", "category": "user"}),
    "failed later": (200, {"error": "bad data", "category": "user"}),
    "without a category": (400, {"detail": "bad data"}),
    "expired": (410, {"detail": "expired"}),
    "missing": (404, {"detail": "no such future"}),
    "conflict": (409, {"detail": "conflict"}),
    "another key": (401, {"detail": "who? this key has no effect"}),
    "another result": (200, {"type": "brand_new"}),
    "never": None,
}


def _ended(rule, plan, parts, *, closed=False):
    """Make a call whose parts end as planned; its error, and the parts with an effect."""
    ids = {}
    part_of = {}

    async def script(sent, deliver):
        if sent.name == "forward_backward":
            (data,) = sent.body["forward_backward_input"]["data"]
            seq_id, part = sent.body["seq_id"], data["model_input"]["chunks"][0]["tokens"][0]
            name = plan.get(part)
            if name == "lost once":
                name = None if seq_id in part_of else "lost"
            part_of[seq_id] = part
            if name in POSTS:
                return await POSTS[name](sent, deliver)
            if name == "slow":
                await asyncio.sleep(9.0)
            if name in ("failed", "failed later"):  # it never reaches the engine
                ids[f"failed {part}"] = name
                return 200, {"request_id": f"failed {part}"}
            if name in POLLS:
                response = await deliver()
                ids[response.json().get("request_id")] = name
                return response
        if sent.name == "retrieve_future" and sent.body["request_id"] in ids:
            name = ids[sent.body["request_id"]]
            if name == "failed later":
                await asyncio.sleep(20.0)
            return POLLS[name] or await asyncio.sleep(1e6)
        return None

    async def scenario():
        app = server(**(undeclared(seq="ignore") if rule == "undeclared" else {"seq": rule}))
        network = Scripted(app, script)
        # Minutes pass, and a heartbeat each ten seconds would be most of the requests.
        config = Config(chunk_datums=1, retry_window=30.0, heartbeat_interval=100.0)
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
            await asyncio.sleep(90.0)  # what the server does in the end counts
            done = app.log.training(training.model_id)
            return caught.value, {part_of[e.seq] for e in done if e.op == "forward_backward"}

    return run(scenario)


def _in_doubt(said, parts):
    """The parts of which an error says that nobody knows."""
    if parts == 1:
        return {1} if "may or may not" in said else set()
    named = re.search(r"of this call ([\d, ]+) may or may not|Of ([\d, ]+) it is not known", said)
    return {int(part) for part in re.findall(r"\d+", named[0])} if named else set()


def _check(error, took, parts):
    said, taken = error.effect, set(error.parts_taken)
    assert said
    assert said in str(error)
    unknown = _in_doubt(said, parts)
    assert taken <= took, (said, took)
    assert not taken & unknown, said
    assert took <= taken | unknown, (said, took)
    if parts > 1:
        assert f"the {parts} parts" in said
    if taken | unknown:
        assert re.search("(takes?|taken|took) effect", said), said
        assert "had no effect." not in said
        assert "was not sent." not in said
        assert "None of the" not in said
    hint = (error.hint or "").lower()
    missing = set(range(1, parts + 1)) - taken - unknown
    if unknown:  # it may count twice
        assert "submit only" not in hint
        assert not re.search(
            "(?<!not )submit it (again|anew)", hint.replace("before you submit", "")
        )
    if missing and taken | unknown:  # they would be left out
        assert not re.search("not submit it (again|anew)", hint), hint
        assert "go on with the next one" not in hint
    if "submit only" in hint:
        assert missing


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in RULES for name in POSTS]
    + [(rule, name) for rule in RULES for name in POLLS],
)
def test_an_error_says_what_took_effect(rule, name, parts):
    """F13: refused, lost, late, expired or unreadable, on every kind of server."""
    error, took = _ended(rule, {max(1, parts - 1): name}, parts)
    _check(error, took, parts)


@pytest.mark.parametrize("name", POSTS)
@pytest.mark.parametrize("rule", RULES)
def test_parts_behind_one_that_does_not_get_through_are_not_called_taken(rule, name):
    """F13: a server that works in order never gets to what it accepted behind a missing number."""
    error, took = _ended(rule, {2: name}, 4)
    _check(error, took, 4)


@pytest.mark.parametrize("rule", RULES)
def test_a_part_that_the_server_failed_is_not_called_taken(rule):
    """F13: whichever part ends the call, the others are told by their own results."""
    for plan in (
        {2: "failed", 3: "refused"},
        {2: "failed", 1: "another key"},
        {1: "failed", 3: "lost"},
        {1: "failed", 2: "failed"},
        {3: "failed", 2: "never"},
        {2: "failed later", 3: "refused"},
        {2: "failed later", 3: "lost once"},
        {2: "failed", 3: "lost once"},
    ):
        error, took = _ended(rule, plan, 3)
        _check(error, took, 3)


@pytest.mark.parametrize("rule", ["dedupe", "strict"])
def test_parts_behind_one_that_the_server_failed_are_not_sent(rule):
    """F13: where each waits for the answer to the one before it, the last ones had not left."""
    error, took = _ended(rule, {1: "failed", 2: "slow"}, 4)
    assert took == {2}
    assert (
        error.effect == "Of the 4 parts of this call 2 (seq_id 2) took effect, the others did not."
    )


@pytest.mark.parametrize("rule", RULES)
def test_any_two_parts_that_end_badly_are_told_truly(rule):
    """F13: pairs of faults by seed, in any order, in calls of two to five parts."""
    chance = random.Random(f"effects {rule}")
    pairs = list(itertools.product([*POSTS, *POLLS], repeat=2))
    for names in chance.sample(pairs, 25):
        parts = chance.randint(2, 5)
        plan = dict(zip(chance.sample(range(1, parts + 1), 2), names, strict=True))
        error, took = _ended(rule, plan, parts, closed=chance.random() < 0.15)
        try:
            _check(error, took, parts)
        except AssertionError as wrong:
            raise AssertionError(f"{rule} {parts} {plan}: {error} {error.parts_taken}") from wrong


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", ["held", "swallowed", "never"])
@pytest.mark.parametrize("rule", ["gap", "strict", "ignore"])
def test_a_closed_client_says_what_took_effect(rule, name, parts):
    """F13 F20: the server goes on with what it has."""
    error, took = _ended(rule, {max(1, parts - 1): name}, parts, closed=True)
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


def test_a_blocked_queue_says_what_took_effect():
    """F6 F13: whatever waits behind a number that stays refused has no effect, and says so."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
            await asyncio.sleep(1.0)  # those behind it are accepted meanwhile
            return 422, {"detail": "this datum is not welcome"}
        if sent.name == "forward":
            return 422, {"detail": "nor is this forward pass"}
        return None

    async def scenario():
        app = server(seq="gap")
        network = Scripted(app, script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            batches = [[datum(first=i + 1) for i in range(parts)] for parts in (1, 1, 2)]
            calls = [await training.forward_backward_async(b, "cross_entropy") for b in batches]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            with pytest.raises(TinkerError) as later:
                await training.forward_backward_async([datum()], "cross_entropy")
            done = {e.seq for e in app.log.training(training.model_id)}
            return [*ends, later.value], done

    ends, done = run(scenario)
    assert done == {1}
    assert [error.parts_taken for error in ends] == [(), (), (), ()]
    assert "not welcome" in str(ends[0])
    assert "It had no effect." in str(ends[1])
    assert "None of the 2 parts" in str(ends[2])
    assert "It was not sent." in str(ends[3])


def test_an_observer_is_not_told_that_an_accepted_call_had_no_effect():
    """F13 F20: the server goes on with what it has, also for the run log of a closed client."""
    seen, ids = [], set()

    async def script(sent, deliver):
        if sent.name == "forward_backward":
            response = await deliver()
            ids.add(response.json()["request_id"])
            return response
        if sent.name == "retrieve_future" and sent.body["request_id"] in ids:
            await asyncio.sleep(1e6)
        return None

    async def scenario():
        network = Scripted(server(seq="gap"), script)
        async with client(network, wire="json", on_event=seen.append) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            future = await training.forward_backward_async([datum()], "cross_entropy")
            await asyncio.sleep(3.0)
            await service.close("success")
            with pytest.raises(TinkerError) as caught:
                await future
            return caught.value

    error = run(scenario)
    told = {event.operation: event.effect for event in seen if isinstance(event, OperationFinished)}
    assert error.parts_taken == ()
    assert "may or may not" in error.effect
    assert "has accepted it (seq_id 1), with no result yet" in error.effect
    assert told["forward_backward"] == "unknown"


def test_an_observer_is_not_told_that_a_call_had_no_effect_when_a_part_had():
    """F13: a part that took effect counts in the run log, also when another was refused."""
    seen = []

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
            return 422, {"detail": "this datum is not welcome"}
        return None

    async def scenario():
        network = Scripted(server(seq="dedupe"), script)
        options = {"wire": "json", "config": Config(chunk_datums=1), "on_event": seen.append}
        async with client(network, **options) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            future = await training.forward_backward_async([datum()] * 2, "cross_entropy")
            with pytest.raises(TinkerError) as caught:
                await future
            return caught.value

    error = run(scenario)
    told = {event.operation: event.effect for event in seen if isinstance(event, OperationFinished)}
    assert error.parts_taken == (1,)
    assert told["forward_backward"] == "unknown"


def test_a_middle_part_that_cannot_be_filled_takes_the_later_ones_with_it():
    """F6 F13: parts behind a number that nothing can fill are never called accepted."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == 3:
            return 422, {"detail": "this datum is not welcome"}
        if sent.name == "forward":
            await asyncio.sleep(5.0)  # the later parts are accepted meanwhile
            return 422, {"detail": "nor is this forward pass"}
        return None

    async def scenario():
        app = server(seq="gap")
        network = Scripted(app, script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            batch = [datum(first=i) for i in (1, 2, 3, 4)]
            future = await training.forward_backward_async(batch, "cross_entropy")
            (error,) = await asyncio.gather(future, return_exceptions=True)
            return error

    error = run(scenario)
    assert "not welcome" in str(error) or "forward pass" in str(error)
    assert error.parts_taken == (1,), error
