"""Our own transport over loopback sockets: good servers, stale connections, hostile replies."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
import warnings
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import zstandard
from sockets.loopback import Loopback, Seen, Writer, reply, serving
from virtual_clock import VirtualClockLoop, run_virtual

from tinker_ext import ServiceClient
from tinker_ext._transport.bridge import client_context
from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    MalformedReplyError,
    ReplyTooLargeError,
    RetryRule,
)
from tinker_ext._transport.origin import split_base_url
from tinker_ext._transport.pool import LaneSettings, Pool
from tinker_ext.errors import (
    APIConnectionError,
    APIResponseValidationError,
    ConfigurationError,
    TinkerError,
)

MB = 1024 * 1024


class Lines:
    """A pool and a way to send plain requests on it."""

    def __init__(self, url: str, connections: int, max_reply_bytes: int, **options: Any) -> None:
        settings = LaneSettings(connections, max_reply_bytes)
        self.pool = Pool(split_base_url(url)[0], settings, **options)
        self.queue, self.aclose = self.pool.queue, self.pool.aclose

    async def send_raw(
        self,
        method: str,
        target: str,
        headers: bytes,
        content: bytes | None = None,
        *,
        timeout: float = 60.0,
        deadline: float = 1e12,
        replay: bool | None = None,
        unsafe: bool = False,
        max_reply_bytes: int | None = None,
    ) -> RawReply:
        rule = RetryRule.UNSAFE if unsafe else RetryRule.READ if replay else RetryRule.DEDUPE
        call = Call(
            "x",
            method,
            target,
            content,
            timeout=timeout,
            retry=rule,
            max_reply_bytes=max_reply_bytes,
        )
        await self.queue.acquire(deadline=deadline)
        try:
            return await self.pool.send(call, target, headers.decode("latin-1"), deadline)
        finally:
            self.queue.release()


def pool(
    server: Loopback, connections: int = 64, max_reply_bytes: int = 512 * MB, **options: Any
) -> Lines:
    return Lines(server.url, connections, max_reply_bytes, **options)


def held_loop() -> VirtualClockLoop:
    """Return the running loop; its clock stands still until `release`, however busy the machine."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop)
    loop.hold()
    return loop


def run(
    main: Callable[[], Awaitable[None]],
    on_a_loop: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    """Run with warnings as errors: nothing may be left open or unawaited."""

    async def watched() -> None:
        failures: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(str(context))
        )
        await asyncio.wait_for(main(), 300)
        for _ in range(3):
            await asyncio.sleep(0)
        left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        assert not [t for t in left if "handle" not in repr(t)]
        assert not failures

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_a_loop(watched())
        gc.collect()


def test_keep_alive_and_bytes_on_the_wire() -> None:
    """M25: one connection serves call after call; target, headers and body arrive as given."""

    async def main() -> None:
        async with serving(reply(b'{"ok":true}', headers=("X-A: 1", "X-A: 2"))) as server:
            http = pool(server)
            for _ in range(5):
                status, headers, body = await http.send_raw(
                    "POST", "/base/x?y=1", b"X-Test: yes\r\n", b"hello"
                )
                assert (status, body) == (200, b'{"ok":true}')
                assert headers["x-a"] == "1, 2"
            await http.aclose()
            assert server.connections == 1
            first = server.seen[0]
            assert (first.method, first.target, first.body) == ("POST", "/base/x?y=1", b"hello")
            assert first.headers["host"] == f"127.0.0.1:{server.port}"
            assert first.headers["x-test"] == "yes"

    run(main)


@pytest.mark.parametrize(("status", "connections"), [(500, 3), (503, 3), (501, 1), (404, 1)])
def test_a_connection_is_not_used_again_after_a_5xx(status: int, connections: int) -> None:
    """M20 M22: servers close it unannounced, and a balancer may keep it at one that is down."""

    async def main() -> None:
        async with serving(reply(status=status)) as server:
            http = pool(server)
            for _ in range(3):
                assert (await http.send_raw("POST", "/x", b"", b"hello"))[0] == status
            await http.aclose()
            assert server.connections == connections

    run(main)


def test_never_more_requests_than_connections() -> None:
    """M25: 300 calls on 4 connections: 4 in flight, the rest waits in our own queue, all served."""

    async def main() -> None:
        async with serving(reply()) as server:
            http = pool(server, connections=4)
            got = await asyncio.gather(*(http.send_raw("GET", "/", b"") for _ in range(300)))
            assert len(got) == len(server.seen) == 300
            assert server.busiest <= 4
            await http.aclose()

    run(main)


