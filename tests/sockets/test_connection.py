"""A connection: common headers, keys, lanes, redirects, foreign transports, TLS, secrets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import pickle
import random
import ssl
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sockets.loopback import Seen, Writer, reply, serving
from virtual_clock import run_virtual

from tinker_ext._transport.connection import Connection
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    Lane,
    LaneBusyError,
    MalformedReplyError,
    RedirectRefusedError,
    ReplyTooLargeError,
    RetryRule,
    UnreadableReplyError,
)
from tinker_ext._transport.origin import encode_target, proxy_for, split_base_url
from tinker_ext._transport.pool import LaneSettings
from tinker_ext._version import __version__
from tinker_ext.config import Config
from tinker_ext.errors import (
    APIConnectionError,
    ClientClosedError,
    ConfigurationError,
    ConflictError,
    InternalServerError,
    TinkerError,
)
from tinker_ext.telemetry import (
    Event,
    LoggingObserver,
    Observers,
    RequestFinished,
    RetryScheduled,
)

TLS = Path(__file__).parents[1] / "data" / "tls"
SECRET = "tml-very-secret"
GET = Call("get_thing", "GET", "/api/v1/thing")
POST = Call("do_thing", "POST", "/api/v1/do", b"{}", retry=RetryRule.DEDUPE)


class Key:
    """A credential whose value can change between requests."""

    def __init__(self, value: str | None = SECRET) -> None:
        self.value = value

    @property
    def fingerprint(self) -> str:
        return "mark"

    async def header(self) -> str | None:
        return self.value


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_common_headers() -> None:
    """M33: key, agent, content type, idempotency key; a call's own header wins; GET is bare."""

    async def main() -> None:
        async with serving(reply()) as server:
            config = Config(cloudflare_client_id="id", cloudflare_client_secret="shh")
            connection = Connection(
                server.url + "/base/", Key(), config=config, headers=[("X-Extra", "1")]
            )
            await connection.once(GET)
            await connection.once(POST)
            await connection.once(
                Call("x", "POST", "/p", b"", headers=(("Accept", "application/x-protobuf"),))
            )
            await connection.aclose()
            get, post, proto = server.seen
            assert get.target == "/base/api/v1/thing"
            assert get.headers["x-api-key"] == SECRET
            assert get.headers["user-agent"] == f"tinker-ext/{__version__}"
            assert get.headers["accept"] == "application/json"
            assert get.headers["cf-access-client-id"] == "id"
            assert get.headers["cf-access-client-secret"] == "shh"
            assert get.headers["x-extra"] == "1"
            assert not {"content-type", "x-idempotency-key", "content-length"} & set(get.headers)
            assert post.headers["content-type"] == "application/json"
            assert post.headers["x-idempotency-key"]
            assert proto.headers["accept"] == "application/x-protobuf"

    asyncio.run(main())


def test_key_is_asked_for_each_attempt() -> None:
    """M33: a refreshed credential is used at once, and none means no header."""

    async def main() -> None:
        async with serving(reply()) as server:
            key = Key("first")
            connection = Connection(server.url, key)
            await connection.once(GET)
            key.value = "second"
            await connection.once(GET)
            key.value = None
            await connection.once(GET)
            await connection.aclose()
            assert [s.headers.get("x-api-key") for s in server.seen] == ["first", "second", None]

    asyncio.run(main())


def test_a_call_with_its_own_key_does_not_ask_for_one() -> None:
    """M33: the exchange of a key for a token cannot wait for that very token."""

    class Waiting(Key):
        async def header(self) -> str | None:
            raise AssertionError("asked")

    async def main() -> None:
        async with serving(reply()) as server:
            connection = Connection(server.url, Waiting())
            call = Call("auth_token", "POST", "/auth/token", b"{}", (("X-API-Key", "tml-own"),))
            assert (await connection.exchange(call)).status == 200
            assert server.seen[0].headers["x-api-key"] == "tml-own"
            await connection.aclose()

    asyncio.run(main())


