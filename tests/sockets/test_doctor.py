"""The checks of `doctor`, each on a case that fails it."""

import contextlib
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tinker_ext.cli import examination
from tinker_ext.cli.examination import clock, examine, variables
from tinker_ext.mock import Server, Settings

TLS = Path(__file__).parents[1] / "data/tls"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def by_name(findings):
    return {finding.name: finding for finding in findings}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_without_anything_it_points_to_the_embedded_server():
    """M36: nothing configured is a warning with the way on, not a failure."""
    found = by_name(examine(env={}))
    assert found["server"].status == "warn"
    assert "everything uses the embedded server" in found["server"].detail
    assert "TINKER_BASE_URL=embedded" in found["server"].fix
    assert found["embedded"].status == "ok"
    assert found["versions"].status == "ok"


def test_an_unreadable_setting_and_a_typing_error():
    """M36: a variable that cannot be read fails; one that means nothing is suggested away."""
    broken = list(variables({"TINKER_EXT_RETRY_ATTEMPTS": "many"}))
    assert broken[0].status == "fail"
    assert "TINKER_EXT_RETRY_ATTEMPTS" in broken[0].detail
    typo = list(variables({"TINKER_EXT_RETRY_ATEMPTS": "3"}))
    assert typo[0].status == "warn"
    assert "TINKER_EXT_RETRY_ATTEMPTS" in typo[0].fix


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8000", "http://", "http://x:notaport"])
def test_a_url_that_is_none(url):
    """M36: a malformed base URL ends the examination at once."""
    found = by_name(examine(url, env={}))
    assert found["server"].status == "fail"
    assert "connection" not in found


def test_nobody_listens():
    """M36: a closed port is named, and later checks do not repeat it."""
    found = by_name(examine(f"http://127.0.0.1:{free_port()}", env={}, timeout=2))
    assert found["connection"].status == "fail"
    assert found["connection"].fix
    assert "health" not in found


def test_https_on_a_plain_port():
    """M36: a TLS handshake with a server that speaks none fails under its own name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        parts = urlsplit(f"https://127.0.0.1:{server.getsockname()[1]}")
        found = []
        with pytest.raises(examination._Stop):
            collect(examination.network(parts, 2), found)
        thread.join(300)
    assert found[-1].name == "TLS"
    assert found[-1].status == "fail"


@pytest.mark.parametrize(
    ("certificate", "trusted", "status"),
    [("good", True, "ok"), ("good", False, "fail"), ("expired", True, "fail")],
)
def test_certificates(certificate, trusted, status, monkeypatch):
    """M36: a good certificate is told with its days; an expired or unknown one fails with a fix."""
    import ssl
    import threading

    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(TLS / f"{certificate}.pem")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError), served.wrap_socket(peer, server_side=True):
                pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        parts = urlsplit(f"https://localhost:{server.getsockname()[1]}")
        found = []
        with contextlib.suppress(examination._Stop):
            collect(examination.network(parts, 5), found)
        thread.join(300)
    assert (found[-1].name, found[-1].status) == ("TLS", status)
    assert bool(found[-1].fix) == (status == "fail")


def collect(findings, into):
    """Keep what was found before a check gave up."""
    for finding in findings:
        into.append(finding)


def test_a_name_that_does_not_exist():
    """M36: a host that cannot be resolved is told apart from one that does not answer."""
    found = by_name(examine("http://no-such-host.invalid", env={}, timeout=2))
    assert found["name"].status == "fail"


def test_a_dead_proxy(monkeypatch):
    """M36: a proxy of the environment that does not answer is the culprit named."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "")
    found = by_name(examine("http://server.invalid", env={}, timeout=2))
    assert found["proxy"].status == "fail"
    assert "NO_PROXY" in found["proxy"].fix


def test_a_credential_command_that_fails():
    """M33: a broken TINKER_CREDENTIAL_CMD is found before anything is sent."""
    env = {"TINKER_CREDENTIAL_CMD": "exit 3"}
    found = by_name(examine(f"http://127.0.0.1:{free_port()}", env=env, timeout=2))
    assert found["key"].status == "fail"


def test_the_key_is_never_shown():
    """M33: what doctor prints names where the key comes from, never the key."""
    env = {"TINKER_API_KEY": "tml-canary-0123456789 "}
    findings = list(examine(f"http://127.0.0.1:{free_port()}", env=env, timeout=2))
    assert "canary" not in repr(findings)
    assert any("white space" in finding.detail for finding in findings)


@pytest.mark.parametrize(
    ("date", "now", "status"),
    [
        ("Thu, 01 Jan 1970 00:01:40 GMT", 101.0, "ok"),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 500.0, "warn"),
        ("Thu, 01 Jan 1970 00:10:00 GMT", 100.0, "warn"),
        (None, 100.0, "info"),
        ("nonsense", 100.0, "info"),
    ],
)
def test_clocks(date, now, status):
    """M36: clocks more than a minute apart are a warning; a server may keep its time to itself."""
    assert [finding.status for finding in clock(date, now)] == [status]


@pytest.mark.parametrize("about_it", [True, False])
def test_a_dialect_file_is_shown_or_refused(tmp_path, about_it):
    """M43: what comes from a file says so; a file about another server is one clear failure."""
    file = tmp_path / "dialect.json"
    with Server(Settings(declared=False)) as server:
        said = {"wire": "json", "seq": "strict", "server": server.url if about_it else "http://x"}
        file.write_text(json.dumps({"format": "tinker-ext-dialect/1", **said}))
        env = {"TINKER_API_KEY": "tml-test", "TINKER_EXT_DIALECT_FILE": str(file)}
        findings = list(examine(server.url, env=env, timeout=300))
    found = by_name(findings)
    if about_it:
        assert f"json bodies (from {file})" in found["wire"].detail
        assert f"seq ids: strict (from {file})" in found["wire"].detail
    else:
        (failed,) = [finding for finding in findings if finding.status == "fail"]
        assert failed.name == "settings"
        assert f"{file} is about http://x, not about {server.url}" in failed.detail


def test_every_variable_that_is_read_is_known():
    """M36: doctor takes no variable of ours for a typing error."""
    package = Path(examination.__file__).parents[1]
    text = "".join(path.read_text() for path in package.rglob("*.py"))
    named = set(re.findall(r'"(TINKER_EXT_[A-Z_]*[A-Z])"', text))
    assert "TINKER_EXT_PROFILE" in named
    (only,) = variables(dict.fromkeys(named - {"TINKER_EXT_WIRE"}, ""))
    assert only.status == "ok", only
