"""Secrets that a reply repeats: which are remembered, how far is searched; notes of the server."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from tinker_ext._transport.headers import DeprecationNotes, HeaderBlock
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.messages import Call
from tinker_ext._version import __version__

TOKEN_NAME = "x-tinker-weights-access-token"


class Given:
    """A credential whose value the test changes."""

    fingerprint = "f"

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.asked = 0

    async def header(self) -> str | None:
        self.asked += 1
        return self.value


def call(**fields) -> Call:
    usual = {"operation": "x", "method": "POST", "path": "/x", "lane": "rest", "timeout": 1.0}
    return Call(**{**usual, **fields})


def shown(block: HeaderBlock, secret: str, status: int = 400, before: bytes = b"") -> bool:
    """Whether a secret is still there when a reply repeats it."""
    _, _, content = block.receive((status, {}, before + secret.encode()))
    return secret.encode() in content


def sent(block: HeaderBlock, credentials: Given, value: str) -> None:
    credentials.value = value
    asyncio.run(block.renew(call()))


def test_the_last_sixteen_keys_are_blanked_and_no_more_are_kept():
    """M33: a key that was renewed may still be quoted; a client that runs for weeks stays small."""
    credentials = Given(None)
    block = HeaderBlock(credentials)
    keys = [f"tml-key-number-{number:02}" for number in range(18)]
    for key in keys[:16]:
        sent(block, credentials, key)
    sent(block, credentials, keys[0])  # used again: the newest of all
    sent(block, credentials, keys[16])
    assert not any(shown(block, key) for key in (keys[0], *keys[2:17]))
    assert len(block._recent) == 16
    sent(block, credentials, keys[17])
    assert not shown(block, keys[0])
    assert len(block._recent) == 16


@pytest.mark.parametrize(("key", "stays"), [("secret7", True), ("secret-8", False)])
def test_a_secret_has_eight_letters_or_more(key, stays):
    """M33: a shorter one may be a word of an ordinary reply."""
    credentials = Given(None)
    block = HeaderBlock(credentials)
    sent(block, credentials, key)
    assert shown(block, key) is stays
    assert shown(HeaderBlock(None, [("X-Gateway", f"Bearer {key}")]), key) is stays


@pytest.mark.parametrize("number", range(8))
def test_of_a_secret_that_has_another_in_it_nothing_is_left(number):
    """M33: the last word of a value is a secret as well, and a key may begin like another."""
    value = f'first"half-{number} second-half-{number}'
    given = [("X-Short", value[:10]), ("X-Gateway", value)]
    for extra in (given, given[::-1]):
        block = HeaderBlock(None, extra)
        for form in (value, json.dumps(value)[1:-1], json.dumps(json.dumps(value)[1:-1])[1:-1]):
            assert block.receive((400, {"a": form}, form.encode())) == (400, {"a": "***"}, b"***")


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_a_page_that_refuses_is_searched_to_its_end(status):
    """M33: errors are logged and pickled, however long they are."""
    credentials = Given(None)
    block = HeaderBlock(credentials)
    sent(block, credentials, "tml-0123456789")
    assert not shown(block, "tml-0123456789", status, b"x" * 200_000)


def test_a_token_in_a_body_is_blanked_as_well():
    """M33: `weights_access_token` of a request is a secret of the user."""
    block = HeaderBlock(None)
    body = b'{"weights_access_token" : "wat-0123456789", "path": "p"}'
    block.build(call(content=b" " * 60_000 + body), 0)
    assert not shown(block, "wat-0123456789")


def test_a_key_of_its_own_is_sent_alone_and_blanked():
    """M33: the call that exchanges a key asks for none, and its lines are not kept."""
    credentials = Given("tml-usual-0123456789")
    block = HeaderBlock(credentials)
    asyncio.run(block.renew(call()))
    own = call(headers=(("X-API-Key", "tml-other-0123456789"),))
    asyncio.run(block.renew(own))
    assert credentials.asked == 1
    for _ in range(2):
        lines = block.build(own, 0)
        assert "tml-other-0123456789" in lines
        assert "tml-usual-0123456789" not in lines
    assert not shown(block, "tml-other-0123456789")
    assert block._blocks == {}
    secret = call(headers=((TOKEN_NAME, "wat-0123456789"),))
    assert "tml-usual-0123456789" in block.build(secret, 0)
    assert not shown(block, "wat-0123456789")
    assert block._blocks == {}


def test_lines_of_many_different_calls_are_not_all_kept():
    """M23: 64 sets of headers are remembered; the others are written each time, and as well."""
    block = HeaderBlock(None)
    for number in range(80):
        headers = (("X-Number", str(number)),)
        for method in ("GET", "POST"):
            lines = [block.build(call(method=method, headers=headers), 0) for _ in range(2)]
            assert lines[0] == lines[1]
            assert f"X-Number: {number}\r\n" in lines[0]
            assert ("Content-Type" in lines[0]) is (method == "POST")
    assert len(block._blocks) == 64


def test_what_every_request_says_of_itself():
    """M33: a request without a body names no type of one; headers of the user replace ours."""
    agent = f"User-Agent: tinker-ext/{__version__}\r\n"
    for extra, lines in (((), agent), ((("user-agent", "mine"),), "user-agent: mine\r\n")):
        block = HeaderBlock(None, extra)
        coding = f"Accept-Encoding: {ACCEPT_ENCODING}\r\n"
        get, post = (block.build(call(method=method), 0) for method in ("GET", "POST"))
        assert sorted(get.splitlines(True)) == sorted(
            ["Accept: application/json\r\n", lines, coding]
        )
        assert sorted(post.splitlines(True)) == sorted(
            [*get.splitlines(True), "Content-Type: application/json\r\n"]
        )


def test_the_number_of_earlier_attempts_and_the_key_of_a_call_are_told():
    """M24: only a repeat says that it is one."""
    block = HeaderBlock(None)
    assert "Retry-Count" not in block.build(call(), 0)
    assert "Idempotency" not in block.build(call(), 0)
    lines = block.build(call(idempotency_key="k-1"), 2)
    assert "X-Stainless-Retry-Count: 2\r\n" in lines
    assert "X-Idempotency-Key: k-1\r\n" in lines


def test_a_note_of_the_server_is_logged_once_and_cut(caplog):
    """M33: 500 letters of each, a hundred of them, at the level the server asks for."""
    notes = DeprecationNotes(logging.getLogger("notes"))
    with caplog.at_level(logging.DEBUG, "notes"):
        notes.read({})
        notes.read({"x-deprecation-note": ""})
        for _ in range(2):
            notes.read({"x-deprecation-note": "a" * 501, "x-deprecation-level": "Error"})
        for number in range(120):
            notes.read({"x-deprecation-note": f"note {number}", "x-deprecation-level": "warn"})
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert said[0] == (logging.ERROR, "the server says: " + "a" * 500)
    assert said[1] == (logging.WARNING, "the server says: note 0")
    assert len(said) == 100
