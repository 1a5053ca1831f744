"""What a server is taken for, how long it is waited for, what is said of replies nobody reads."""

from __future__ import annotations

import asyncio

import pytest
from in_process import client, run
from stub_server import StubServer
from tinker_api import operations as api
from virtual_clock import run_virtual

from tinker_ext import Config, ModelInput, SamplingParams
from tinker_ext._transport.messages import Reply
from tinker_ext.core.server import foreign, is_missing_endpoint, prepare, unreadable
from tinker_ext.errors import (
    APIResponseValidationError,
    BillingError,
    ClientClosedError,
    FeatureMissingError,
    InvalidInputError,
    RateLimitError,
    TinkerError,
    error_for_status,
)


def now():
    return round(asyncio.get_running_loop().time(), 3)


@pytest.mark.parametrize(
    ("answer", "error", "seconds"),
    [
        (None, FeatureMissingError, 3.0),  # no answer: what is known is said
        ((404, {"detail": "Not Found"}), APIResponseValidationError, 0.0),
        ((200, "<html>"), APIResponseValidationError, 0.0),
        ((401, {"detail": "who?"}), FeatureMissingError, 0.0),
        ((200, {"supported_models": []}), FeatureMissingError, 0.0),
    ],
)
def test_a_server_that_lacks_an_endpoint_is_asked_whether_it_is_one(answer, error, seconds):
    """F30: once, and not for long; one that has shown it is not asked again."""

    async def scenario():
        async def handler(operation, body, request):
            if operation == "get_server_capabilities":
                return answer or await asyncio.sleep(1e6)
            return 404, {"detail": "Not Found"}

        stub = StubServer(handler)
        async with client(stub) as service:
            server = service._workspace.server
            with pytest.raises(error) as caught:
                await server.call(api.GET_TRAINING_RUN, training_run_id="x")
            assert now() == seconds
            if error is APIResponseValidationError:
                assert "not a Tinker server" in str(caught.value)
                assert "ends before /api/v1" in str(caught.value)
            with pytest.raises(error):
                await server.call(api.GET_TRAINING_RUN, training_run_id="x")
            shown = error is FeatureMissingError and answer is not None
            assert stub.counts["get_server_capabilities"] == (1 if shown else 2)

    run(scenario)


def test_what_a_server_announces_is_fetched_at_once():
    """M15 M42: polls that were answered at once wait for their turn, the fetch behind them not."""

    async def scenario():
        def handler(operation, body, request):
            if operation != "retrieve_future":
                return None
            polls = times.setdefault(body["request_id"], [])
            polls.append(now())
            if len(polls) == 1:
                return 408, {"queue_state": "active"}
            size = {"status": "complete_metadata", "response_payload_size": 40}
            return (200, size) if len(polls) == 2 else None

        times = {}
        flags = {"allow_metadata_only": True}
        async with client(StubServer(handler, config=flags)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
            await asyncio.gather(*(sampler.sample(prompt, 1, params) for _ in range(30)))
        return list(times.values())

    assert all(fetched == announced for _, announced, fetched in run(scenario))


def test_closing_ends_the_wait_for_what_a_server_speaks():
    """M21: whoever waits is told, and the next client asks anew."""

    async def scenario():
        async def deaf(operation, body, request):
            await asyncio.sleep(1e6)

        service = client(StubServer(deaf))
        server = service._workspace.server
        waits = [asyncio.ensure_future(server.ready()) for _ in range(2)]
        await asyncio.sleep(1.0)
        await server.aclose()
        ends = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(end) for end in ends] == [ClientClosedError] * 2
        assert "closed while this was under way" in str(ends[0])

    run(scenario)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"forward": 120.0, "session_heartbeat": 10.0, "retrieve_future": 45.0}),
        ({"request_timeout": 200.0}, {"forward": 200.0, "retrieve_futures": 45.0}),
        ({"request_timeout": 5.0}, {"forward": 5.0, "send_telemetry": 5.0}),
        ({"poll_timeout": 7.0}, {"retrieve_future": 7.0, "retrieve_futures": 7.0}),
        ({"heartbeat_timeout": 3.0}, {"session_heartbeat": 3.0}),
    ],
)
def test_the_time_for_one_attempt(settings, wanted):
    """M24: what the user sets, unless the document allows an operation less than a minute."""

    async def scenario():
        config = Config(**settings)
        async with client(StubServer(), config=config) as service:
            seconds = service._workspace.server.seconds
            for op in api.OPERATIONS.values():
                if op.seconds < 60.0 and op.name not in ("session_heartbeat", "retrieve_future"):
                    assert seconds[op.name] <= max(op.seconds, config.poll_timeout)
            return {name: seconds[name] for name in wanted}

    if "request_timeout" not in settings:
        wanted.pop("forward", None)
    found = run(scenario)
    assert {name: found[name] for name in wanted} == wanted