def test_retries_keep_body_and_idempotency_key() -> None:
    """M20: every attempt carries the same bytes and the same key; two calls differ."""

    async def main() -> None:
        async def answer(_: Seen, writer: Writer) -> None:
            failing = len(server.seen) in (1, 2)
            writer.write(reply(status=503, headers=("Retry-After-Ms: 5",)) if failing else reply())

        async with serving(answer) as server:
            connection = Connection(server.url, Key())
            await connection.exchange(POST)
            await connection.exchange(POST)
            await connection.aclose()
            keys = [seen.headers["x-idempotency-key"] for seen in server.seen]
            assert keys[0] == keys[1] == keys[2] != keys[3]
            assert {seen.body for seen in server.seen} == {b"{}"}
            counts = [seen.headers.get("x-stainless-retry-count") for seen in server.seen]
            assert counts == [None, "1", "2", None]

    asyncio.run(main())


def test_lanes_do_not_starve_each_other() -> None:
    """M25: with every poll connection held by the server, a training call goes straight through."""

    async def main() -> None:
        held = asyncio.Event()

        async def answer(seen: Seen, writer: Writer) -> None:
            if seen.target == "/poll":
                if len(server.seen) == 3:
                    held.set()
                await asyncio.sleep(3600)
            writer.write(reply())

        async with serving(answer) as server:
            connection = Connection(
                server.url, Key(), lanes={Lane.POLL: LaneSettings(3, 1_000_000)}
            )
            polls = [
                asyncio.ensure_future(
                    connection.once(Call("poll", "POST", "/poll", b"", lane=Lane.POLL))
                )
                for _ in range(20)
            ]
            await held.wait()
            for lane in (Lane.TRAIN, Lane.SAMPLE, Lane.SESSION, Lane.REST, Lane.TELEMETRY):
                call = Call("x", "POST", "/x", b"", lane=lane, timeout=300)
                assert (await connection.once(call)).status == 200
            assert [seen.target for seen in server.seen].count("/poll") == 3
            assert connection.queue(Lane.POLL).waiting == 17
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
            await connection.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "where", ["path", "absolute", "port", "host", "scheme", "userinfo", "file", "relative", "none"]
)
def test_redirect_matrix(status: int, method: str, where: str) -> None:
    """M33: only a GET follows, only within its origin; the key is never sent anywhere else."""

    async def main() -> None:
        async with serving(reply(b"elsewhere")) as other:

            async def answer(seen: Seen, writer: Writer) -> None:
                if seen.target.startswith("/new"):
                    writer.write(reply(b"moved here"))
                    return
                location = {
                    "path": "/new?x=1",
                    "absolute": f"{server.url}/new",
                    "relative": "../../new",
                    "port": f"{other.url}/new",
                    "host": f"http://localhost:{server.port}/new",
                    "scheme": f"https://127.0.0.1:{server.port}/new",
                    "userinfo": f"http://u:p@127.0.0.1:{server.port}/new",
                    "file": "file:///etc/passwd",
                    "none": "",
                }[where]
                writer.write(reply(status=status, headers=(f"Location: {location}",)))

            async with serving(answer) as server:
                connection = Connection(server.url, Key())
                call = Call("thing", method, "/api/v1/thing", None if method == "GET" else b"{}")
                if method == "GET" and where in ("path", "absolute", "relative"):
                    assert (await connection.exchange(call)).content == b"moved here"
                    assert server.seen[-1].headers["x-api-key"] == SECRET
                else:
                    with pytest.raises(RedirectRefusedError) as caught:
                        await connection.exchange(call)
                    assert caught.value.status_code == status
                    assert "u:p" not in str(caught.value)
                    assert len(server.seen) == 1
                await connection.aclose()
            assert other.connections == 0

    asyncio.run(main())


def test_redirect_loop_ends() -> None:
    """M33: a server that redirects to itself for ever is refused after a few steps."""

    async def main() -> None:
        async with serving(reply(status=302, headers=("Location: /again",))) as server:
            connection = Connection(server.url, Key())
            with pytest.raises(RedirectRefusedError):
                await connection.exchange(GET)
            assert len(server.seen) <= 6
            await connection.aclose()

    asyncio.run(main())


def test_archive_redirect_is_the_answer() -> None:
    """M35: the archive call gets the 302 itself, signed location included."""

    async def main() -> None:
        raw = reply(status=302, headers=("Location: https://bucket.invalid/a?sig=1", "Expires: x"))
        async with serving(raw) as server:
            connection = Connection(server.url, Key())
            call = Call("archive", "GET", "/archive", redirect_is_answer=True)
            answer = await connection.exchange(call)
            assert (answer.status, answer.headers["location"]) == (
                302,
                "https://bucket.invalid/a?sig=1",
            )
            await connection.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/x",
        "gopher://host",
        "javascript:alert(1)",
        "host:8080",
        "",
        "http://",
        "http://user:pass@host/x",
        "https://user@host",
        "http://host?x=1",
        "http://host#x",
        "http://ho st/",
        "http://host:99999999/",
        "http://host\r\nX: y/",
        "http://ho\\st/",
    ],
)
def test_base_urls_refused(url: str) -> None:
    """M33: only plain http(s) URLs without a user, and the message never shows a password."""
    with pytest.raises(ConfigurationError) as caught:
        Connection(url, None)
    assert "pass" not in str(caught.value).replace("password", "")


