"""F33, F42, M47: a server that is down, slow, foreign or mute gets one clear sentence, quickly."""

import contextlib
import socket
import threading

import httpx
import pytest

from tinker_ext import Config, ServiceClient
from tinker_ext._transport.connection import SLOW_SECONDS, Connection
from tinker_ext._transport.retry import Timing
from tinker_ext.auth import StaticKey
from tinker_ext.cli.doctor import command
from tinker_ext.cli.examination import examine
from tinker_ext.conform import CannotJudge, run
from tinker_ext.conform.preflight import SECONDS, look
from tinker_ext.conform.runner import FIRST_SECONDS
from tinker_ext.errors import FeatureMissingError, TinkerError
from tinker_ext.mock import Server, Settings, hosted


@contextlib.contextmanager
def listening(answer):
    """A server that does with each connection what `answer` does; yields its URL."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        stop = threading.Event()

        def serve():
            while not stop.is_set():
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(line,), daemon=True).start()

        def handle(line):
            with contextlib.suppress(OSError), line:
                answer(line, stop)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            server.shutdown(socket.SHUT_RDWR)


def mute(line, stop):
    """Take a request and never answer."""
    line.recv(65536)
    stop.wait(60)


def drip(line, stop):
    """Answer one byte at a time, so that no single wait is ever long."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not stop.wait(0.05):
        line.sendall(b"x")


def banner(line, stop):
    """Speak another protocol, and hang up on who does not."""
    line.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
    line.recv(65536)
    line.sendall(b"Invalid SSH identification string.\r\n")


def say(line, status, kind, text):
    """Answer one request."""
    line.recv(65536)
    head = f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\nconnection: close\r\n"
    line.sendall(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())


def page(line, stop):
    """Be some other web server."""
    say(line, 200, "text/html", "<html>It works!</html>")


def nginx(line, stop):
    """Be a web server that has nothing at this place."""
    say(line, 404, "text/html", "<html>\r\n<center><h1>404 Not Found</h1></center>\r\n</html>")


def other_api(line, stop):
    """Be an API of something else that takes any path."""
    say(line, 200, "application/json", '{"hello": "world"}')


def other_404(line, stop):
    """Be an API of something else that refuses paths it does not know."""
    say(line, 404, "application/json", '{"detail": "Not Found"}')


def moved(line, stop):
    """Send everybody somewhere else."""
    line.recv(65536)
    line.sendall(
        b"HTTP/1.1 301 x\r\nlocation: https://elsewhere.invalid/a?token=b\r\n"
        b"connection: close\r\ncontent-length: 0\r\n\r\n"
    )


def moved_nowhere(line, stop):
    """Redirect without saying where to."""
    say(line, 302, "text/plain", "")


def unchanged(line, stop):
    """Say that nothing has changed since, to who never asked before."""
    line.recv(65536)
    line.sendall(b"HTTP/1.1 304 x\r\nconnection: close\r\n\r\n")


def deep(line, stop):
    """Answer JSON that no parser follows to its end."""
    say(line, 200, "application/json", "[" * 50_000)


def escapes(line, stop):
    """Answer what clears a terminal and renames its window."""
    say(line, 200, "text/plain", "\x1b[2J\x1b]0;t\x07 hello")


def gateway(line, stop):
    """Be a gateway whose server is down."""
    say(line, 502, "text/html", "<html>\r\n<h1>502 Bad Gateway</h1>\r\n</html>")


# What a server does → what doctor and conform say.
CASES = {
    mute: r"did not answer GET api/v1/healthz within 0\.5 s",
    drip: r"did not answer GET api/v1/healthz within 0\.5 s",
    banner: r"does not speak HTTP",
    page: r"is not a Tinker server: .* HTTP 200 \(text/html\) <html>It works!",
    nginx: r"is not a Tinker server: .* HTTP 404 \(text/html\) <html> <center><h1>404 Not Found",
    other_api: r'is not a Tinker server: .* HTTP 200 \(application/json\) {"hello": "world"}',
    other_404: r'is not a Tinker server: .* HTTP 404 \(application/json\) {"detail": "Not Found"}',
    moved: r"redirects to 'https://elsewhere\.invalid'; give the final address as base URL",
    moved_nowhere: r"is not a Tinker server: .* HTTP 302 \(text/plain\)\.",
    unchanged: r"is not a Tinker server: .* HTTP 304 ",
    deep: r"is not a Tinker server: .* HTTP 200 \(application/json\) \[\[",
    escapes: r"is not a Tinker server: .* HTTP 200 \(text/plain\) \\x1b\[2J\\x1b]0;t\\x07 hello",
    gateway: r"the server behind it is down or unwell: .* HTTP 502 \(text/html\)",
}
# Seconds to wait where all of them pass; a busy machine may take any time for a real answer.
WINDOWS = {mute: 0.5, drip: 0.5}
PATIENT = 300.0


@pytest.mark.parametrize("answer", CASES, ids=lambda answer: answer.__name__)
def test_what_is_not_a_server_gets_one_sentence(answer, monkeypatch):
    """F33, M47: from conform and from doctor, the same."""
    seconds = WINDOWS.get(answer, PATIENT)
    monkeypatch.setattr("tinker_ext.conform.preflight.SECONDS", seconds)
    with listening(answer) as url:
        with pytest.raises(CannotJudge, match=CASES[answer]):
            look(url, seconds=seconds)
        with pytest.raises(CannotJudge):
            run(url, api_key="tml-test")
        findings = list(examine(url, env={"TINKER_API_KEY": "tml-test"}, timeout=seconds))
    failed = [finding for finding in findings if finding.status == "fail"]
    assert len(failed) == 1, findings
    assert failed[0].fix
    assert all(finding.detail.isprintable() for finding in findings)


