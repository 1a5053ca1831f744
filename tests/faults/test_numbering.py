"""A number belongs to one request: lost, refused now or late, filled or paused, it counts once."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from in_process import MODEL, adam, client, datum, deadline, run, server
from scripted import Scripted, lost, undeclared

from tinker_ext import Config
from tinker_ext.errors import TinkerError, UnsafeToRetryError

TRAINING = {"forward", "forward_backward", "optim_step", "save_weights", "load_weights"}
ABSURD = [
    {"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"},
    {"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"},
    {"retry-after": "Mon, 01 Jan 0001 00:00:00 GMT", "date": "Fri, 31 Dec 9999 23:59:59 -2359"},
    {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT", "date": "Mon, 01 Jan 0001 00:00:00 +2359"},
    {"retry-after": "Mon, 99 Foo 2024 99:99:99 GMT"},
    {"retry-after": "9" * 400},
    {"retry-after": "1e400"},
    {"retry-after": "-1e400"},
    {"retry-after": "nan"},
    {"retry-after-ms": "9" * 400},
    {"retry-after-ms": "1e308"},
    {"retry-after": "Mon, 01 Jan 2024 00:00:00 +" + "9" * 30},
]


def effects(app, model_id):
    """What took effect, forward passes (fillers, questions) left out."""
    return [e.op for e in app.log.training(model_id) if not e.error and e.op != "forward"]


def lose(name, times=1):
    """A script that loses the answers to the first requests of an operation."""
    left = times

    async def script(sent, deliver):
        nonlocal left
        if sent.name == name and left:
            left -= 1
            await deliver()
            raise lost()

    return script


def late(inner):
    """Let a server accept a repeated number and refuse it at the poll, as TuFT 0.2.2 does."""
    refused: dict[str, httpx.Response] = {}

    async def script(sent, deliver):
        if sent.name == "retrieve_future" and sent.body["request_id"] in refused:
            return 409, {"detail": "Sequence conflict: seq_id is not the expected one"}
        answer = await inner(sent, deliver)
        if sent.name not in TRAINING:
            return answer
        response = answer or await deliver()
        if response.status_code != 409:
            return response
        name = f"late-{len(refused)}"
        refused[name] = response
        return 202, {"request_id": name}

    return script


@pytest.mark.parametrize("seq", ["dedupe", "strict", "ignore", "gap"])
@pytest.mark.parametrize("operation", ["optim_step", "forward_backward", "save_weights"])
def test_an_undeclared_server_never_trains_twice(seq, operation):
    """F3: who does not say that repeats are recognised is not sent one that may count twice."""

    async def scenario():
        app = server(**undeclared(seq=seq))
        network = Scripted(app, lose(operation))
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ends = []
            for call in (
                lambda: training.forward_backward_async([datum()], "cross_entropy"),
                lambda: training.optim_step_async(adam()),
                lambda: training.save_state_async("s"),
            ):
                ends += await asyncio.gather(await call(), return_exceptions=True)
            time = asyncio.get_running_loop().time()
            return effects(app, training.model_id), ends, time

    done, ends, time = run(scenario)
    assert all(done.count(op) <= 1 for op in done), done
    assert done.count(operation) == 1  # it arrived, and its caller is told so or gets the result
    failed = [end for end in ends if isinstance(end, BaseException)]
    assert all(isinstance(end, UnsafeToRetryError) for end in failed), ends
    assert all("effect" in str(end) for end in failed), ends
    assert time < 300


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_a_number_that_a_failed_call_did_not_use_up(declares, waits, times):
    """F4 M43: TuFT still waits for the number of a load that failed; later calls are not lost."""

    async def scenario():
        flags = {"client_config": {"parallel_fwdbwd_chunks": False}}
        app = server(seq="late", declared=declares, **flags)
        network = Scripted(app)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            saved = await (await training.save_state_async("s"))
            missing = saved.path.replace("/s", "/never")
            ends = []
            for _ in range(times):
                with pytest.warns(FutureWarning):
                    calls = [await training.load_state_async(missing)]
                if waits:
                    await asyncio.wait([asyncio.ensure_future(_end(calls[0]))])
                calls += [
                    await training.forward_backward_async([datum()], "cross_entropy"),
                    await training.optim_step_async(adam()),
                    await training.forward_async([datum()], "cross_entropy"),
                ]
                ends += await asyncio.gather(*map(_end, calls))
            time = asyncio.get_running_loop().time()
            return effects(app, training.model_id), ends, time, network.rate()

    done, ends, time, rate = run(scenario)
    assert done == ["save_weights", *["forward_backward", "optim_step"] * times]
    assert ends == ["RequestFailedError", "", "", ""] * times
    assert time < 10 * times
    assert rate < 20


async def _end(future):
    """The class of the error that a call ends with."""
    try:
        await future
    except TinkerError as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("operation", ["optim_step", "forward_backward", "save_weights"])
@pytest.mark.parametrize("declares", [True, False])
def test_a_number_refused_late(operation, declares):
    """F4: a repeat accepted with 202 and refused at the poll ends the call within seconds."""

    async def scenario():
        settings = {"seq": "strict"}
        app = server(**(settings if declares else undeclared(**settings)))
        network = Scripted(app, late(lose(operation)))
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ends = []
            for call in (
                lambda: training.forward_backward_async([datum()], "cross_entropy"),
                lambda: training.optim_step_async(adam()),
                lambda: training.save_state_async("s"),
                lambda: training.forward_backward_async([datum()], "cross_entropy"),
            ):
                ends += await asyncio.gather(await call(), return_exceptions=True)
            return effects(app, training.model_id), ends, asyncio.get_running_loop().time()

    done, ends, time = run(scenario)
    assert done == ["forward_backward", "optim_step", "save_weights", "forward_backward"]
    failed = [end for end in ends if isinstance(end, BaseException)]
    assert all(isinstance(end, UnsafeToRetryError) for end in failed), ends
    assert all("effect" in str(end) for end in failed), ends
    assert time < 120


def test_a_refused_filler_is_not_filled_again():
    """F6: the calls behind it fail with the reason; a handful of requests, no loop."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
            return 422, {"detail": "this datum is not welcome"}
        if sent.name == "forward":
            return 422, {"detail": "nor is this forward pass"}
        return None

    async def scenario():
        network = Scripted(server(seq="gap"), script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            batch = [datum(first=i) for i in (1, 2, 3)]
            calls = [
                await training.forward_backward_async(batch, "cross_entropy"),
                await training.optim_step_async(adam()),
            ]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            time = asyncio.get_running_loop().time()
            await asyncio.sleep(60.0)
            return ends, time, network

    ends, time, network = run(scenario)
    assert time < 300
    assert "not welcome" in str(ends[0])
    assert isinstance(ends[1], TinkerError)
    assert re.search("not welcome|forward pass", str(ends[1])), ends[1]
    assert network.count("forward") <= 10
    assert network.rate("forward") <= 1.0


@pytest.mark.parametrize("headers", ABSURD)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("operation", ["optim_step", "retrieve_future", "asample"])
def test_absurd_delays_and_dates(headers, status, operation):
    """F7: whatever the header says, the call succeeds, and its number has one body."""
    left = 2

    async def script(sent, deliver):
        nonlocal left
        if sent.name == operation and left and created:
            left -= 1
            return status, {"detail": "later"}, headers
        return None

    created = False

    async def scenario():
        nonlocal created
        app = server()
        network = Scripted(app, script)
        async with client(network, wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            created = True
            if operation == "asample":
                from tinker_ext import ModelInput, SamplingParams

                prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
                await sampling.sample_async(prompt, 1, params)
            else:
                await (await training.optim_step_async(adam(0.5)))
            await (await training.optim_step_async(adam(0.25)))
            posts = network.of("optim_step")
            return posts, effects(app, training.model_id), asyncio.get_running_loop().time()

    posts, done, time = run(scenario)
    assert left == 0
    bodies = {}
    for post in posts:
        rate = post.body["adam_params"]["learning_rate"]
        assert bodies.setdefault(post.body["seq_id"], rate) == rate
    assert len(done) == (1 if operation == "asample" else 2)
    assert time < 200  # twice the longest delay that is accepted, and some


def keys_with_bodies(network):
    """Idempotency key → the bodies it was sent with."""
    found: dict[str, set[str]] = {}
    for sent in network.sent:
        key = sent.headers.get("x-idempotency-key")
        if key is not None:
            found.setdefault(key, set()).add(f"{sent.name} {sent.body!r}")
    return found


@pytest.mark.parametrize("operation", ["optim_step", "forward_backward"])
def test_a_key_belongs_to_one_body(operation):
    """F12: the number of a refused request is used again, its idempotency key is not."""
    left = 1

    async def script(sent, deliver):
        nonlocal left
        if sent.name == operation and left:
            left -= 1
            return 422, {"detail": "no"}
        return None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network, wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            for at in (1, 2):
                calls = [
                    await training.forward_backward_async([datum(first=at)], "cross_entropy"),
                    await training.optim_step_async(adam(0.1 * at)),
                ]
                await asyncio.gather(*calls, return_exceptions=True)
            return keys_with_bodies(network)

    keys = run(scenario)
    assert len(keys) > 4
    assert {key: bodies for key, bodies in keys.items() if len(bodies) > 1} == {}


def test_a_repeat_keeps_its_key():
    """F12: the same body under the same number carries the same key, on every attempt."""

    async def scenario():
        network = Scripted(server(), lose("optim_step", 3))
        async with client(network, wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.optim_step_async(adam()))
            return network.of("optim_step")

    posts = run(scenario)
    assert len(posts) == 4
    assert len({post.headers["x-idempotency-key"] for post in posts}) == 1
    assert {post.body["seq_id"] for post in posts} == {1}


@pytest.mark.parametrize(("seq", "accepted"), [("gap", {1, 3}), ("dedupe", {1})])
def test_the_error_of_a_part_says_what_took_effect(seq, accepted):
    """F13: of three chunks the second is refused; the error names those the server has."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] == 2:
            return 422, {"detail": "not this one"}
        return None

    async def scenario():
        app = server(seq=seq)
        network = Scripted(app, script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            batch = [datum(first=i) for i in (1, 2, 3)]
            future = await training.forward_backward_async(batch, "cross_entropy")
            with pytest.raises(TinkerError) as caught:
                await future
            await asyncio.sleep(60.0)
            return str(caught.value), effects(app, training.model_id)

    said, done = run(scenario)
    assert "not this one" in said
    assert len(done) == len(accepted)
    assert "effect" in said or "accepted" in said
    for part in accepted:
        assert re.search(rf"\b{part}\b", said.replace("422", "")), said


def test_a_model_whose_answer_was_lost_where_repeats_are_refused():
    """M20: 409 to the repeated create_model is not asked for ever: the model gets a new number."""

    async def scenario():
        network = Scripted(server(seq="strict"), lose("create_model"))
        async with client(network) as service:
            await service.create_lora_training_client_async(MODEL, rank=1)
            return asyncio.get_running_loop().time(), network.of("create_model")

    seconds, posts = run(scenario)
    assert seconds < 60
    assert len(posts) < 10
    assert {post.body["model_seq_id"] for post in posts} == {0, 1}


def test_the_parts_behind_a_lost_one_go_on():
    """M20 F13: the server has part 1 and refuses to repeat its answer; 2 and 3 are sent as well."""

    async def scenario():
        app = server(seq="strict")
        network = Scripted(app, lose("forward_backward"))
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            batch = [datum(first=i) for i in (1, 2, 3)]
            future = await training.forward_backward_async(batch, "cross_entropy")
            with pytest.raises(UnsafeToRetryError) as caught:
                await future
            return str(caught.value), effects(app, training.model_id)

    said, done = run(scenario)
    assert done == ["forward_backward"] * 3
    assert "1, 2, 3" in said
    assert "do not submit it again" in said


@pytest.mark.parametrize("seq", ["gap", "dedupe", "strict"])
def test_a_call_of_several_parts_leaves_before_the_results_of_the_one_before(seq):
    """M17: only a server that mixes up its queue is waited for; others get the next at once."""
    held: set[str] = set()
    last_left = asyncio.Event()

    async def script(sent, deliver):
        if sent.name == "forward_backward" and sent.body["seq_id"] in (2, 3):
            response = await deliver()
            held.add(response.json()["request_id"])
            return response
        if sent.name == "forward_backward" and sent.body["seq_id"] == 5:
            last_left.set()
        if sent.name == "retrieve_future" and sent.body["request_id"] in held:
            await last_left.wait()
        return None

    async def scenario():
        network = Scripted(server(seq=seq), script)
        async with client(network, wire="json", config=Config(chunk_datums=1)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            with deadline(60.0):
                calls = [
                    await training.forward_backward_async([datum(), datum()], "cross_entropy")
                    for _ in range(2)
                ]
            await asyncio.gather(*calls)
            return [sent.body["seq_id"] for sent in network.of("forward_backward")]

    assert run(scenario) == [1, 2, 3, 4, 5]
