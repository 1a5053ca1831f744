"""The page's server: who is let in, what it answers, and what the command says when it cannot."""

import asyncio
import json
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tinker_ext import AdamParams, ServiceClient
from tinker_ext.cli import main
from tinker_ext.errors import TinkerError
from tinker_ext.mock import Server, Settings
from tinker_ext.ui import app
from tinker_ext.ui.app import LOOPBACK, make
from tinker_ext.ui.folder import Folder

from .test_index import line, step, write

TOKEN = "a-token"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one").mkdir()
    write(
        tmp_path / "one" / "metrics.jsonl",
        line("session_start", version=1, currency="USD"),
        *(step(n) for n in range(1, 50)),
    )
    return tmp_path


def ask(folder, *requests, hosts=LOOPBACK, token=TOKEN, host="127.0.0.1:8717"):
    """Answers to requests, after the page has read the logs once."""

    async def scenario():
        made = make(folder, TOKEN, hosts, "test")
        transport = httpx.ASGITransport(made)
        async with made.router.lifespan_context(made):
            await asyncio.sleep(0.2)
            cookies = {"tinker_ext_ui_test": token} if token else {}
            async with httpx.AsyncClient(
                transport=transport, base_url=f"http://{host}", cookies=cookies
            ) as client:
                return [await client.request(*request) for request in requests]

    return asyncio.run(scenario())


def test_the_runs_and_one_of_them(folder):
    """M50 M34: state, step, loss per token, tokens per second and spend; curves are thinned."""
    runs, one, curves = ask(
        folder,
        ("GET", "/api/runs"),
        ("GET", "/api/run?id=one"),
        ("GET", "/api/curves?id=one&id=none&metric=loss&points=10"),
    )
    (row,) = runs.json()["runs"]
    assert (row["id"], row["step"], row["loss"], row["pace"], row["cost"], row["currency"]) == (
        "one",
        49,
        2.0,
        2.5,
        24.5,
        "USD",
    )
    assert one.json()["metrics"][0] == "loss"
    (curve,) = curves.json()["lines"]
    assert len(curve["rows"]) == 10


def test_without_the_token_nothing_is_shown(folder):
    """Safe: every path, and a token that is nearly right."""
    paths = ["/", "/app.js", "/api/runs", "/api/events", "/?token=wrong", "/api/run?id=one&token="]
    for reply in ask(folder, *(("GET", path) for path in paths), token=""):
        assert reply.status_code == 403
        assert "one" not in reply.text.split()


def test_the_printed_address_gives_a_cookie_and_hides_the_token(folder):
    """Safe: the token leaves the address bar at once, and scripts cannot read the cookie."""
    (reply,) = ask(folder, ("GET", f"/?token={TOKEN}"), token="")
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost:8717", True),
        ("[::1]:8717", True),
    ],
)
def test_only_its_own_names_are_answered(folder, host, good):
    """Safe: a page of another site that points its own name here gets nothing."""
    (reply,) = ask(folder, ("GET", "/api/runs"), host=host)
    assert reply.status_code == (200 if good else 421)


def test_addresses_are_answered_where_every_interface_listens(folder):
    """Safe: an address cannot be made to point elsewhere, a name can."""
    assert ask(folder, ("GET", "/"), host="10.1.2.3:8717", hosts=("*",))[0].status_code == 200
    assert ask(folder, ("GET", "/"), host="evil.example", hosts=("*",))[0].status_code == 421


def test_nothing_can_be_sent_and_no_script_but_ours_runs(folder):
    """Safe: read only, strict policy, nothing from elsewhere."""
    page, posted = ask(folder, ("GET", "/"), ("POST", "/api/runs"))
    assert posted.status_code == 405
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    for file in app.STATIC.iterdir():
        text = file.read_text().replace("http://www.w3.org/", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text


def test_no_key_reaches_the_log_or_the_page(tmp_path):
    """Safe: a run that failed, retried and sampled leaves no trace of its key."""
    key = "tml-canary-4711"
    with (
        Server(Settings(api_keys=(key,))) as port,
        ServiceClient(base_url=port.url, api_key=key, run_log=tmp_path / "run") as service,
    ):
        training = service.create_lora_training_client("tinker-ext/tiny", rank=4)
        training.optim_step(AdamParams()).result()
        with pytest.raises(TinkerError):
            training.load_state("tinker://nobody/weights/x").result()
    replies = ask(tmp_path, ("GET", "/api/runs"), ("GET", "/api/run?id=run"))
    assert replies[1].json()["step"] == 1
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert key.encode() not in written + replies[0].content + replies[1].content


def test_ctrl_c_ends_the_command_with_zero(tmp_path):
    """M37: also while a page is connected to it."""
    command = [sys.executable, "-m", "tinker_ext", "--format", "json", "ui", str(tmp_path)]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        url = json.loads("{" + process.stdout.readline() + process.stdout.readline())["url"]
        with httpx.Client() as client:
            assert client.get(url, follow_redirects=True).status_code == 200
            with client.stream("GET", url.split("?")[0] + "api/events") as stream:
                assert stream.status_code == 200
                process.send_signal(signal.SIGINT)
                assert process.wait(300) == 0


def test_one_odd_file_does_not_stop_the_page(folder, monkeypatch, caplog):
    """Bad input: whatever goes wrong with a log, the next look tries again and shows the rest."""
    plain, calls = Folder.refresh, []

    def sometimes(self):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("odd")
        return plain(self)

    monkeypatch.setattr(Folder, "refresh", sometimes)
    monkeypatch.setattr(app, "REFRESH_SECONDS", 0.01)
    (reply,) = ask(folder, ("GET", "/api/runs"))
    assert [row["id"] for row in reply.json()["runs"]] == ["one"]
    assert "trying again" in caplog.text


def test_an_unknown_run_and_a_wrong_number_get_a_line(folder):
    """Bad input: an id with dots finds no file, a word is no number."""
    one, two, three = ask(
        folder,
        ("GET", "/api/run?id=../../etc/passwd"),
        ("GET", "/api/curves?id=one&low=x"),
        ("GET", "/api/samples?id=nobody"),
    )
    assert (one.status_code, two.status_code, three.status_code) == (404, 400, 404)
    assert "no such run" in one.text


def test_a_folder_without_runs_is_an_empty_list(tmp_path):
    """Bad input: the page then says how a run gets there."""
    (reply,) = ask(tmp_path, ("GET", "/api/runs"))
    assert reply.json()["runs"] == []
    assert "No runs here yet" in (app.STATIC / "app.js").read_text()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--port", "PORT", "FOLDER"], "--port 0"),
        (["--host", "no-such-name.invalid", "FOLDER"], "--host must be"),
        (["FOLDER/nothing"], "Name the folder"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, capsys, words, hint):
    """Bad input: a port in use, a name of nobody, no such folder: one line, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [w.replace("PORT", port).replace("FOLDER", str(tmp_path)) for w in words]
        with pytest.raises(SystemExit) as ended:
            main(["ui", *arguments])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert hint in said
