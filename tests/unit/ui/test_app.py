"""The page's server: who is let in, what it answers, and what the command says when it cannot."""

import asyncio
import json
import os
import sys
import threading
from unittest import mock
from urllib.parse import urlencode

import httpx
import orjson
import pytest

from tinker_ext.ui import app
from tinker_ext.ui.app import LOOPBACK, make
from tinker_ext.ui.folder import Folder
from tinker_ext.ui.shown import Shown

from .test_shown import DEEP, line, step, write

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
    refresh, read = Folder.refresh, threading.Event()

    def noted(self):
        found = refresh(self)
        read.set()
        return found

    async def scenario():
        made = make(folder, TOKEN, hosts, "test")
        transport = httpx.ASGITransport(made)
        async with made.router.lifespan_context(made):
            await asyncio.to_thread(read.wait)
            cookies = {"tinker_ext_ui_test": token} if token else {}
            async with httpx.AsyncClient(
                transport=transport, base_url=f"http://{host}", cookies=cookies
            ) as client:
                return [
                    await client.request(method, url, headers=dict(*headers))
                    for method, url, *headers in requests
                ]

    with mock.patch.object(Folder, "refresh", noted):
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


@pytest.mark.parametrize("path", ["//evil.example/", "//evil.example/%2e%2e", "/\\evil.example"])
def test_the_token_never_leads_elsewhere(folder, path):
    """Safe: an address of this page with the token in it stays on this page."""
    (reply,) = ask(folder, ("GET", f"http://127.0.0.1:8717{path}?token={TOKEN}"), token="")
    assert (reply.status_code, reply.headers["location"]) == (303, "/")


@pytest.mark.parametrize("host", ["[", "[::1", "[x]", "]", "\xff\xfe", "a/b", ""])
def test_a_host_that_is_not_one_is_refused(folder, host):
    """M50: whatever the header says, the answer is a line, before anything is looked at."""
    for token in ("", TOKEN):
        headers = {"host": host.encode("latin-1")}
        (reply,) = ask(folder, ("GET", "/api/runs", headers), token=token)
        assert reply.status_code == 421
        assert "its own address" in reply.text


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


@pytest.mark.parametrize("odd", [ZeroDivisionError, {1: 2}])
def test_one_run_that_cannot_be_shown_takes_no_other_away(folder, monkeypatch, odd):
    """Bad input: whatever its log holds, the row says so and the other rows are there."""
    (folder / "odd").mkdir()
    write(folder / "odd" / "metrics.jsonl", line("session_start", version=1))
    plain = Shown.summary

    def summary(self, now):
        if self.path.parent.name != "odd":
            return plain(self, now)
        if isinstance(odd, type):
            raise odd
        return {"totals": odd}

    monkeypatch.setattr(Shown, "summary", summary)
    (reply,) = ask(folder, ("GET", "/api/runs"))
    rows = {row["id"]: row for row in reply.json()["runs"]}
    assert rows["one"]["step"] == 49
    assert rows["odd"]["state"] == "unreadable"
    assert "its log cannot be shown" in rows["odd"]["reason"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_names_that_are_not_utf8_are_shown_and_can_be_asked_for(folder):
    """M50: the page of a folder and of runs whose names are bytes of another encoding."""
    bad = folder / os.fsdecode(b"\xe9t\xe9")
    (bad / "run\udce9").mkdir(parents=True)
    write(bad / "run\udce9" / "metrics.jsonl", step(3))
    for place, run in ((folder, "\\xe9t\\xe9/run\\xe9"), (bad, "run\\xe9")):
        runs, one = ask(place, ("GET", "/api/runs"), ("GET", f"/api/run?{urlencode({'id': run})}"))
        assert run in [row["id"] for row in runs.json()["runs"]]
        assert one.json()["step"] == 3
    gone = Shown(bad / "gone\udce9.jsonl")
    gone.advance()
    assert b"gone\\\\xe9.jsonl cannot be read" in orjson.dumps(gone.details(0.0))


@pytest.mark.parametrize(
    "odd",
    [
        {"sequences": {}},
        {"sequences": "text"},
        {"sequences": 7},
        {"sequences": [7]},
        {"sequences": [{"pieces": 5}]},
        {"sequences": [{"pieces": "text"}]},
        {"sequences": [{"logprobs": {"a": 1}}]},
        {"sequences": [{"reward": 1e308}, {"reward": 1e308}]},
        {"sequences": [{"reward": "high"}]},
        {"sequences": [], "prompt": DEEP},
        {"sequences": [], "step": DEEP},
        {"sequences": [], "prompt_id": [], "prompt": {}},
        {"sequences": [{"text": 7, "stop_reason": {}}], "step": [], "time": "noon"},
    ],
    ids=lambda value: str(value)[:60],
)
def test_one_odd_sample_takes_no_other_away(folder, odd):
    """M50: samples with the right names and the wrong types; lists are lists for the page."""
    good = {"prompt_id": "good", "prompt": "p", "sequences": [{"text": "t", "reward": 1.0}]}
    odd = {"prompt_id": "odd", "prompt": "q", **odd}
    write(folder / "one" / "samples.jsonl", json.dumps(good), json.dumps(odd))
    first, newest = ask(
        folder, ("GET", "/api/samples?id=one&prompt=good"), ("GET", "/api/samples?id=one")
    )
    assert [each["text"] for each in first.json()["records"][0]["sequences"]] == ["t"]
    shown = newest.json()
    assert "good" in [each["prompt_id"] for each in shown["prompts"]]
    assert shown["records"], "what is listed can be shown"
    for record in shown["records"]:
        for each in record["sequences"]:
            assert type(each["pieces"]) is type(each["logprobs"]) is list


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