def test_base_urls_accepted() -> None:
    """M28: any scheme, port and path prefix; a trailing slash is dropped."""
    assert Connection("HTTP://Host:80/a/", None).base_url == "http://host/a"
    assert Connection("https://[::1]:8443", None).base_url == "https://[::1]:8443"
    assert str(split_base_url("http://bücher.example")[0]) == "http://xn--bcher-kva.example"


def test_paths_cannot_break_the_request_line() -> None:
    """M28: ids go out as given, but a line break or space in one stays inside the path."""
    assert encode_target("/a:b/c@d?x=1&y=%20") == "/a:b/c@d?x=1&y=%20"
    assert encode_target("/a b\r\nX: y#é") == "/a%20b%0D%0AX:%20y%23%C3%A9"


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\x00b", "\u0100"])
def test_headers_cannot_be_injected(value: str) -> None:
    """M33: a forbidden character fails before a byte is sent and is not shown."""
    with pytest.raises(ConfigurationError) as caught:
        Connection("http://host", None, headers=[("X-Y", value)])
    assert value not in str(caught.value)

    async def main() -> None:
        async with serving(reply()) as server:
            connection = Connection(server.url, Key(SECRET + value))
            with pytest.raises(ConfigurationError) as caught:
                await connection.once(GET)
            assert SECRET not in str(caught.value)
            assert not server.seen
            await connection.aclose()

    asyncio.run(main())


def test_final_errors_say_what_happened() -> None:
    """M38: status, operation, attempts and elapsed time; no key in text, repr or pickle."""

    async def main() -> None:
        async with serving(reply(b'{"detail":"taken"}', 409)) as server:
            connection = Connection(server.url, Key())
            call = Call("publish", "POST", "/publish", b"", retry=RetryRule.FINAL409)
            with pytest.raises(ConflictError) as caught:
                await connection.exchange(call)
            assert (caught.value.operation, caught.value.attempts) == ("publish", 1)
            assert "taken" in str(caught.value)
            dump = pickle.dumps(caught.value) + repr((connection, call, caught.value)).encode()
            assert SECRET.encode() not in dump
            again = pickle.loads(pickle.dumps(caught.value))
            assert (again.status_code, again.attempts) == (409, 1)
            await connection.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    "error",
    [
        ConnectError("x"),
        ConnectionLostError("x", sent=None),
        MalformedReplyError("x"),
        ExchangeTimeoutError("x", sent=False),
        ReplyTooLargeError("x", 503),
        RedirectRefusedError("x", 307),
    ],
)
def test_errors_pickle(error: TinkerError) -> None:
    """M38: transport errors survive a process boundary with what they know."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.__dict__.keys() == error.__dict__.keys()
    assert getattr(again, "sent", 0) == getattr(error, "sent", 0)
    assert str(again) == str(error)


@pytest.mark.parametrize("coding", ["gzip", "br", "nonsense"])
def test_a_reply_that_cannot_be_unpacked_is_asked_for_three_times(coding: str) -> None:
    """M24: a proxy that damages every reply is reported, not asked for minutes."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, stream=Streamed(b"xx"), headers={"Content-Encoding": coding})

    asked: list[httpx.Request] = []

    async def main() -> None:
        with pytest.raises(UnreadableReplyError, match="cannot be unpacked") as caught:
            await foreign(answer).exchange(POST)
        assert caught.value.attempts == len(asked) == 3
        assert "proxy" in str(caught.value)

    run_virtual(main())


