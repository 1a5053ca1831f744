"""Sessions: made once and late, kept alive, ended with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext.config import Config
from tinker_ext.errors import SessionEndedError


def test_one_session_for_many_first_calls():
    """M21: the session is made when first needed, and only once."""

    async def scenario():
        async def slow(operation, body, request):
            if operation == "create_session":
                await asyncio.sleep(1.0)
            return

        stub = StubServer(slow)
        async with client(stub, user_metadata={"a": "b"}, project_id="p") as service:
            assert stub.requests == []
            await asyncio.gather(
                *(service.create_lora_training_client_async("m", rank=4) for _ in range(5))
            )
            bodies = [body for op, body, _ in stub.requests if op == "create_session"]
            models = [b["model_seq_id"] for op, b, _ in stub.requests if op == "create_model"]
            return bodies, sorted(models)

    bodies, models = run(scenario)
    assert len(bodies) == 1
    assert bodies[0]["user_metadata"] == {"a": "b"}
    assert bodies[0]["project_id"] == "p"
    assert bodies[0]["tags"] == []
    assert models == [0, 1, 2, 3, 4]


def test_tags_and_messages(caplog):
    """M21: TINKER_TAGS are sent; messages of the server are logged at their level."""

    def talkative(operation, body, request):
        if operation == "create_session":
            return 200, {
                "session_id": "S",
                "info_message": "hello",
                "warning_message": "careful",
                "error_message": "broken",
            }
        return None

    async def scenario():
        stub = StubServer(talkative)
        async with client(stub, config=Config(tags="x,y,x")) as service:
            await service.create_lora_training_client_async("m", rank=4)
            return [body["tags"] for op, body, _ in stub.requests if op == "create_session"]

    with caplog.at_level(logging.INFO, "tinker_ext"):
        assert run(scenario) == [["x", "y"]]
    said = {(record.levelname, record.message) for record in caplog.records}
    assert {("INFO", "hello"), ("WARNING", "careful"), ("ERROR", "broken")} <= said


def test_heartbeats_every_ten_seconds_and_a_warning_after_silence(caplog):
    """M21: 10 s apart; one warning per 120 s of silence; they go on."""

    async def scenario():
        def deaf(operation, body, request):
            return (500, {}) if operation == "session_heartbeat" else None

        stub = StubServer(deaf)
        async with client(stub) as service:
            await service.create_lora_training_client_async("m", rank=4)
            await asyncio.sleep(301.0)
            return stub.counts["session_heartbeat"]

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        beats = run(scenario)
    assert 28 <= beats <= 30
    assert len([r for r in caplog.records if "heartbeat" in r.message]) == 2


def test_a_session_that_is_gone_ends_the_client():
    """M21: 410 ends the heartbeat, and new clients are refused with the reason."""

    async def scenario():
        def gone(operation, body, request):
            return (410, {"detail": "gone"}) if operation == "session_heartbeat" else None

        stub = StubServer(gone)
        async with client(stub) as service:
            await service.create_lora_training_client_async("m", rank=4)
            await asyncio.sleep(100.0)
            with pytest.raises(SessionEndedError):
                await service.create_lora_training_client_async("m", rank=4)
            return stub.counts["session_heartbeat"]

    assert run(scenario) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "success"),
        (ValueError("secret text"), "errored"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_the_context_manager_tells_why(error, reason):
    """M21: success, errored or interrupted; the text of an exception stays here."""

    async def scenario():
        stub = StubServer()
        with contextlib.suppress(ValueError, KeyboardInterrupt):
            async with client(stub) as service:
                await service.create_lora_training_client_async("m", rank=4)
                if error is not None:
                    raise error
        return next(body for op, body, _ in stub.requests if op.endswith("/finish"))

    body = run(scenario)
    assert body["reason"] == {"type": reason}
    assert "secret" not in str(body)


def test_nothing_is_sent_without_a_session():
    """M21: closing an unused client makes no call."""

    async def scenario():
        stub = StubServer()
        async with client(stub):
            pass
        return stub.requests

    assert run(scenario) == []


def test_a_token_is_exchanged_where_the_server_asks_for_it():
    """M33: the key goes to auth/token only, the token everywhere else."""
    token = "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InUifQ.x"

    def exchange(operation, body, request):
        return (200, {"jwt": token}) if operation == "auth/token" else None

    async def scenario():
        stub = StubServer(exchange, config={"pjwt_auth_enabled": True})
        async with client(stub, api_key="tml-key") as service:
            await service.create_lora_training_client_async("m", rank=4)
            return [(op, request.headers.get_list("x-api-key")) for op, _, request in stub.requests]

    keys = run(scenario)
    assert dict(keys)["auth/token"] == ["tml-key"]
    assert dict(keys)["create_session"] == [token]
    assert [op for op, _ in keys].count("auth/token") == 1
