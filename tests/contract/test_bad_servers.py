"""F1, F33, F42, M47: each kind of bad server × client, doctor and conform as users run them."""

import concurrent.futures
import contextlib
import math
import re
import socket
import time

import attrs
import pytest
from in_process import datum

from tinker_ext import Config, ServiceClient
from tinker_ext._transport.pool import Pool
from tinker_ext._transport.retry import Timing
from tinker_ext.cli import examination
from tinker_ext.cli.run import run
from tinker_ext.errors import TinkerError
from tinker_ext.mock import Server, Settings

PATIENT = "300"
"""Seconds for what is answered: a busy machine may take any time."""
FIELDS = '{"detail": [{"type": "missing", "loc": ["body", "prompt"], "msg": "Field required"}]}'


@contextlib.contextmanager
def down():
    """Nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def mute():
    """Connections are taken, and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def fallen_silent():
    """The first questions are answered, and then no more."""
    with Server(Settings()) as server:
        server.faults.add("hang", path="create_session", delay=60.0)
        yield server.url
        server.faults.clear()


@contextlib.contextmanager
def mute_to_bodies():
    """Everything is answered but training bodies."""
    with Server(Settings(inline_engine=True)) as server:
        for path in ("forward", "forward_backward"):
            server.faults.add("hang", path=path, delay=4.0)
        yield server.url


def page(status, **more):
    """A gateway, or something else, answers with a page."""

    @contextlib.contextmanager
    def paged():
        with Server(Settings()) as server:
            server.faults.add("html", status=status, **more)
            yield server.url

    return paged


def refusing(status, **more):
    """A server that refuses training bodies of both wires."""

    @contextlib.contextmanager
    def neither():
        with Server(Settings(inline_engine=True)) as server:
            for path in ("forward", "forward_backward"):
                server.faults.add("status", path=path, status=status, **more)
            yield server.url

    return neither


REFUSED = r"refused this body in both wires, protobuf and JSON \(HTTP {0}, then HTTP {0}\)\. .* ne"
UNREAD = r"takes training bodies in neither wire, protobuf or JSON"
NEITHER = r"takes training bodies in neither wire \(proto: HTTP {0} .*; json: HTTP {0} "
WIRES = {
    f"neither-{name}": (
        refusing(status, **more),
        UNREAD if status == 415 else REFUSED.format(status),
        NEITHER.format(status),
        rf"takes training bodies in neither wire: proto: HTTP {status} .*; json: HTTP {status} ",
    )
    for name, status, more in [
        ("400", 400, {}),
        ("415", 415, {}),
        ("422", 422, {}),
        ("fields", 422, {"body": FIELDS}),
    ]
}
FOREIGN = r"http://127\S+ answers, but it is not a Tinker server: "
# Name → the server, and what client, doctor and conform say of it.
KINDS = {
    "down": (
        down,
        r"cannot connect to http://127\S+: ",
        r"127\.0\.0\.1:\d+: Connection refused",
        r"http://127\S+ cannot be reached: ",
    ),
    "slow-mute": (
        mute,
        r"http://127\S+ has not answered: no complete reply within ",
        r"http://127\S+ did not answer GET api/v1/healthz within ",
        r"http://127\S+ did not answer GET api/v1/healthz within ",
    ),
    "slow-fallen_silent": (
        fallen_silent,
        r"create_session to http://127\S+ has had no answer for \d+ s; giving up in ",
        r"the server opens no session: no complete reply within ",
        r"http://127\S+ answered at first, and then did not answer POST api/v1/create_session ",
    ),
    "slow-mute_to_bodies": (
        mute_to_bodies,
        r"forward_backward to http://127\S+ has had no answer for \d+ s; giving up in ",
        r"a training body was not answered: no complete reply within ",
        r"forward_backward to http://127\S+ has had no answer for \d+ s; giving up in ",
    ),
    "foreign": (page(200), FOREIGN, FOREIGN, FOREIGN),
    **{
        f"gate-{status}": (
            page(status),
            rf"Error code: {status} - <html>.*a gateway or proxy wrote it, and no Tinker server ",
            rf"a gateway in front of the server refuses the request: Error code: {status} - <html>",
            rf"a gateway in front of the server refuses the request: .* gave HTTP {status} ",
        )
        for status in (401, 403)
    },
    "gate-posts": (
        page(403, path="create_session"),
        r"Error code: 403 - <html>.*a gateway or proxy wrote it, and no Tinker server ",
        r"the server opens no session: Error code: 403 - <html>",
        r"A gateway in front of http://127\S+ refuses what the checks need: Error code: 403 ",
    ),
    **WIRES,
}