def test_a_server_without_settings_is_paid_as_long_as_the_config_says():
    """F21: `billing_pause` counts where the server's word on it cannot be had."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "client/config":
                return 401, {"detail": "who?"}
            return 402, {"detail": "no credit"}

        async with client(StubServer(handler), config=Config(billing_pause=20.0)) as service:
            with pytest.raises(BillingError):
                await service._workspace.server.call(api.GET_TRAINING_RUN, training_run_id="x")
            return now()

    assert run(scenario) == 20.0


def test_a_forked_child_has_a_session_and_a_connection_of_its_own():
    """M21 F22: numbers begin anew, and the server's word on unpaid bills still holds."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "create_session":
                return 200, {"session_id": f"S{stub.counts[operation]}"}
            if operation == "create_sampling_session":
                made.append((body["session_id"], body["sampling_session_seq_id"]))
            if operation == "asample" and stub.counts["asample"] > 1:
                return 402, {"detail": "no credit"}
            return None

        made = []
        stub = StubServer(handler, config={"billing_exception_max_pause_duration_sec": 20})
        async with client(stub) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            prompt, params = ModelInput.from_ints([1]), SamplingParams(max_tokens=1)
            await sampler.sample(prompt, 1, params)
            parent = service._workspace.server.connection
            type(service._workspace.runtime).generation += 1
            try:
                service._workspace.after_fork()
                again = await service.create_sampling_client_async(base_model="m")
                assert service._workspace.server.connection is not parent
                began = now()
                with pytest.raises(TinkerError, match="402"):
                    await again.sample(prompt, 1, params)
                lasted = now() - began
                await service.close("success")
            finally:
                type(service._workspace.runtime).generation -= 1
            await parent.aclose()
            return made, stub.counts["client/config"], lasted

    made, asked, lasted = run_virtual(scenario())  # the parent's timers are left
    assert made == [("S1", 0), ("S2", 0)]
    assert asked == 1
    assert 15.0 <= lasted <= 25.0


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (503, "the server behind it is down or unwell"),
        (401, "a gateway in front of the server refuses the request"),
        (200, "it is not a Tinker server"),
        (404, "it is not a Tinker server"),
    ],
)
def test_what_is_said_of_another_server(status, what):
    """F30: its address, its answer, and as much of the text as fits a line."""
    page = b"<html>\n" + b"x" * 400
    said = foreign("http://a", status, {"content-type": "text/html; charset=x"}, page)
    assert said.startswith(f"http://a answers, but {what}: GET api/v1/get_server_capabilities gave")
    assert f"HTTP {status} (text/html) <html> {'x' * 73}." in said
    assert "x" * 74 not in said
    assert foreign("http://a", 200, {}, b"").endswith("HTTP 200 (no content type).")
    spaces = b"a" + b" " * 499 + b"b"
    assert foreign("http://a", 200, {}, spaces).endswith("(no content type) a.")


