"""F33, F42, M47: a server that is down, slow, foreign or mute gets one clear sentence, quickly."""

import contextlib
import socket
import threading

import httpx
import pytest
from in_process import MODEL, datum

from tinker_ext import Config, ServiceClient
from tinker_ext._transport import Connection, Timing
from tinker_ext.auth import StaticKey
from tinker_ext.cli.doctor import command
from tinker_ext.cli.examination import examine
from tinker_ext.conform import CannotJudge, run
from tinker_ext.conform.preflight import SECONDS, look
from tinker_ext.errors import FeatureMissingError, TinkerError
from tinker_ext.mock import Server, Settings


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
    gateway: r"http://127.* answers, but the server behind it is down or unwell: .* <h1>502 Bad",
    None: r"cannot connect to http://127",
}


@pytest.mark.parametrize("answer", TO_CLIENTS, ids=lambda answer: getattr(answer, "__name__", None))
@pytest.mark.parametrize("call", ["get_server_capabilities", "create_lora_training_client"])
def test_clients_say_it_too(answer, call, monkeypatch):
    """F42, M47: at the first call, naming the server, after one short window."""
    # What hangs up, is unwell or is not there, is tried until the window ends.
    window = PATIENT if "not a Tinker" in TO_CLIENTS[answer] else WINDOWS.get(answer, 3.0)
    short = Timing(first_window=window)
    monkeypatch.setattr("tinker_ext._transport.connection.DEFAULT_TIMING", short)
    with contextlib.ExitStack() as stack:
        url = down() if answer is None else stack.enter_context(listening(answer))
        config = Config(base_url=url, api_key="tml-test", close_timeout=0.1)
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


def test_a_client_of_a_server_of_neither_wire():
    """F1, M47: the first refusal, and that both wires were tried."""
    with Server(Settings(inline_engine=True)) as server:
        server.faults.add("status", path="forward_backward", status=415)
        with ServiceClient(base_url=server.url, api_key="tml-test") as service:
            training = service.create_lora_training_client(MODEL, rank=1)
            with pytest.raises(TinkerError, match="takes training bodies in neither wire"):
                training.forward_backward([datum()], "cross_entropy").result()


def test_all_fits_into_ten_seconds():
    """F33, F42, M47: conform and doctor make two requests, a client waits for one window."""
    assert SECONDS < 10
    assert Timing().first_window < 10
    (option,) = [each for each in command.params if each.name == "timeout"]
    assert option.default < 10  # for a connection that nobody takes, before any request
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


def test_a_server_of_neither_wire():
    """F33, M47: both refusals are shown, once, instead of a failure for each check."""
    with Server(Settings()) as server:
        server.faults.add("status", path="forward", status=415)
        server.faults.add("status", path="forward_backward", status=415)
        with pytest.raises(CannotJudge, match=r"neither wire: proto: HTTP 415 .*json: HTTP 415"):
            run(server.url, api_key="tml-test")
        findings = list(examine(server.url, env={"TINKER_API_KEY": "tml-test"}, timeout=PATIENT))
    failed = [finding.detail for finding in findings if finding.status == "fail"]
    assert failed == [
        "the server takes training bodies in neither wire (json: HTTP 415, proto: HTTP 415)"
    ]


@pytest.mark.parametrize("wire", ["json", "proto", "both"])
def test_a_server_of_one_wire_is_fine(wire):
    """M47: doctor does not mistake a server of one wire, or of the first era, for a mute one."""
    with Server(Settings(wire=wire)) as server:
        findings = list(examine(server.url, env={"TINKER_API_KEY": "tml-test"}, timeout=PATIENT))
    assert [finding for finding in findings if finding.status == "fail"] == []


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