@pytest.fixture
def short(request, monkeypatch):
    """Shorten the windows in which the server at hand is waited for in vain."""
    kind = request.getfixturevalue("kind")
    if kind in ("down", "slow-mute"):
        timing = Timing(first_window=1.0)
        monkeypatch.setattr("tinker_ext._transport.connection.DEFAULT_TIMING", timing)
    if kind == "slow-mute":
        monkeypatch.setattr("tinker_ext.conform.preflight.SECONDS", 0.5)
    monkeypatch.setattr("tinker_ext._transport.connection.SLOW_SECONDS", 1.0)
    monkeypatch.setattr("tinker_ext._transport.connection.COMPLAIN_SECONDS", 1.0)
    monkeypatch.setattr("tinker_ext.conform.runner.FIRST_SECONDS", 1.0)
    monkeypatch.setenv("TINKER_API_KEY", "tml-test")


def warned(said, caplog):
    """Whether a warning that says it comes, waiting for it as long as a busy machine may need."""
    until = time.monotonic() + 300
    while not re.search(said, caplog.text) and time.monotonic() < until:
        time.sleep(0.02)
    return re.search(said, caplog.text)


def train(service):
    """Do what every program does first."""
    model = service.get_server_capabilities().supported_models[0].model_name
    training = service.create_lora_training_client(model, rank=1)
    training.forward_backward([datum()], "cross_entropy").result()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("short")
def test_a_client(kind, caplog):
    """F1, F42, M47: its first call fails, or a warning comes while it waits, in one line."""
    make, said, _, _ = KINDS[kind]
    waits = kind in ("slow-fallen_silent", "slow-mute_to_bodies")
    with (
        make() as url,
        ServiceClient(config=Config(base_url=url, close_timeout=0.1)) as service,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        training = pool.submit(train, service)
        if waits:
            assert warned(said, caplog)
            service.close().result(300)  # users may wait on
        with pytest.raises(TinkerError) as caught:
            training.result(300)
    told = [record.getMessage() for record in caplog.records] if waits else [str(caught.value)]
    assert any(re.search(said, line) for line in told), (told, str(caught.value))
    if kind.startswith("gate-"):
        assert "TINKER_API_KEY" not in told[0]
    assert all("\n" not in line for line in told)


@pytest.fixture
def silence_alone_is_timed(monkeypatch):
    """Give what is answered the time that a busy machine needs."""
    send = Pool.send

    async def patient(self, call, target, headers, deadline):
        if not target.endswith(("create_session", "forward", "forward_backward")):
            call, deadline = attrs.evolve(call, timeout=300.0), math.inf
        return await send(self, call, target, headers, deadline)

    monkeypatch.setattr(Pool, "send", patient)
    monkeypatch.setattr("tinker_ext.conform.preflight.SECONDS", 300.0)
    monkeypatch.setattr(
        examination, "health", lambda url, _, look=examination.health: look(url, 300.0)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("short")
def test_doctor(kind, capsys, request):
    """F33, M47: exactly one thing to fix, with what to do, and exit code 1."""
    make, _, said, _ = KINDS[kind]
    seconds = "0.5" if kind.startswith("slow-") else PATIENT
    if kind in ("slow-fallen_silent", "slow-mute_to_bodies"):
        request.getfixturevalue("silence_alone_is_timed")
    with make() as url:
        assert run(["--base-url", url, "doctor", "--timeout", seconds]) == 1
    shown = capsys.readouterr().out.splitlines()
    (failed,) = [line for line in shown if line.startswith("✗")]
    assert re.search(said, failed), shown
    advice = shown[shown.index(failed) + 1].strip()
    assert advice.startswith("→")
    if kind.startswith("gate-"):
        assert "a gateway or proxy wrote it" in advice
        assert "TINKER_API_KEY" not in advice


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("short")
def test_conform(kind, capsys, caplog):
    """F33, M47: "Cannot judge" with the reason, and the exit code that says so."""
    make, _, _, said = KINDS[kind]
    with make() as url:
        assert run(["conform", url]) == 3
    shown = capsys.readouterr().err
    (line,) = [line for line in shown.splitlines() if line.startswith("Cannot judge: ")]
    # A body may be read for long, so that a warning comes first.
    told = caplog.text if kind == "slow-mute_to_bodies" else line
    assert re.search(said, told), (line, told)
    if kind.startswith("gate-"):
        assert "TINKER_API_KEY" not in line


def test_a_poll_that_is_held_is_not_called_slow(caplog, monkeypatch):
    """M22, M47: conform waits for a result without a warning."""
    monkeypatch.setattr("tinker_ext._transport.connection.SLOW_SECONDS", 0.2)
    monkeypatch.setattr("tinker_ext._transport.connection.COMPLAIN_SECONDS", 0.2)
    with Server(Settings(latency=0.5)) as server:
        assert run(["conform", server.url, "--only", "future.twice"]) == 0
    assert "retrieve_future" not in caplog.text