def test_a_call_that_fails_for_long_is_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M22: nobody waits for minutes without a word; a line every ten seconds at most."""
    monkeypatch.setattr("tinker_ext._transport.connection._answered", {"http://server/base"})

    async def main() -> None:
        with pytest.raises(APIConnectionError):
            await foreign(httpx.ConnectError("nobody home")).exchange(POST)

    with caplog.at_level(logging.WARNING, logger="tinker_ext"):
        run_virtual(main())
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 30
    assert lines[0].startswith("do_thing to http://server/base has failed ")
    assert "nobody home" in lines[0]
    assert not any(SECRET in line for line in lines)


def test_the_first_contact_ends_soon(caplog: pytest.LogCaptureFixture) -> None:
    """F42 M47: a server that never answered is given up within 10 s, without a word in the log."""

    async def main() -> None:
        with pytest.raises(APIConnectionError) as caught:
            await foreign(httpx.ConnectError("nobody home")).exchange(POST)
        assert 5.0 <= asyncio.get_running_loop().time() < 10.0
        assert "doctor" in str(caught.value)

    run_virtual(main())
    assert caplog.records == []  # the error comes before a line about waiting would be due


def test_unsafe_failure_names_the_reason() -> None:
    """M20: a 5xx on an operation that cannot be repeated is final and the hint says why."""

    async def main() -> None:
        async with serving(reply(status=500)) as server:
            connection = Connection(server.url, Key())
            call = Call("optim_step", "POST", "/o", b"", retry=RetryRule.UNSAFE, lane=Lane.TRAIN)
            with pytest.raises(InternalServerError, match="not sent again"):
                await connection.exchange(call)
            assert len(server.seen) == 1
            await connection.aclose()

    asyncio.run(main())


def test_an_error_of_a_connection_keeps_no_frame_that_knows_the_key() -> None:
    """M33: crash reporters print local variables, and the bytes that were sent have the key."""

    async def main() -> None:
        async def cut(seen: Seen, writer: Writer) -> None:
            assert seen.headers["x-api-key"] == SECRET
            writer.close()

        async with serving(cut) as server:
            connection = Connection(server.url, Key())
            call = Call("optim_step", "POST", "/o", b"", retry=RetryRule.UNSAFE, lane=Lane.TRAIN)
            with pytest.raises(TinkerError) as caught:
                await connection.exchange(call)
            await connection.aclose()
        error: BaseException | None = caught.value
        while error is not None:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if frame.f_globals["__name__"].startswith("tinker_ext."):
                    assert SECRET not in repr(frame.f_locals), frame.f_code.co_qualname
            error = error.__cause__ or error.__context__

    asyncio.run(main())


def test_closed_connection_refuses() -> None:
    """M21: a call after close is a clear error."""

    async def main() -> None:
        connection = Connection("http://127.0.0.1:9", None)
        await connection.aclose()
        with pytest.raises(ClientClosedError):
            await connection.exchange(GET)

    asyncio.run(main())


def test_a_closed_connection_leaves_the_server_none() -> None:
    """M21: of every lane, idle or at work."""

    async def main() -> None:
        arrived = asyncio.Event()

        async def answer(seen: Seen, writer: Writer) -> None:
            if seen.method == "POST":
                arrived.set()
            else:
                writer.write(reply())

        async with serving(answer) as server:
            connection = Connection(server.url, Key())
            for lane in (Lane.REST, Lane.SESSION):
                await connection.exchange(Call("get", "GET", "/x", lane=lane))
            post = Call("post", "POST", "/x", b"", lane=Lane.SAMPLE, retry=RetryRule.ONCE)
            at_work = asyncio.ensure_future(connection.exchange(post))
            await asyncio.wait_for(arrived.wait(), 300)
            assert server.open == 3
            await connection.aclose()
            with pytest.raises(APIConnectionError):
                await at_work
            for _ in range(5000):
                if server.open:
                    await asyncio.sleep(0.001)
            assert server.open == 0

    asyncio.run(main())


class Streamed(httpx.AsyncByteStream):
    """A body in pieces."""

    def __init__(self, *pieces: bytes, fail: Exception | None = None) -> None:
        self.pieces = pieces
        self.fail = fail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.fail is not None:
            raise self.fail


def foreign(answer: Any, **options: Any) -> Connection:
    async def handle(request: httpx.Request) -> httpx.Response:
        result = answer(request) if callable(answer) else answer
        if isinstance(result, Exception):
            raise result
        return result

    return Connection("http://server/base", Key(), transport=httpx.MockTransport(handle), **options)


def test_injected_transport() -> None:
    """M25: an ASGI app or mock given by the caller carries the same request."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://server/base/api/v1/do"
        assert request.headers["x-api-key"] == SECRET
        assert request.read() == b"{}"
        packed = gzip.compress(b"unpacked")
        return httpx.Response(
            200, stream=Streamed(packed[:5], packed[5:]), headers={"Content-Encoding": "gzip"}
        )

    async def main() -> None:
        got = await foreign(answer).exchange(POST)
        assert (got.status, got.content) == (200, b"unpacked")
        assert (await foreign(httpx.Response(200, json={"a": 1})).once(POST)).content == b'{"a":1}'

    run_virtual(main())


