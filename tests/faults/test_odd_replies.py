"""Replies that no good server sends: none costs a number, a key, a storm or a call without end."""

from __future__ import annotations

import asyncio
import itertools
import logging
import traceback

import pytest
from in_process import MODEL, adam, client, datum, deadline, run, seqs, server
from scripted import Scripted, page, reply

from tinker_ext import ModelInput, SamplingParams
from tinker_ext.errors import (
    APIResponseValidationError,
    APIStatusError,
    DeadlineExceededError,
    FutureExpiredError,
    TinkerError,
    TraceExportError,
)

PROMPT = ModelInput.from_ints([1])
ONE = SamplingParams(max_tokens=1)


@pytest.mark.parametrize("seq", ["gap", "dedupe"])
@pytest.mark.parametrize("arrived", [False, True], ids=["before the server", "after it"])
def test_a_login_page_with_status_200_does_not_lose_a_number(seq, arrived):
    """M20: a page instead of an acceptance is asked again, then settled before the next call."""

    async def scenario():
        app = server(seq=seq)
        down = True

        async def script(sent, deliver):
            if sent.name != "optim_step" or not down:
                return None
            if arrived:
                await deliver()
            return page(200)

        network = Scripted(app, script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            with pytest.raises(APIResponseValidationError, match="sent again, with the same"):
                await (await training.optim_step_async(adam()))
            asked = network.count("optim_step")
            down = False
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            effects = app.log.training(training.model_id)
            return asked, [(effect.op, effect.seq) for effect in effects]

    asked, effects = run(scenario)
    assert asked == 3
    assert effects == [("forward_backward", 1), ("optim_step", 2), ("forward_backward", 3)]


def test_a_login_page_on_a_server_without_memory_is_not_asked_again():
    """M20: where a repeat would count twice one unreadable acceptance is the end of the call."""

    async def scenario():
        app = server(seq="ignore")

        async def script(sent, deliver):
            if sent.name != "optim_step":
                return None
            await deliver()
            return page(200)

        network = Scripted(app, script)
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with pytest.raises(TinkerError):
                await (await training.optim_step_async(adam()))
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            return network.count("optim_step"), seqs(app, training.model_id)

    assert run(scenario) == (1, [1, 2])


LOOK_UPS = {
    "list_training_runs": lambda s, t, r: r.list_training_runs_async(),
    "call": lambda s, t, r: s.call_async("health_check"),
    "capabilities": lambda s, t, r: s.get_server_capabilities_async(),
    "get_info": lambda s, t, r: t.get_info_async(),
    "create_lora": lambda s, t, r: s.create_lora_training_client_async(MODEL),
    "create_sampling": lambda s, t, r: s.create_sampling_client_async(base_model=MODEL),
    "trace": lambda s, t, r: r.export_session_trace_async("s"),
    "copy": lambda s, t, r: s.copy_weights("tinker://a/weights/b", project_id="p"),
    "sampler of weights": lambda s, t, r: t.save_weights_and_get_sampling_client_async(),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_deadline_ends_every_kind_of_call(name):
    """M42: `deadline(2)` on a server that accepts and never answers."""

    async def scenario():
        silent = False

        async def script(sent, deliver):
            if silent:
                await asyncio.sleep(100)
                raise ConnectionResetError
            return

        async with client(Scripted(server(), script)) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            rest = service.create_rest_client()
            silent = True
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(DeadlineExceededError), deadline(2.0):
                await LOOK_UPS[name](service, training, rest)
            took = loop.time() - began
            silent = False
        return took

    assert run(scenario) <= 2.1


@pytest.mark.parametrize("key", ["tml-s3cr", "hunter2-sekret", "eyJhbGci.sekret.sig"])
def test_short_keys_are_blanked_too(key, caplog):
    """F32: a server that echoes a key of eight characters does not put it into errors or logs."""
    caplog.set_level(logging.DEBUG)

    async def scenario():
        said = set()

        async def script(sent, deliver):
            if sent.name in said:
                return 401, {"detail": f"unknown key {sent.headers['x-api-key']}"}
            return None

        errors = []
        async with client(Scripted(server(), script), api_key=key) as service:
            rest = service.create_rest_client()
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            for name, ask in {
                "sessions": lambda: rest.list_sessions_async(),
                "asample": lambda: sampling.sample_async(PROMPT, 1, ONE),
                "retrieve_future": lambda: sampling.sample_async(PROMPT, 1, ONE),
                "optim_step": lambda: training.optim_step(adam()),
            }.items():
                said.add(name)
                with pytest.raises(APIStatusError) as caught:
                    await ask()
                errors.append(caught.value)
                said.clear()
        return errors

    for error in run(scenario):
        text = "".join(traceback.format_exception(error))
        assert "unknown key" in text
        assert key not in text + repr(error.body) + repr(error.response.content)
    assert key not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        {"status": "brand_new"},
        {"status": "ready"},
        {"status": "ready", "url": None},
        {"status": "failed", "error": "out of disk"},
        {},
    ],
    ids=str,
)
def test_a_trace_ends_whatever_the_server_says(body):
    """F51: anything but "pending" and a URL ends the export with RuntimeError."""

    async def scenario():
        asked = 0

        async def script(sent, deliver):
            nonlocal asked
            if "trace" not in sent.name:
                return None
            asked += 1
            return reply(200, {"status": "pending"} if asked < 3 else body)

        async with client(Scripted(server(), script, most=200)) as service:
            with pytest.raises((TraceExportError, APIResponseValidationError)) as caught:
                await service.create_rest_client().export_session_trace_async("s")
        return caught.value, asked

    error, asked = run(scenario)
    assert asked == 3
    assert isinstance(error, (RuntimeError, APIResponseValidationError))
    if "error" in body:
        assert "out of disk" in str(error)