def test_large_bodies_both_ways() -> None:
    """M25: megabytes up and down arrive whole."""

    async def main() -> None:
        big = bytes(range(256)) * 20_000

        async def echo(seen: Seen, writer: Writer) -> None:
            writer.write(reply(seen.body))

        async with serving(echo) as server:
            http = pool(server)
            for _ in range(2):
                assert (await http.send_raw("POST", "/", b"", big))[2] == big
            await http.aclose()

    run(main)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
)
UNTIL_EOF = b"HTTP/1.1 200 OK\r\n\r\nabcde"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize(
    "raw", [CHUNKED, INTERIM + reply(b"abcde"), reply(b"abcde", close=True), UNTIL_EOF]
)
def test_ways_to_frame_a_body(raw: bytes) -> None:
    """M25: chunked, interim replies, close after reply, and until the end of the connection."""

    async def main() -> None:
        async def answer(_: Seen, writer: Writer) -> None:
            for position in range(0, len(raw), 7):  # in small pieces
                writer.write(raw[position : position + 7])
                await asyncio.sleep(0)
            if raw is UNTIL_EOF or b"close" in raw:
                writer.close()

        async with serving(answer) as server:
            http = pool(server)
            for _ in range(2):
                status, headers, body = await http.send_raw("GET", "/", b"")
                assert (status, body) == (200, b"abcde")
                assert "link" not in headers
            await http.aclose()

    run(main)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda d: gzip.compress(d[:1000]) + gzip.compress(d[1000:])),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("zstd", zstandard.compress),
        ("identity", bytes),
    ],
)
def test_compressed_replies(coding: str, pack: Callable[[bytes], bytes]) -> None:
    """M25: every coding we offer is unpacked."""

    async def main() -> None:
        plain = b'{"logprobs":[-0.25,-1.5]}' * 4000
        packed = pack(plain)
        async with serving(reply(packed, headers=(f"Content-Encoding: {coding}",))) as server:
            http = pool(server)
            assert (await http.send_raw("GET", "/", b""))[2] == plain
            await http.aclose()

    run(main)