@pytest.mark.parametrize(
    ("answer", "kind", "sent"),
    [
        (httpx.ConnectError("x"), ConnectError, False),
        (httpx.ReadError("x"), ConnectionLostError, None),
        (httpx.ReadTimeout("x"), ExchangeTimeoutError, None),
        (httpx.ConnectTimeout("x"), ExchangeTimeoutError, False),
        (httpx.RemoteProtocolError("x"), MalformedReplyError, None),
        (RuntimeError("app crashed"), ConnectionLostError, None),
        (
            httpx.Response(200, stream=Streamed(b"a", fail=httpx.ReadError("x"))),
            MalformedReplyError,
            True,
        ),
        (
            httpx.Response(200, stream=Streamed(b"abc"), headers={"Content-Length": "9"}),
            MalformedReplyError,
            True,
        ),
    ],
)
def test_foreign_failures_become_ours(answer: Any, kind: type[Exception], sent: object) -> None:
    """M38: whatever another transport raises, the caller sees one of our errors."""

    async def main() -> None:
        with pytest.raises(kind) as caught:
            await foreign(answer).once(POST)
        assert caught.value.sent is sent
        assert caught.value.operation == "do_thing"

    run_virtual(main())


def test_foreign_bomb_and_hang() -> None:
    """M28: another transport's reply is bounded in size and time as well."""

    async def main() -> None:
        bomb = gzip.compress(bytes(64 * 1024 * 1024))
        huge = httpx.Response(200, stream=Streamed(bomb), headers={"Content-Encoding": "gzip"})
        with pytest.raises(ReplyTooLargeError):
            await foreign(huge).once(POST)

        async def hang(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(1e6)
            return httpx.Response(200)

        connection = Connection("http://server", None, transport=httpx.MockTransport(hang))
        with pytest.raises(ExchangeTimeoutError, match="60 s"):
            await connection.once(POST)
        assert asyncio.get_running_loop().time() == pytest.approx(60.0)

    run_virtual(main())


@pytest.mark.parametrize(
    ("env", "url", "proxy"),
    [
        ({}, "http://host", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://host", "http://p:1"),
        ({"HTTP_PROXY": "p:1"}, "http://host", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://host", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://host", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "https://host", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "host"}, "https://host", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://host", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ".org"}, "https://a.org:8443", None),
    ],
)
def test_proxy_variables(
    env: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M33: the standard proxy variables are honoured."""
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("REQUEST_METHOD", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name.lower(), value)
    assert proxy_for(split_base_url(url)[0]) == proxy


def test_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """M33: with a proxy set, httpx's own transport carries the call to it."""

    async def main() -> None:
        async with serving(reply(b"by proxy")) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            connection = Connection("http://server.invalid/base", Key())
            assert (await connection.once(GET)).content == b"by proxy"
            assert proxy.seen[0].target == "http://server.invalid/base/api/v1/thing"
            await connection.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("certificate", "trusted", "host", "works"),
    [
        ("good", True, "127.0.0.1", True),
        ("good", True, "localhost", True),
        ("good", False, "127.0.0.1", False),
        ("elsewhere", True, "127.0.0.1", False),
        ("expired", True, "127.0.0.1", False),
    ],
)
def test_tls(
    certificate: str, trusted: bool, host: str, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M33: self-signed, expired and wrong-host certificates are refused before the key is sent."""

    async def main() -> None:
        seen: list[bytes] = []

        async def handle(reader: asyncio.StreamReader, writer: Writer) -> None:
            try:
                for _ in range(2):
                    seen.append(await reader.readuntil(b"\r\n\r\n"))
                    writer.write(reply(b"secure"))
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / f"{certificate}.pem")
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # server-side handshakes
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "ca.pem"))
        connection = Connection(f"https://{host}:{port}", Key())
        if works:
            for _ in range(2):
                assert (await connection.once(GET)).content == b"secure"
        else:
            with pytest.raises(ConnectError, match="TLS") as caught:
                await connection.once(GET)
            assert caught.value.sent is False
            assert not seen
        await connection.aclose()
        server.close()

    asyncio.run(main())


class Recorder:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def notice(self, event: Event) -> None:
        self.events.append(event)


class Broken:
    """Fails on everything."""

    def notice(self, event: Event) -> None:
        raise RuntimeError("observer bug")


def test_observers_see_attempts_and_never_hurt() -> None:
    """M26: start, finish and retry events without secrets; an observer's bug stays its own."""

    async def main() -> None:
        async def answer(_: Seen, writer: Writer) -> None:
            writer.write(reply(status=503) if len(server.seen) == 1 else reply())

        async with serving(answer) as server:
            recorder = Recorder()
            connection = Connection(
                server.url, Key(), observer=Observers([Broken(), recorder]), rng=random.Random(1)
            )
            await connection.exchange(POST)
            await connection.aclose()
            names = [type(event).__name__ for event in recorder.events]
            assert names == [
                "RequestStarted",
                "RequestFinished",
                "RetryScheduled",
                "RequestStarted",
                "RequestFinished",
            ]
            finished = [e for e in recorder.events if isinstance(e, RequestFinished)]
            assert [e.status for e in finished] == [503, 200]
            retry = next(e for e in recorder.events if isinstance(e, RetryScheduled))
            assert (retry.reason, retry.source) == ("503", "immediate")
            assert SECRET not in repr(recorder.events)

    asyncio.run(main())


def test_attempts_and_retries_are_logged_at_debug_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """M24: a debug log shows each attempt, its end and the pause before the next."""
    observer = LoggingObserver()
    with caplog.at_level(logging.DEBUG, "tinker_ext"):
        observer.notice(RequestFinished("forward", Lane.TRAIN, 1, 503, None, 0.5))
        observer.notice(RequestFinished("forward", Lane.TRAIN, 2, None, "ConnectError", 0.5))
        observer.notice(RetryScheduled("forward", Lane.TRAIN, 2, "ConnectError", 1.5, "backoff"))
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 3
    assert "attempt 1 ended with 503 after 0.500 s" in caplog.text
    assert "the next in 1.50 s (backoff)" in caplog.text


def test_deprecation_notes_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """M28: what the server says about old features reaches the log, once per text."""

    async def main() -> None:
        headers = {"X-Deprecation-Note": "v1 ends", "X-Deprecation-Level": "error"}
        connection = foreign(lambda _: httpx.Response(200, json={}, headers=headers))
        for _ in range(3):
            await connection.once(POST)

    with caplog.at_level(logging.WARNING, "tinker_ext"):
        run_virtual(main())
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("ERROR", "the server says: v1 ends")
    ]


def test_waiting_for_a_connection_ends_at_the_deadline() -> None:
    """M22: a call that never gets a connection fails at its deadline, and the lane works on."""

    async def main() -> None:
        async def handle(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(30)
            return httpx.Response(200)

        connection = Connection(
            "http://server",
            None,
            transport=httpx.MockTransport(handle),
            lanes={Lane.REST: LaneSettings(1, 1000)},
            config=Config(request_timeout=50.0),  # holds at the first contact, too
        )
        loop = asyncio.get_running_loop()
        first = asyncio.ensure_future(connection.exchange(POST))
        await asyncio.sleep(0)
        with pytest.raises(LaneBusyError) as caught:
            await connection.exchange(POST, deadline=10.0)
        assert loop.time() == pytest.approx(10.0)
        assert caught.value.sent is False
        assert (await first).status == 200
        assert (await connection.exchange(POST)).status == 200
        assert not connection.tokens.unhealthy(Lane.REST)

    run_virtual(main())


def test_full_pool_ends_at_the_deadline() -> None:
    """M22: the same over real sockets, and a running exchange stops at the deadline too."""

    async def main() -> None:
        async def silent(_: Seen, writer: Writer) -> None:
            await asyncio.sleep(20)

        async with serving(silent) as server:
            connection = Connection(server.url, None, lanes={Lane.REST: LaneSettings(1, 1000)})
            deadline = asyncio.get_running_loop().time() + 0.1
            both = await asyncio.gather(
                *(connection.exchange(POST, deadline=deadline) for _ in range(2)),
                return_exceptions=True,
            )
            assert [type(each) for each in both] == [ExchangeTimeoutError, LaneBusyError]
            await connection.aclose()

    asyncio.run(main())
