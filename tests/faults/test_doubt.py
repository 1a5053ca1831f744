"""What a client concludes from odd answers to training requests: never more than they say."""

from __future__ import annotations

import asyncio

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted, lost, undeclared

from tinker_ext.config import Config
from tinker_ext.errors import TinkerError, UnsafeToRetryError

PAGE = "<html><title>login</title></html>"
HTML = {"content-type": "text/html"}
CALLS = {
    "forward_backward": lambda training: training.forward_backward_async(
        [datum()], "cross_entropy"
    ),
    "optim_step": lambda training: training.optim_step_async(adam()),
}


def trained(app, training):
    return [e.op for e in app.log.training(training.model_id) if not e.error and e.op != "forward"]


def play(script, calls, *, wire=None, config=None, **settings):
    """Make calls one after the other; returns what took effect, the ends, and what was sent."""

    async def scenario():
        app = server(**settings)
        network = Scripted(app, script)
        async with client(network, wire=wire, config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            ends = []
            for name in calls:
                future = await CALLS[name](training)
                ends += await asyncio.gather(future, return_exceptions=True)
            return trained(app, training), ends, [(s.name, s.status) for s in network.sent]

    return run(scenario)


def test_a_refusal_at_a_poll_is_not_taken_for_no_effect():
    """M20 F3: call 1 failed, call 2 worked, call 3 trained and its poll says 409: sent once."""
    ids = []

    async def script(sent, deliver):
        if sent.name in CALLS:
            reply = await deliver()
            ids.append(reply.json()["request_id"])
            return reply
        if sent.name == "retrieve_future" and sent.body["request_id"] in ids:
            at = ids.index(sent.body["request_id"])
            if at == 0:
                return 200, {"error": "bad target token", "category": "user"}
            if at >= 2:
                return 409, {"detail": "conflict"}
        return None

    done, ends, _ = play(
        script,
        ["forward_backward", "forward_backward", "optim_step"],
        **undeclared(seq="ignore"),
    )
    assert done.count("optim_step") == 1
    assert isinstance(ends[2], UnsafeToRetryError)


def test_one_broken_question_does_not_change_the_wire():
    """F1 M20: a trained request, then 500, and a 500 to the question: it is not sent as JSON."""
    failures = []

    async def script(sent, deliver):
        if sent.name in (*CALLS, "forward") and len(failures) < 2:
            failures.append(await deliver())
            return 500, {"detail": "Internal"}
        return None

    done, ends, _ = play(script, ["forward_backward"], **undeclared(seq="ignore"))
    assert done == ["forward_backward"]
    assert isinstance(ends[0], UnsafeToRetryError)


@pytest.mark.parametrize("declared", [True, False])
def test_a_page_after_the_work_is_not_an_invitation(declared):
    """M20 M42: a gateway's 404 page may come after the server has trained; nothing is repeated."""
    pages = []

    async def script(sent, deliver):
        if sent.name == "optim_step" and not pages:
            pages.append(await deliver())
            return 404, PAGE, HTML
        return None

    settings = {"seq": "ignore"} if declared else undeclared(seq="ignore")
    done, ends, _ = play(script, ["optim_step", "optim_step"], **settings)
    assert done == ["optim_step", "optim_step"]
    assert isinstance(ends[0], UnsafeToRetryError)
    assert "may or may not" in str(ends[0])


def test_a_conflict_after_a_later_number_proves_nothing():
    """M20: a server that refuses every number below its last one may never have had this one."""
    last, losses = [0], []

    async def script(sent, deliver):
        if sent.name not in (*CALLS, "forward"):
            return None
        seq_id = sent.body["seq_id"]
        if sent.name == "optim_step" and not losses:
            losses.append(seq_id)
            raise lost()
        if seq_id <= last[0]:
            return 409, {"detail": f"seq_id {seq_id} was used"}
        last[0] = seq_id
        return None

    done, ends, _ = play(
        script, ["forward_backward", "optim_step"], wire="json", **undeclared(seq="ignore")
    )
    assert done == ["forward_backward"]
    assert "may or may not" in str(ends[1])
    assert "takes effect" not in str(ends[1])


@pytest.mark.parametrize("declared", [True, False])
def test_a_number_that_a_refused_request_used_up(declared):
    """M20: calls under it are refused, say neither "lost" nor "takes effect", and go on."""
    used = []

    async def script(sent, deliver):
        if sent.name in CALLS and sent.body["seq_id"] == 1:
            used.append(1)
            if len(used) == 1:
                return 400, {"detail": "too long"}
            return 409, {"detail": "seq_id 1 was used"}
        return None

    settings = {"seq": "strict"} if declared else undeclared(seq="strict")
    done, ends, _ = play(script, ["forward_backward"] * 3 + ["optim_step"], wire="json", **settings)
    assert done[-1] == "optim_step"
    said = ends[1] if declared else ends[2]
    assert "may or may not" in str(said)
    assert "takes effect" not in str(said)
    assert not isinstance(ends[3], Exception)


def test_what_was_promised_to_be_sent_again_is():
    """M20: pages at the settling of a lost request leave it lost, and the next call is not sent."""
    pages = []

    async def script(sent, deliver):
        if sent.name == "optim_step" and len(pages) < 6:
            pages.append(sent)
            return 200, PAGE, HTML
        return None

    done, ends, _ = play(
        script, ["optim_step", "forward_backward", "forward_backward"], seq="dedupe"
    )
    assert done == ["optim_step", "forward_backward"]
    assert isinstance(ends[0], TinkerError)
    assert "was not sent" in str(ends[1])


@pytest.mark.parametrize("losses", [2, 3])
def test_numbers_that_may_be_missing_hold_nobody_up(losses):
    """M20 M22: the lost request and the lost question are sent when the server shows its rule."""
    gone = []

    async def script(sent, deliver):
        if sent.name in ("optim_step", "forward") and len(gone) < losses:
            gone.append(sent)
            raise lost()
        return

    done, ends, _ = play(
        script,
        ["forward_backward", "optim_step", "forward_backward", "optim_step"],
        wire="json",
        config=Config(wait_deadline=900.0),
        **undeclared(seq="gap"),
    )
    assert isinstance(ends[1], UnsafeToRetryError)
    assert "Do not submit it anew" in str(ends[1])
    assert not isinstance(ends[-1], Exception)
    assert done == ["forward_backward", "optim_step", "forward_backward", "optim_step"]


CHUNKS = [datum() for _ in range(3)]
SEQS = [{"seq": seq} for seq in ("dedupe", "ignore", "strict", "gap", "late")]
SEQS += [undeclared(seq=seq) for seq in ("dedupe", "ignore", "strict")]


def said(script, settings, *, parts=1, config=None, after=0.0):
    """Make a call under a script; returns its error and what the server has done in the end."""

    async def scenario():
        app = server(**settings)
        async with client(Scripted(app, script), config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            call = await training.forward_backward_async(CHUNKS[:parts], "cross_entropy")
            (error,) = await asyncio.gather(call, return_exceptions=True)
            await asyncio.sleep(after)
            return error, len(trained(app, training))

    return run(scenario)


@pytest.mark.parametrize("settings", SEQS, ids=str)
@pytest.mark.parametrize("answer", [(200, b"}{"), (200, PAGE, HTML), (404, PAGE, HTML)])
@pytest.mark.parametrize("parts", [1, 3])
def test_what_the_server_may_have_done_is_never_called_without_effect(settings, answer, parts):
    """M20 M43: an answer that nobody can read was written after the work was done."""

    async def script(sent, deliver):
        if sent.name == "forward_backward":
            await deliver()
            return answer
        return None

    config = Config(chunk_datums=1, retry_window=20.0)
    error, done = said(script, settings, parts=parts, config=config)
    assert isinstance(error, TinkerError)
    assert done >= 1
    assert "no effect" not in str(error)
    assert "None of the" not in str(error)
    assert "Submit only the parts" not in str(error)


def test_a_number_under_a_gateways_page_is_not_given_to_another_body():
    """M20: the page came after the work, and outlasted the window: the next call is another one."""
    bodies = []

    async def script(sent, deliver):
        if sent.name == "forward_backward" and len(bodies) < 30:
            bodies.append(sent.body)
            await deliver()
            return 404, PAGE, HTML
        return None

    async def scenario():
        app = server(seq="dedupe")
        config = Config(retry_window=5.0)
        async with client(Scripted(app, script), wire="json", config=config) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            call = await training.forward_backward_async([datum()], "cross_entropy")
            (error,) = await asyncio.gather(call, return_exceptions=True)
            bodies.extend([None] * 30)
            await (await training.optim_step_async(adam()))
            return error, [(e.op, e.seq) for e in app.log.training(training.model_id)]

    error, done = run(scenario)
    assert "may or may not have taken effect" in str(error)
    assert done == [("forward_backward", 1), ("optim_step", 2)]


@pytest.mark.parametrize("settings", SEQS[:5], ids=str)
def test_parts_that_are_still_sent_after_a_deadline_are_not_called_without_effect(settings):
    """M19 F13: the parts of a call that has left follow it, whoever waits for them."""

    async def script(sent, deliver):
        if sent.name == "forward_backward":
            await asyncio.sleep(3.0)

    config = Config(chunk_datums=1, wait_deadline=2.0)
    error, done = said(script, settings, parts=3, config=config, after=60.0)
    assert done == 3
    assert "1, 2, 3 may or may not have taken effect" in str(error)
    assert "the others did not" not in str(error)
    assert "Do not submit it again" in str(error)
