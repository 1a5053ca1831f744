"""Ctrl-C, SIGTERM, fork and the end of the interpreter: quick, quiet, and told to the server.

By default a few moments of each kind; `END_POINTS=50` tries that many, and holds each end to 2 s.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext.mock import Server, Settings

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("ends_driver.py")
POINTS = int(os.environ.get("END_POINTS", "0"))
NOISE = ("Task was destroyed", "Exception ignored", "never awaited", "Event loop is closed")


@pytest.fixture(scope="module")
def server():
    with Server(Settings(session_ttl=3600)) as server:
        yield server


@pytest.fixture(scope="module")
def driver(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    process = subprocess.Popen(
        [sys.executable, str(DRIVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/generated"},
    )

    def order(shape, number=0, at=0):
        errors = folder / "errors"
        fields = {"url": server.url, "shape": shape, "signal": int(number), "at": at}
        process.stdin.write(json.dumps({**fields, "errors": str(errors)}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        answer["noise"] = errors.read_text()
        return answer

    with process:
        yield order
        process.stdin.close()


def reason(server, session_id):
    status = server.app.world.sessions[session_id].status
    return status["reason"]["type"] if status["type"] == "client_finished" else status["type"]


LAST_EVENTS = 4
"""Of a run: the answer to the end of its session, and the end of its journal."""


@functools.cache
def undisturbed(server, driver, shape):
    """The same program without a signal."""
    calm = driver(shape)
    assert calm["code"] == 0
    assert calm["noise"] == ""
    assert reason(server, calm["session"]) == "success"
    return calm


def hold(seconds):
    """Two seconds in the long form; more where other programs have most of the processors."""
    if POINTS:
        assert seconds < 2 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", ["plain", "block", "loop", "run"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_ends_the_session_as_interrupted(server, driver, shape, number):
    """M21: one traceback of the user's own at most, and the server knows why."""
    calm = undisturbed(server, driver, shape)
    few = random.Random(f"{shape} {number}")
    moments = few.sample(range(1, calm["events"]), min(POINTS or 1, calm["events"] - 1))
    for at in sorted(moments):
        end = driver(shape, number, at)
        told = f"{shape}, signal {number} at {at}: {end}"
        assert end["code"] == -number, told
        # A signal that comes when the program has said that it is done cannot take that back.
        late = shape == "run" and at > calm["events"] - LAST_EVENTS
        wanted = ("interrupted", "success") if late else ("interrupted",)
        assert reason(server, end["session"]) in wanted, f"{told} of {calm['events']}"
        assert not [text for text in NOISE if text in end["noise"]], told
        if number == signal.SIGINT:
            assert end["noise"].rstrip().endswith("KeyboardInterrupt"), told
            # asyncio turns the interrupt into a cancellation and back: two of the user's own.
            assert end["noise"].count("Traceback") <= (2 if shape == "loop" else 1), told
        else:
            assert end["noise"] == "", told
        hold(end["seconds"])


def test_a_silent_server_does_not_hold_up_an_interrupted_program():
    """M21: after Ctrl-C the end of the session is reported for a second, not for half a minute."""

    async def silent(operation, body, request):
        if operation.endswith("/finish"):
            await asyncio.sleep(1e6)

    async def scenario(status):
        loop = asyncio.get_running_loop()
        service = client(StubServer(silent))
        await service.create_sampling_client_async(base_model="m")
        started = loop.time()
        await service.close(status)
        return loop.time() - started

    assert run(lambda: scenario("interrupted")) < 2
    assert run(lambda: scenario("success")) > 2


@pytest.mark.parametrize("shape", ["pending", "forked"])
def test_the_interpreter_ends_with_work_under_way(server, driver, shape):
    """M21: 350 calls that nobody waits for neither delay nor garble the end; nor does a fork."""
    for _ in range(POINTS or 1):
        end = driver(shape)
        assert end["code"] == 0, end
        assert end["noise"] == "", end
        assert reason(server, end["session"]) == "success"
        hold(end["seconds"])
