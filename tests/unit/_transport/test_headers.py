"""What a reply says about the key it was asked with."""

from __future__ import annotations

import asyncio
import html
import json
import re
import string
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext._transport.headers import HeaderBlock, blank, written_forms
from tinker_ext._transport.messages import Call

KEY = "tml-0123456789abcdef"


class Watching:
    """A credential that notes when it is told of a refusal."""

    fingerprint = "f"

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.told: list[str] = []

    async def header(self) -> str | None:
        return self.value

    def refused(self, value: str) -> None:
        self.told.append(value)


@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
@pytest.mark.parametrize("value", [KEY, None])
def test_only_a_401_to_a_key_renews_it(status, value):
    """M33 F26: any other answer leaves the key alone, and so does a 401 without one."""
    credentials = Watching(value)
    block = HeaderBlock(credentials)
    call = Call(operation="health_check", method="GET", path="/x", lane="rest", timeout=1.0)
    asyncio.run(block.renew(call))
    block.build(call, 0)
    block.receive((status, {}, b"{}"))
    assert credentials.told == ([KEY] if status == 401 and value else [])


def taken_in(key, *reply):
    """What is left of a reply to a request that carried a key."""
    block = HeaderBlock(Watching(key))
    call = Call(operation="health_check", method="GET", path="/x", lane="rest", timeout=1.0)
    asyncio.run(block.renew(call))
    block.build(call, 0)
    return block.receive(reply)


@pytest.mark.parametrize("status", [200, 404])
def test_a_key_repeated_by_a_header_is_blanked_at_every_status(status):
    """M33: the note of a 200 is logged, and its Content-Type is quoted by errors."""
    _, fields, _ = taken_in(KEY, status, {"x-deprecation-note": f"key {KEY}", "etag": "a"}, b"{}")
    assert fields == {"x-deprecation-note": "key ***", "etag": "a"}


@pytest.mark.parametrize("name", ["Accept", "content-type"])
def test_a_header_that_replaces_one_of_ours_is_no_secret(name):
    """M33: as one, the type of every reply was blanked, and none could be read."""
    block = HeaderBlock(None, ((name, "application/json"), ("X-Gateway", KEY)))
    _, fields, content = block.receive((200, {"content-type": "application/json"}, KEY.encode()))
    assert (fields, content) == ({"content-type": "application/json"}, b"***")


TWISTED = 'tml-S3cr3t+Key/abc=="<&'


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    "form",
    [
        json.dumps(TWISTED)[1:-1],
        json.dumps(TWISTED)[1:-1].replace("/", r"\/"),
        "".join(f"\\u{ord(each):04x}" for each in TWISTED),
        "".join(each if each.isalnum() else f"\\u{ord(each):04X}" for each in TWISTED),
        quote(TWISTED, safe=""),
        quote(TWISTED),
        re.sub("%..", lambda match: match[0].lower(), quote(TWISTED, safe="")),
        html.escape(TWISTED),
        quote(TWISTED, safe="!$&'()*+,;=:@"),  # a segment of a path
        "tml-S3cr3t%2bKey%2Fabc%3D%3d%22%3C%26",
        r"tml\u002DS3cr3t\u002bKey\u002fabc\u003D\u003d\u0022\u003C\u0026",
        r"tml-S3cr3t+Key/abc==\"\u003c\u0026",  # Go
        r"tml-S3cr3t\u002BKey/abc==\u0022\u003C\u0026",  # .NET
        r"tml-S3cr3t\\u002BKey/abc==\\u0022\\u003C\\u0026",  # within JSON again
        r"tml-S3cr3t+Key\\/abc==\\\"<&",
    ],
)
def test_a_key_is_blanked_however_a_reply_writes_it(status, form):
    """M33: what JSON, a URL or a page escapes reads as the key again."""
    body = b'{"detail":"bad ' + form.encode() + b'"}'
    blanked = b'{"detail":"bad ***"}'
    told = {"location": f"/?k={form}"}
    # In both places, and in one of them alone.
    assert taken_in(TWISTED, status, told, body)[1:] == ({"location": "/?k=***"}, blanked)
    assert taken_in(TWISTED, status, told, b"{}")[1:] == ({"location": "/?k=***"}, b"{}")
    assert taken_in(TWISTED, status, {"etag": "a"}, body)[1:] == ({"etag": "a"}, blanked)


@pytest.mark.parametrize("around", ["", " %2C "])
@pytest.mark.parametrize("form", ["GRO\xdc-key", "GRO\xc3\x9c-key", "GRO%C3%9c-key", "GRO%dc-key"])
def test_a_key_with_other_letters_is_blanked(form, around):
    """M33: a header is Latin-1, and what JSON or a URL repeats of it may be UTF-8."""
    told = {"x-deprecation-note": form + around}
    _, fields, content = taken_in("GRO\xdc-key", 400, told, (form + around).encode("latin-1"))
    assert fields == {"x-deprecation-note": "***" + around}
    assert content == b"***" + around.encode()


def test_a_value_that_grows_in_small_letters_is_blanked_as_a_whole():
    """M33: where its parts begin is not known any more."""
    note = f"\u0130\u0130\u0130 %2C {TWISTED} \u0130"
    _, fields, _ = taken_in(TWISTED, 200, {"x-deprecation-note": note, "etag": "A"}, b"{}")
    assert fields == {"x-deprecation-note": "***", "etag": "A"}


@pytest.mark.parametrize(
    ("times", "more", "left"),
    [
        (999, b"", b"A***" * 999),
        (1000, b"", b"***"),
        (1, b"A" * 1_000_000, b"A***" + b"A" * 1_000_000),
        (1, b"A" * (1 << 24), b"***"),
    ],
    ids=["many", "too many", "long", "too long"],
)
def test_a_page_of_echoes_is_not_taken_apart(times, more, left):
    """M33: a server may send a hundred million of them, or one in half a gigabyte."""
    echo = b"A" + quote(TWISTED, safe="").encode()
    assert taken_in(TWISTED, 400, {}, echo * times + more)[2] == left


@given(st.text(string.ascii_letters + string.digits + string.punctuation, min_size=8), st.data())
def test_a_key_is_blanked_whichever_digits_are_capitals(key, data):
    """M33: `%2b` may stand beside `%3C`, and what is around it stays as it was."""

    def drawn(match):
        return match[0].lower() if data.draw(st.booleans()) else match[0]

    form = re.sub("%..", drawn, quote(key, safe=""))
    note = f"[%2B {form} Ab]"
    _, fields, content = taken_in(key, 400, {"x-deprecation-note": note}, note.encode())
    assert fields == {"x-deprecation-note": "[%2B *** Ab]"}
    assert content == b"[%2B *** Ab]"


def test_much_that_looks_like_a_long_token_holds_nobody_up():
    """M42: a server chooses both; the time grows with the one or the other, not with both."""

    def seconds(length):
        forms = written_forms(["AB" + "A" * length])
        began = time.perf_counter()
        assert blank(forms, (400, {}, b"A" * 500_000))[2] == b"A" * 500_000
        return time.perf_counter() - began

    assert min(seconds(20_000) for _ in range(3)) < 50 * min(seconds(20) for _ in range(3))
