"""Replies over a transport of httpx: which lengths fit, which do not, and what is said then.

M25 M27: the limits and errors are those of our own connections.
"""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest

from tinker_ext._transport import bridge
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    MalformedReplyError,
    ReplyTooLargeError,
    UnreadableReplyError,
)
from tinker_ext.errors import ConfigurationError


class Stream(httpx.AsyncByteStream):
    """The pieces of a body, as they arrive."""

    def __init__(self, *pieces):
        self.pieces, self.closed = pieces, 0

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece

    async def aclose(self):
        self.closed += 1


def sent(answer, method="GET", limit=10, content=None, headers=""):
    """What one exchange comes to, and the request as it left."""
    seen = []

    async def handle(request):
        seen.append(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    transport = httpx.MockTransport(lambda _: None)
    transport.handle_async_request = handle
    call = Call("x", method, "/a", content=content)
    try:
        return asyncio.run(
            bridge.send_foreign(transport, call, "http://s.test/a", headers, 5.0, limit)
        ), seen
    except Exception as error:
        return error, seen


def reply(status, *pieces, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=names, stream=Stream(*pieces))


LENGTHS = [
    (reply(200, b"12345", b"67890"), "GET", b"1234567890"),
    (reply(200, b"12345", content_length="5"), "GET", b"12345"),
    (reply(204, content_length="5"), "GET", b""),
    (reply(304, content_length="5"), "GET", b""),
    (reply(200, content_length="5"), "HEAD", b""),
    (reply(200, content_length="many"), "GET", b""),
    (reply(200, gzip.compress(b"12345"), content_encoding="gzip"), "GET", b"12345"),
    (reply(200, content_encoding="gzip"), "GET", b""),
]


@pytest.mark.parametrize(("answer", "method", "body"), LENGTHS)
def test_bodies_that_fit(answer, method, body):
    """A reply without a body may tell the length of one."""
    (status, _, found), _ = sent(answer, method, limit=30)
    assert (status, found) == (answer.status_code, body)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (reply(200, b"12345", b"678901"), ReplyTooLargeError, "larger than the 10 bytes allowed"),
        (reply(500, b"x" * 11), ReplyTooLargeError, "larger than the 10 bytes allowed"),
        (
            reply(200, content_length="5"),
            MalformedReplyError,
            "0 bytes where its header promises 5",
        ),
        (
            reply(205, content_length="5"),
            MalformedReplyError,
            "0 bytes where its header promises 5",
        ),
        (reply(200, b"xyz", content_encoding="gzip"), UnreadableReplyError, "cannot be unpacked"),
        (
            reply(200, gzip.compress(b"1")[:9], content_encoding="gzip"),
            UnreadableReplyError,
            "cannot be unpacked",
        ),
        (reply(200, b"x", content_encoding="br"), UnreadableReplyError, "cannot be unpacked"),
        (httpx.ConnectError("no route"), ConnectError, "cannot connect: no route"),
        (httpx.ReadTimeout("slow"), ExchangeTimeoutError, "no complete reply within 5 s"),
        (httpx.ConnectTimeout("slow"), ExchangeTimeoutError, "no connection within 5 s"),
        (httpx.RemoteProtocolError("odd"), MalformedReplyError, "could not be read: odd"),
        (OSError("gone"), ConnectionLostError, "no answer: OSError: gone"),
    ],
)
def test_replies_that_do_not_fit(answer, error, words):
    """What went wrong in words; the reply is closed and its status kept."""
    found, _ = sent(answer)
    assert type(found) is error
    assert words in str(found)
    if isinstance(answer, httpx.Response):
        assert answer.stream.closed == 1
        if error is ReplyTooLargeError:
            assert found.status_code == answer.status_code


@pytest.mark.parametrize(
    ("method", "content", "length"),
    [
        ("GET", None, None),
        ("POST", None, "0"),
        ("PUT", b"", "0"),
        ("POST", b"abc", "3"),
        ("GET", b"a", "1"),
    ],
)
def test_a_request_tells_the_length_of_its_body(method, content, length):
    """Where it has one, or where its method promises one."""
    _, (request,) = sent(reply(200), method, content=content, headers="A: b\r\nC: d: e\r\n")
    assert request.headers.get("content-length") == length
    assert (request.headers["a"], request.headers["c"]) == ("b", "d: e")
    assert request.headers["host"] == "s.test"
    assert request.content == (content or b"")
    assert set(request.extensions["timeout"].values()) == {5.0}


def test_names_of_headers_are_joined():
    """One that comes twice is one with both values."""
    answer = httpx.Response(200, headers=[("A", "1"), ("a", "2"), ("B", "3")], stream=Stream())
    (_, names, _), _ = sent(answer)
    assert names == {"a": "1, 2", "b": "3"}


def test_a_proxy_that_httpx_cannot_speak_to_is_named():
    """M31: by its kind, not by its address, which may hold a password."""
    with pytest.raises(ConfigurationError, match=r"cannot be used \(foo://…\)") as caught:
        bridge.proxy_transport("foo://user:secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "hosts"),
    [
        ("", ["s.test"]),
        ("A: b\r\nX-Host: other.test\r\n", ["s.test"]),
        ("Host: other.test\r\nA: b\r\n", ["other.test"]),
        ("A: b\r\nhost: other.test\r\n", ["other.test"]),
    ],
)
def test_a_request_names_one_host(headers, hosts):
    """M25: the one that the caller gave, if any; httpx refuses to send two."""
    _, (request,) = sent(reply(200), headers=headers)
    assert request.headers.get_list("host") == hosts