@pytest.mark.parametrize("total", [None, 10**9], ids=["no total", "a total that lies"])
def test_listings_end_on_a_server_that_ignores_offsets(total):
    """M32: the same page again is the end, not the beginning of an endless list."""

    async def scenario():
        async def script(sent, deliver):
            if sent.name != "sessions":
                return None
            body = {"sessions": ["s1", "s2"]}
            if total is not None:
                body["cursor"] = {"limit": 2, "offset": 0, "total_count": total}
            return reply(200, body)

        network = Scripted(server(), script, most=200)
        async with client(network) as service:
            found = [each async for each in service.create_rest_client().sessions(2)]
        return found, network.count("sessions")

    assert run(scenario) == (["s1", "s2"], 2)


def test_expired_samples_are_submitted_anew_with_growing_pauses():
    """M42: a server that forgets every sample at once is asked six times, not as fast as it can."""

    async def scenario():
        async def script(sent, deliver):
            return (410, {"detail": "gone"}) if sent.name == "retrieve_future" else None

        network = Scripted(server(), script)
        async with client(network) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            calls = [sampler.sample(PROMPT, 1, ONE) for _ in range(8)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
        return ends, [sent.when for sent in network.of("asample")], network.rate("asample", 1.0)

    ends, times, rate = run(scenario)
    assert {type(end) for end in ends} == {FutureExpiredError}
    assert len(times) == 8 * 6
    assert times[-1] - times[0] > 2.0
    assert rate <= 8 + 20  # the first of each is the work itself


@pytest.mark.parametrize(
    "expires",
    [
        "Mon, 01 Jan 2030 00:00:00 +99999999999999",
        "Mon, 01 Jan 99999999999 00:00:00 GMT",
        "Mon, 01 Jan 2030 99999999999999999999:00:00 GMT",
        "Mon, 99999999999999999999 Jan 2030 00:00:00 GMT",
        "0",
        "",
        "x" * 6000,
    ],
    ids=itertools.count(),
)
def test_an_absurd_expiry_of_an_archive_link(expires):
    """F29 F31: a date that no calendar has means the usual life of a link."""

    async def scenario():
        async def script(sent, deliver):
            if "archive" not in sent.name:
                return None
            return reply(302, b"", {"location": "https://x.test/y", "expires": expires})

        async with client(Scripted(server(), script)) as service:
            rest = service.create_rest_client()
            return await rest.get_checkpoint_archive_url_async("r", "weights/1")

    link = run(scenario)
    assert link.url == "https://x.test/y"
    assert link.expires is not None


@pytest.mark.parametrize("ids", ["q", {"a": 1}, [1], 7])
def test_sequence_ids_that_are_not_a_list_of_texts(ids):
    """F2: a text is not a list of its letters."""

    async def scenario():
        async def script(sent, deliver):
            if sent.name != "asample":
                return None
            return reply(200, {"request_id": "r", "sample_sequence_ids": ids})

        async with client(Scripted(server(), script)) as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with pytest.raises(APIResponseValidationError, match=r"sample_sequence_ids|iterable"):
                await sampler.sample_async(PROMPT, 1, ONE)

    run(scenario)


def test_a_304_may_name_the_length_of_what_it_does_not_send():
    """RFC 9110 §8.6: it is read as it is, and not asked for again as a cut reply."""

    async def scenario():
        async def script(sent, deliver):
            return reply(304, b"", {"content-length": "5"}) if sent.name == "sessions" else None

        network = Scripted(server(), script)
        async with client(network) as service:
            with pytest.raises(TinkerError):
                await service.create_rest_client().list_sessions_async()
        return network.count("sessions")

    assert run(scenario) == 1
