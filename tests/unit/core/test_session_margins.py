"""Heartbeats and the end of a session, at their margins: when, how often, and what is logged."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest
from in_process import client, run
from stub_server import StubServer
from tinker_api import operations as api

from tinker_ext import Config
from tinker_ext.core.session import Session
from tinker_ext.errors import InvalidInputError, TinkerError

OK, GONE = (200, {}), (410, {"detail": "gone"})
MISSING, PAGE = (404, {"detail": "Not Found"}), (404, "<html>", {"content-type": "text/html"})
BROKEN = (500, {"detail": "x"})


def beats(answers, seconds, caplog, **settings):
    """When heartbeats are sent to a server that answers so, the last answer for ever."""
    sent, told = [], []

    class Told(logging.Handler):
        def emit(self, record):
            told.append((round(asyncio.get_running_loop().time()), record.getMessage()[:40]))

    async def scenario():
        def handler(operation, body, request):
            if operation != "session_heartbeat":
                return None
            assert body["session_id"] == "S"
            sent.append(round(asyncio.get_running_loop().time()))
            return answers[min(len(sent), len(answers)) - 1]

        async with client(StubServer(handler), config=Config(**settings)) as service:
            await service.create_sampling_client_async(base_model="m")
            await asyncio.sleep(seconds)

    handler = Told()
    logger = logging.getLogger("tinker_ext")
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "tinker_ext"):
            run(scenario)
    finally:
        logger.removeHandler(handler)
    return sent, told


@pytest.mark.parametrize(
    ("answers", "times", "said"),
    [
        ([OK], [10, 20, 30, 40, 50], []),
        ([MISSING], [10, 20, 30], [(30, "The server takes no heartbeats; session ")]),
        ([PAGE], [10, 20, 30], [(30, "The server takes no heartbeats; session ")]),
        ([MISSING, MISSING, OK, MISSING], [10, 20, 30, 40, 50], []),
        ([OK, MISSING], [10, 20, 30, 40, 50], []),
        ([OK, GONE], [10, 20], [(20, "The server has ended session S.")]),
    ],
)
def test_heartbeats_end_where_there_are_none(answers, times, said, caplog):
    """M21: after three without an endpoint and none before them, or with the session."""
    sent, told = beats(answers, 55.0, caplog)
    assert sent == times
    assert told == said


def test_a_silent_server_is_told_of_once_in_a_while(caplog):
    """M21: after as long as the setting says, and again after as long; an answer begins anew."""
    silent = [OK, *[BROKEN] * 200]
    settings = {"heartbeat_interval": 5.0, "heartbeat_warn_after": 20.0, "heartbeat_timeout": 1.0}
    sent, told = beats(silent, 78.0, caplog, **settings)
    assert sent[0] == 5
    warned = [
        when for when, text in told if text.startswith("The server has not answered a heartbeat")
    ]
    assert len(warned) == 3
    assert 25 <= warned[0] <= 30
    assert all(20 <= b - a <= 26 for a, b in itertools.pairwise(warned))


@pytest.mark.parametrize(
    ("status", "seconds"), [("success", 5.0), ("errored", 5.0), ("interrupted", 1.0)]
)
def test_the_end_of_a_session_is_waited_for_a_while(status, seconds):
    """M21: after Ctrl-C no longer than a second."""

    async def scenario():
        async def deaf(operation, body, request):
            if operation.endswith("/finish"):
                await asyncio.sleep(1e6)

        async with client(StubServer(deaf), config=Config(close_timeout=5.0)) as service:
            await service.create_sampling_client_async(base_model="m")
            began = asyncio.get_running_loop().time()
            await service.close(status)
            return asyncio.get_running_loop().time() - began

    assert run(scenario) == pytest.approx(seconds)


def test_a_session_of_another_process_is_not_ended_and_an_adopted_one_is():
    """M21 M20: whoever joins one leaves it as it is; whoever goes on with one ends it."""

    async def scenario():
        ends = []
        for adopted in (False, True):
            stub = StubServer()
            async with client(stub) as service:
                workspace = service._workspace
                if not adopted:
                    workspace.session = Session(workspace.server, session_id="T")
                session = workspace.session
                if adopted:
                    session.adopt("T", 40)
                    with pytest.raises(InvalidInputError, match="has session T already"):
                        session.adopt("U", 0)
                    assert session.next_model_seq_id() == 40
                await workspace.submit(session.ensure())
                assert session.session_id == "T"
            ends.append([op for op in stub.counts if "/finish" in op])
            assert stub.counts["create_session"] == 0
        return ends

    assert run(scenario) == [[], ["sessions/T/finish"]]


def test_a_session_without_an_id_is_refused():
    """M15: nothing could be numbered in it; the next call asks again."""

    async def scenario():
        def nameless(operation, body, request):
            first = operation == "create_session" and stub.counts[operation] == 1
            return (200, {"session_id": ""}) if first else None

        stub = StubServer(nameless)
        async with client(stub) as service:
            with pytest.raises(TinkerError, match="a session without an id"):
                await service.create_sampling_client_async(base_model="m")
            await service.create_sampling_client_async(base_model="m")
            return stub.counts["create_session"]

    assert run(scenario) == 2


def test_a_server_without_an_end_is_told_once():
    """M21: what it lacks is not asked of it again."""

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            await service.create_sampling_client_async(base_model="m")
            session = service._workspace.session
            for _ in range(2):
                await session.report_end("S", "success", None)
            assert session.server.lacks(api.FINISH_SESSION)
        return stub.counts["sessions/S/finish"]

    assert run(scenario) == 1