def gzip_bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(8 * MB)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing depends on what came before, so the same bytes repeat the block.
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (megabytes // 8 - 1)


def zstd_bomb(megabytes: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    block = bytes(MB)
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


@pytest.mark.parametrize(("coding", "bomb"), [("gzip", gzip_bomb), ("zstd", zstd_bomb)])
def test_decompression_bomb(coding: str, bomb: Callable[[int], bytes]) -> None:
    """M28: half a gigabyte packed into half a megabyte fails within 64 MB."""

    async def main() -> None:
        packed = bomb(512)
        assert len(packed) < MB
        async with serving(reply(packed, headers=(f"Content-Encoding: {coding}",))) as server:
            http = pool(server)
            tracemalloc.start()
            with pytest.raises(ReplyTooLargeError) as caught:
                await http.send_raw("GET", "/", b"")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 64 * MB
            assert isinstance(caught.value, APIResponseValidationError)
            await http.aclose()

    run(main)


def test_size_limit() -> None:
    """M28: an announced, a chunked and an endless body all stop at the limit."""

    async def main() -> None:
        async def answer(seen: Seen, writer: Writer) -> None:
            if seen.target == "/announced":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
                return
            chunked = seen.target == "/chunked"
            head = "Transfer-Encoding: chunked\r\n" if chunked else ""
            writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
            for _ in range(1000):
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n" if chunked else b"x" * 1024)
                await writer.drain()

        async with serving(answer) as server:
            http = pool(server, max_reply_bytes=100_000)
            for target in ("/announced", "/chunked", "/endless"):
                with pytest.raises(ReplyTooLargeError, match="100000"):
                    await http.send_raw("GET", target, b"")
            await http.aclose()

    run(main)


GZIPPED = gzip.compress(b"hello" * 100)
NASTY = {
    "garbage": b"\x00\xff\x13 not http at all\r\n\r\n",
    "text": b"hello\n",
    "other protocol": b"SSH-2.0-OpenSSH_9\r\n",
    "status word": b"HTTP/1.1 abc OK\r\n\r\n",
    "status 99": b"HTTP/1.1 99 OK\r\nContent-Length: 0\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunked": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "huge length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 60 + b"\r\n\r\n",
    "bad chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
    "cut in head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "cut in body": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nonly this",
    "cut in chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "body too long": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef",
    "two replies": reply(b"{}") * 2,
    "upgrade": b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
    "header without colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "nul in header": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 600_000,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 120_000,
    "gzip cut": reply(GZIPPED[:-9], headers=("Content-Encoding: gzip",)),
    "gzip corrupt": reply(b"\x1f\x8b" + b"\x08" * 40, headers=("Content-Encoding: gzip",)),
    "not gzip": reply(b"plain text here", headers=("Content-Encoding: gzip",)),
    "not zstd": reply(b"plain text here", headers=("Content-Encoding: zstd",)),
    "unknown coding": reply(b"abc", headers=("Content-Encoding: br",)),
    "stacked coding": reply(GZIPPED, headers=("Content-Encoding: gzip, gzip",)),
    "deflate tail": reply(zlib.compress(b"abc") + b"tail", headers=("Content-Encoding: deflate",)),
}


@pytest.mark.parametrize("kind", NASTY)
def test_nasty_replies(kind: str) -> None:
    """M28: whatever comes back, one of our own errors says so, and the pool still works."""

    async def main() -> None:
        async def answer(seen: Seen, writer: Writer) -> None:
            writer.write(reply(b"fine") if seen.target == "/good" else NASTY[kind])
            if kind.startswith("cut"):
                writer.close()

        async with serving(answer) as server:
            http = pool(server)
            with pytest.raises(TinkerError) as caught:
                await http.send_raw("GET", "/bad", b"", timeout=300)
            assert isinstance(caught.value, APIConnectionError | APIResponseValidationError)
            assert not isinstance(caught.value, ExchangeTimeoutError)
            if isinstance(caught.value, MalformedReplyError):
                assert caught.value.sent is True
            assert (await http.send_raw("GET", "/good", b""))[2] == b"fine"
            await http.aclose()

    run(main)


def test_slow_loris() -> None:
    """M28: a byte now and then does not extend the time of an exchange."""

    async def main() -> None:
        loop = held_loop()

        async def drip(_: Seen, writer: Writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            (channel,) = http.pool._busy
            while not channel._received:  # noqa: ASYNC110  # nothing tells when bytes have arrived
                await asyncio.sleep(0)
            loop.release()
            for _ in range(2000):
                writer.write(b"x")
                await asyncio.sleep(0.5)

        async with serving(drip) as server:
            http = pool(server)
            with pytest.raises(ExchangeTimeoutError, match="30 s") as caught:
                await http.send_raw("GET", "/", b"", timeout=30)
            assert caught.value.sent is True
            assert loop.time() == 30
            await http.aclose()

    run(main, run_virtual)


def test_silent_server_times_out() -> None:
    """M22: no answer at all is a timeout whose request may have arrived."""

    async def main() -> None:
        loop = held_loop()

        async def silent(_: Seen, writer: Writer) -> None:
            loop.release()
            await asyncio.sleep(200)

        async with serving(silent) as server:
            http = pool(server)
            with pytest.raises(ExchangeTimeoutError) as caught:
                await http.send_raw("POST", "/", b"", b"x", timeout=60)
            assert caught.value.sent is None
            assert loop.time() == 60
            await http.aclose()

    run(main, run_virtual)


def test_server_that_never_reads() -> None:
    """M22: a request that cannot be written in time is a timeout."""

    async def main() -> None:
        loop = held_loop()

        async def ignore(_: asyncio.StreamReader, writer: Writer) -> None:
            writer.transport.pause_reading()
            loop.release()
            try:
                await asyncio.Event().wait()
            finally:
                writer.transport.abort()

        listener = await asyncio.start_server(ignore, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        http = Lines(f"http://127.0.0.1:{port}", 4, MB)
        with pytest.raises(ExchangeTimeoutError) as caught:
            await http.send_raw("POST", "/", b"", bytes(32 * MB), timeout=60)
        assert caught.value.sent is None
        await http.aclose()
        listener.close()

    run_virtual(main())


def test_refused_connection() -> None:
    """M20: nothing listens, so surely nothing was sent."""

    async def main() -> None:
        async with serving(b"") as server:
            port = server.port
        http = Lines(f"http://127.0.0.1:{port}", 4, MB)
        with pytest.raises(ConnectError) as caught:
            await http.send_raw("POST", "/", b"", b"x")
        assert caught.value.sent is False
        await http.aclose()

    run(main)


@pytest.mark.parametrize("replay", [True, False])
def test_stale_connection(replay: bool) -> None:
    """M20: on a kept connection that died, a read goes out again, a training step does not."""

    async def main() -> None:
        async def answer(seen: Seen, writer: Writer) -> None:
            if seen.connection == 1 and seen.target == "/second":
                writer.transport.abort()
                return
            writer.write(reply(b"fine"))

        async with serving(answer) as server:
            http = pool(server)
            await http.send_raw("POST", "/first", b"", b"x")
            if replay:
                assert (await http.send_raw("POST", "/second", b"", b"x", replay=True))[0] == 200
            else:
                with pytest.raises(ConnectionLostError) as caught:
                    await http.send_raw("POST", "/second", b"", b"x")
                assert caught.value.sent is None
            targets = [seen.target for seen in server.seen]
            assert targets.count("/second") == (2 if replay else 1)
            await http.aclose()

    run(main)


def test_a_server_that_always_closes_is_not_asked_twice_each_time() -> None:
    """M24: a repeat without a pause is for a rare moment, not for a server that is not well."""

    async def main() -> None:
        used: set[int] = set()

        async def answer(seen: Seen, writer: Writer) -> None:
            if seen.connection in used:
                writer.transport.abort()
                return
            used.add(seen.connection)
            writer.write(reply(b"fine"))

        async with serving(answer) as server:
            http = pool(server)
            lost = 0
            for _ in range(40):
                try:
                    await http.send_raw("POST", "/", b"", b"x", replay=True)
                except ConnectionLostError:
                    lost += 1
            assert lost > 10
            await http.aclose()

    run(main)


def test_connection_closed_while_idle_is_not_used() -> None:
    """M20: the server's close of an idle connection is noticed before anything is written."""

    async def main() -> None:
        async with serving(reply()) as server:
            http = pool(server)
            await http.send_raw("POST", "/", b"", b"x")
            for writer in list(server.writers):
                writer.close()
            await asyncio.sleep(0.05)
            await http.send_raw("POST", "/", b"", b"x")
            assert server.connections == 2
            await http.aclose()

    run(main)


def test_idle_limit_of_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """M20: a request that must not be repeated takes only a connection used just now."""
    monkeypatch.setattr("tinker_ext._transport.pool._UNSAFE_MAX_IDLE", 0.01)

    async def main() -> None:
        async with serving(reply()) as server:
            http = pool(server, connections=1)
            await http.send_raw("GET", "/", b"")
            await asyncio.sleep(0.03)
            await http.send_raw("POST", "/", b"", b"x", unsafe=True)
            assert [seen.connection for seen in server.seen] == [1, 2]
            await asyncio.sleep(0.01)
            assert server.open == 1
            await http.aclose()

    run(main)


@pytest.mark.parametrize("unasked", [reply(b"wrong"), b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n"])
def test_unasked_bytes_poison_the_connection(unasked: bytes) -> None:
    """M28: bytes that arrive between two requests never answer the next one."""

    async def main() -> None:
        async with serving(reply(b"right")) as server:
            http = pool(server)
            await http.send_raw("GET", "/", b"")
            for writer in list(server.writers):
                writer.write(unasked)
            await asyncio.sleep(0.05)
            assert (await http.send_raw("GET", "/", b""))[2] == b"right"
            assert server.connections == 2
            await http.aclose()

    run(main)


def test_cancelled_exchange_frees_its_slot() -> None:
    """M19: a cancelled call closes its connection, and its late answer goes to nobody."""

    async def main() -> None:
        async def answer(seen: Seen, writer: Writer) -> None:
            await asyncio.sleep(0.05 if seen.target == "/slow" else 0)
            writer.write(reply(seen.target.encode()))

        async with serving(answer) as server:
            http = pool(server, connections=1)
            slow = asyncio.ensure_future(http.send_raw("GET", "/slow", b""))
            waiting = asyncio.ensure_future(http.send_raw("GET", "/waiting", b""))
            await asyncio.sleep(0.02)
            waiting.cancel()
            slow.cancel()
            await asyncio.gather(slow, waiting, return_exceptions=True)
            for _ in range(3):
                assert (await http.send_raw("GET", "/next", b""))[2] == b"/next"
            assert http.queue.held == 0
            await http.aclose()

    run(main)


def test_idle_connections_are_swept() -> None:
    """M21: connections nobody uses do not stay open."""

    async def main() -> None:
        async with serving(reply()) as server:
            http = pool(server, idle_seconds=0.05)
            await asyncio.gather(*(http.send_raw("GET", "/", b"") for _ in range(5)))
            while server.open:  # noqa: ASYNC110  # nothing tells when a peer has hung up
                await asyncio.sleep(0.01)
            await http.aclose()

    run(main)


@pytest.mark.parametrize("kept", [False, True])
def test_close_ends_what_is_under_way(kept: bool) -> None:
    """M21: closing the pool fails running exchanges, sends nothing anew and leaves no socket."""

    async def main() -> None:
        arrived, there = list[str](), asyncio.Event()

        async def silent(seen: Seen, writer: Writer) -> None:
            arrived.append(seen.target)
            if seen.target == "/kept":
                writer.write(reply(b"ok"))
            else:
                there.set()
                await asyncio.sleep(20)

        async with serving(silent) as server:
            http = pool(server)
            if kept:
                await http.send_raw("GET", "/kept", b"")
            call = asyncio.ensure_future(http.send_raw("GET", "/", b""))
            await there.wait()
            await http.aclose()
            with pytest.raises(APIConnectionError):
                await call
            assert arrived.count("/") == 1
            with pytest.raises(TinkerError, match="closed"):
                await http.send_raw("GET", "/", b"")

    run(main)


HEAD_OF_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("kind", ["many", "one line", "extension"])
def test_trailers_and_chunk_extensions_are_bounded(kind: str) -> None:
    """F31: what comes beside head and body may not go on for ever."""
    endless = {
        "many": b"2\r\nok\r\n0\r\n" + b"X-Trailer: y\r\n" * 100_000,
        "one line": b"2\r\nok\r\n0\r\nX-Trailer: " + b"y" * 2_000_000,
        "extension": b"2;x=" + b"y" * 2_000_000,
    }[kind]

    async def answer(_: Seen, writer: Writer) -> None:
        writer.write(HEAD_OF_CHUNKS + endless)
        await writer.drain()
        await asyncio.sleep(20)

    async def main() -> None:
        async with serving(answer) as server:
            http = pool(server)
            with pytest.raises((ReplyTooLargeError, MalformedReplyError)):
                await http.send_raw("GET", "/", b"")
            await http.aclose()

    run(main)


def test_many_small_chunks_and_honest_trailers_pass() -> None:
    """F31: 20,000 chunks of one byte and a few trailers are a reply like any other."""
    body = b"x" * 20_000
    text = HEAD_OF_CHUNKS + b"1\r\nx\r\n" * 20_000 + b"0\r\nX-Sum: 7\r\nContent-Type: evil\r\n\r\n"

    async def main() -> None:
        async with serving(text) as server:
            http = pool(server)
            status, headers, content = await http.send_raw("GET", "/", b"")
            assert (status, content) == (200, body)
            assert "content-type" not in headers
            assert "x-sum" not in headers
            await http.aclose()

    run(main)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_not_there_are_named(name, monkeypatch, tmp_path) -> None:
    """F31: FileNotFoundError without a name, from the depths of a call."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv(name, str(tmp_path / "gone.pem"))

    async def main() -> None:
        http = Lines("https://127.0.0.1:9", 1, MB)
        with pytest.raises(TinkerError) as caught:
            await http.send_raw("GET", "/", b"")
        if name == "SSL_CERT_FILE":
            assert isinstance(caught.value, ConfigurationError)
            assert name in str(caught.value)
            assert "gone.pem" in str(caught.value)
        await http.aclose()

    run(main)


def test_a_file_that_holds_no_certificates_is_named(monkeypatch, tmp_path) -> None:
    """F31: the same for a file that is something else."""
    (tmp_path / "not.pem").write_text("hello")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "not.pem"))
    with pytest.raises(ConfigurationError, match=r"SSL_CERT_FILE.*not\.pem"):
        client_context()


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://127.0.0.1:1080", "SOCKS proxy, which needs the package socksio"),
        ("socks4://user:secret@127.0.0.1", "unknown kind 'socks4'"),
        ("ftp://127.0.0.1", "unknown kind 'ftp'"),
        (f"{'p' * 30}://127.0.0.1", f"unknown kind '{'p' * 20}'"),
        ("http://", "not the URL of a proxy"),
        ("http://127.0.0.1:port", "not the URL of a proxy"),
    ],
)
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_without_a_way_through_is_named(proxy, words, variable, monkeypatch) -> None:
    """F31: said when the client is made, with the variable and without the password."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv(variable, proxy)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=words) as caught:
        ServiceClient(base_url="https://example.org", api_key="tml-x")
    assert variable in str(caught.value)
    assert "secret" not in str(caught.value)
    assert ServiceClient(base_url="embedded")


@pytest.mark.parametrize("length", ["Content-Length: 5", "Content-Length: 99999", "X-Y: z"])
def test_a_reply_to_head_ends_with_its_headers(length: str) -> None:
    """M25: whatever length it announces nothing follows; its connection is not used again."""

    async def main() -> None:
        async with serving(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode()) as server:
            http = pool(server, max_reply_bytes=1000)
            for _ in range(2):
                status, headers, body = await http.send_raw("HEAD", "/", b"")
                assert (status, body) == (200, b"")
                assert headers[length.partition(":")[0].lower()]
            assert server.connections == 2
            await http.aclose()

    run(main)