def test_what_is_said_of_a_reply_that_cannot_be_read():
    """M15: the start of it, not megabytes of it."""
    long = Reply(200, {}, b"y" * 5000, 0.0)
    error = unreadable(long, "Thing", "r1", ValueError("z" * 1000))
    assert f"does not read as Thing: ValueError: {'z' * 300}. It starts" in error.message
    assert error.body == "y" * 200
    assert error.message.endswith(f"It starts with {'y' * 200!r}.")
    assert error.request_id == "r1"
    assert len(error.response.content) == 2000
    assert isinstance(error.__cause__, ValueError)
    page = unreadable(Reply(200, {}, b"<html>", 0.0), "Thing", None, ValueError("no"))
    assert page.hint != error.hint


@pytest.mark.parametrize(
    ("number", "fits"),
    [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False), (0, True)],
)
def test_numbers_of_a_query(number, fits):
    """M13: 64 bits, which is what servers read."""
    arguments = {"limit": number}
    if fits:
        assert ("limit", str(number)) in prepare(api.LIST_TRAINING_RUNS, arguments).query
    else:
        with pytest.raises(InvalidInputError, match="limit must be a whole number of at most 64"):
            prepare(api.LIST_TRAINING_RUNS, arguments)


@pytest.mark.parametrize(
    ("status", "body", "missing"),
    [
        (404, b'{"detail":"Not Found"}', True),
        (404, b'{"detail":"Not found"}', True),
        (404, b'{"detail":"no such model"}', False),
        (404, b'{"error":"Not Found"}', False),
        (404, b"", True),
        (404, b"Not Found\n", True),
        (404, b"no such model", False),
        (404, b"<html>Not Found</html>", False),
        (405, b'{"detail":"whatever"}', True),
        (501, b'{"detail":"whatever"}', True),
        (501, b"<html>", False),
    ],
)
def test_no_such_endpoint_and_no_such_object(status, body, missing):
    """M15: the bare words of a framework against a reason; a page says nothing of the server."""
    assert is_missing_endpoint(error_for_status(status, body, {})) is missing


def test_bytes_under_way_are_those_of_the_user_or_the_server():
    """M42: a setting of the user holds, also one that the server would exceed."""

    async def scenario(**settings):
        flags = {"fwdbwd_dispatch_bytes_semaphore_size": 77}
        async with client(StubServer(config=flags), config=Config(**settings)) as service:
            server = service._workspace.server
            asked = ("train_bytes_in_flight", "fwdbwd_dispatch_bytes_semaphore_size")
            before = server.bytes_allowed(*asked)
            await service.create_sampling_client_async(base_model="m")
            return before, server.bytes_allowed(*asked)

    default = Config().train_bytes_in_flight
    assert run(lambda: scenario()) == (default, 77)
    assert run(lambda: scenario(train_bytes_in_flight=5)) == (5, 5)


def test_a_refusal_for_now_is_not_a_missing_endpoint():
    """M15: only 404, 405 and 501 can mean that."""

    async def scenario():
        def busy(operation, body, request):
            return (429, {"detail": "x"}) if operation == "create_session" else None

        config = Config(retry_window=5.0)
        async with client(StubServer(busy), config=config) as service:
            with pytest.raises(RateLimitError):
                await service.create_sampling_client_async(base_model="m")

    run(scenario)


@pytest.mark.parametrize(
    ("config", "looks"),
    [
        ({"sample_max_concurrent_requests": 9}, 0),
        ({"hello": "world"}, 1),
        (None, 1),
    ],
)
def test_a_server_that_said_what_it_does_is_not_asked_what_it_is(config, looks):
    """F31: any web server says 404; one that has sent its settings is known."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "get_server_capabilities":
                return 200, {"supported_models": []}
            return None

        stub = StubServer(handler, config=config)
        async with client(stub, wire="json") as service:
            for _ in range(2):
                with pytest.raises(FeatureMissingError):
                    await service.create_rest_client().get_session_async("nobody")
        return stub.counts["get_server_capabilities"]

    assert run(scenario) == looks