def down():
    """An address on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_server_that_is_down():
    """F33, M47: nothing listens on the port."""
    with pytest.raises(CannotJudge, match="cannot be reached"):
        run(down(), api_key="tml-test")


TO_CLIENTS = {
    mute: r"http://127.* has not answered: no complete reply within 0\.\d+ s",
    drip: r"http://127.* has not answered: no complete reply within 0\.\d+ s",
    banner: r"http://127.* has not answered: the reply is not well-formed HTTP",
    page: CASES[page],
    nginx: CASES[nginx],
    other_api: CASES[other_api],
    other_404: CASES[other_404],
    moved: r"was redirected \(301\) to https://elsewhere\.invalid; not followed",
    gateway: r"http://127.* answers, but the server behind it is down or unwell: .* <h1>502 Bad",
    None: r"cannot connect to http://127",
}


@pytest.mark.parametrize("answer", TO_CLIENTS, ids=lambda answer: getattr(answer, "__name__", None))
@pytest.mark.parametrize("call", ["get_server_capabilities", "create_lora_training_client"])
def test_clients_say_it_too(answer, call, monkeypatch):
    """F42, M47: at the first call, naming the server, after one short window."""
    short = Timing(first_window=WINDOWS.get(answer, PATIENT))
    monkeypatch.setattr("tinker_ext._transport.connection.DEFAULT_TIMING", short)
    with contextlib.ExitStack() as stack:
        url = down() if answer is None else stack.enter_context(listening(answer))
        # Users who name no number of attempts wait until the window ends.
        again = {"retry_attempts": 3, "retry_base": 0.01}
        config = Config(base_url=url, api_key="tml-test", close_timeout=0.1, **again)
        service = stack.enter_context(ServiceClient(config=config))
        with pytest.raises(TinkerError, match=TO_CLIENTS[answer]) as caught:
            getattr(service, call)(*([] if "get" in call else ["org/model"]))
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_server_that_lacks_something_is_not_mistaken():
    """M28: what a Tinker server of few endpoints lacks is named as before."""
    with Server(Settings(era="0.4.1", without=["training_runs"])) as server:
        config = Config(base_url=server.url, api_key="tml-test")
        with ServiceClient(config=config) as service:
            rest = service.create_rest_client()
            with pytest.raises(FeatureMissingError, match="has no list of training runs"):
                rest.list_training_runs().result()


def test_all_fits_into_ten_seconds():
    """F33, F42, M47: the start of the program on a busy machine included.

    conform and doctor make two requests, a client waits for one window, and a server that falls
    silent later is reported.
    """
    assert Timing().first_window <= 6
    assert Timing().first_window == SECONDS
    assert FIRST_SECONDS < SLOW_SECONDS <= 6  # one line, not two
    (option,) = [each for each in command.params if each.name == "timeout"]
    assert option.default <= 6  # for a connection that nobody takes, before any request
    assert Connection("http://x", StaticKey("k")).timing.first_window == Timing().first_window
    patient = Config(request_timeout=90.0)
    assert Connection("http://x", StaticKey("k"), config=patient).timing.first_window == 90.0


def test_a_wrong_key_is_told():
    """M47: a server that lets nobody in cannot be judged."""
    with (
        Server(Settings(api_keys=["tml-right"])) as server,
        pytest.raises(CannotJudge, match="refuses the API key"),
    ):
        run(server.url, api_key="tml-wrong")


@pytest.mark.parametrize(
    "settings",
    [
        {"wire": "json"},
        {"wire": "proto"},
        {"wire": "both"},
        {"era": "0.4.1"},
        {"seq": "late", "created_status": 201, "future_status": 202},
        hosted.overrides(),
    ],
    ids=str,
)
def test_a_good_server_is_fine(settings):
    """M47: doctor opens a session, ends it again, trains nothing, and finds nothing to fix."""
    with Server(Settings(**settings)) as server:
        findings = list(examine(server.url, env={"TINKER_API_KEY": "tml-test"}, timeout=PATIENT))
        paths = [entry.path.rpartition("/")[2] for entry in server.log.requests()]
    assert [finding for finding in findings if finding.status in ("fail", "warn")] == []
    assert any("training bodies are read" in finding.detail for finding in findings)
    assert paths.count("create_session") == 1
    assert "finish" in paths
    assert not {"create_model", "optim_step", "asample", "save_weights"} & set(paths)


def test_a_server_that_breaks_on_bodies_is_not_called_fine():
    """M47: what doctor cannot tell it says."""
    with Server(Settings()) as server:
        server.faults.add("status", path="forward_backward", status=500)
        server.faults.add("status", path="forward", status=500)
        findings = list(examine(server.url, env={"TINKER_API_KEY": "tml-test"}, timeout=PATIENT))
    assert findings[-1].status == "warn"
    assert "whether the server reads training bodies is not known" in findings[-1].detail


def test_a_good_server_is_judged_from_inside_a_loop():
    """M47: the first look works wherever it is called from."""
    import asyncio

    async def inside(url):
        return look(url)

    with Server(Settings()) as server:
        found = asyncio.run(inside(server.url))
        assert found.health == 200
        assert found.models
        assert httpx.get(f"{server.url}/api/v1/healthz").status_code == 200
