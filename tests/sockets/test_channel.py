"""A connection fed with mutated replies, without sockets: our own errors or the whole truth."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Iterator
from typing import Any, cast

import pytest
import zstandard
from sockets.loopback import Loopback, reply, serving

from tinker_ext._transport import channel as channels
from tinker_ext._transport.channel import Channel, RawReply
from tinker_ext._transport.messages import MalformedReplyError, ReplyTooLargeError
from tinker_ext._wire.payload import Body
from tinker_ext.errors import APIConnectionError, APIResponseValidationError

BODY = b'{"request_id":"abc","logprobs":[-0.5,-1.25]}' * 3
GOOD = [
    reply(BODY),
    b"HTTP/1.1 100 Continue\r\n\r\n" + reply(BODY, headers=("X-Request-Id: 7",)),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (len(BODY), BODY),
    reply(gzip.compress(BODY), headers=("Content-Encoding: gzip",)),
    reply(zstandard.compress(BODY), headers=("Content-Encoding: zstd",)),
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY,
]
WORDS = [b"\r\n", b"\x00", b"0\r\n\r\n", b"Content-Length: 7\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]


class FakeSocket:
    """Swallows what is written; closing reaches the channel as on a real loop."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.closed = False

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close


def mutate(rng: random.Random, data: bytes) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(6)
        if kind == 0 and raw:
            raw[min(at, len(raw) - 1)] = rng.randrange(256)
        elif kind == 1:
            del raw[at : at + rng.randint(1, 30)]
        elif kind == 2:
            raw[at:at] = rng.choice(WORDS)
        elif kind == 3:
            raw[at:at] = rng.randbytes(rng.randint(1, 20))
        elif kind == 4:
            raw = raw[:at]
        else:
            raw += raw[at:]
    return bytes(raw)


async def feed(
    rng: random.Random,
    data: bytes,
    most: int = 10_000,
    steps: tuple[int, ...] = (1, 5, 50, 100_000),
) -> RawReply | BaseException:
    channel = Channel(asyncio.get_running_loop())
    socket = FakeSocket(channel)
    channel.connection_made(cast("Any", socket))
    waiter = channel.start(b"GET / HTTP/1.1\r\n\r\n", None, most)
    position = 0
    while position < len(data) and not socket.closed:
        step = rng.choice(steps)
        piece = data[position : position + step]
        channel.get_buffer(-1)[: len(piece)] = piece
        channel.buffer_updated(len(piece))
        position += step
    channel.connection_lost(None)
    assert waiter.done()
    return waiter.exception() or waiter.result()


@pytest.mark.parametrize("seed", range(10))
def test_mutated_replies(seed: int) -> None:
    """M28: a changed reply is an error of ours, or a well-formed reply of its own; never a hang."""

    async def main() -> None:
        rng = random.Random(seed)
        kinds = {"error": 0, "reply": 0}
        for _ in range(300):
            result = await feed(rng, mutate(rng, rng.choice(GOOD)))
            if isinstance(result, BaseException):
                assert isinstance(result, APIConnectionError | APIResponseValidationError)
                kinds["error"] += 1
            else:
                status, headers, body = result
                assert 200 <= status <= 999
                assert isinstance(headers, dict)
                if "content-encoding" not in headers and "content-length" in headers:
                    assert len(body) == int(headers["content-length"])
                kinds["reply"] += 1
        assert min(kinds.values()) > 20

    asyncio.run(main())


def test_few_heads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """M48: a server that says something new each time costs no memory."""
    heads: dict[bytes, Any] = {}
    monkeypatch.setattr(channels, "_heads", heads)
    kept = []
    for number in range(300):
        data = reply(BODY, headers=(f"X-Request-Id: {number}",))
        result = asyncio.run(feed(random.Random(0), data, steps=(100_000,)))
        assert isinstance(result, tuple)
        assert result[1]["x-request-id"] == str(number)
        kept.append(len(heads))
    assert kept == [number % 128 + 1 for number in range(300)]


@pytest.mark.parametrize(("extension", "fine"), [(26, True), (40, False)])
def test_chunks_may_have_short_extensions(extension: int, fine: bool) -> None:
    """F31: 32 bytes a chunk beside the body; who sends more could send them for ever."""
    chunk = b"1;%b\r\nx\r\n" % (b"e" * (extension - 2))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + chunk * 12_000 + b"0\r\n\r\n"
    result = asyncio.run(feed(random.Random(0), data, 20_000, steps=(1000,)))
    if fine:
        assert result == (200, {"transfer-encoding": "chunked"}, b"x" * 12_000)
    else:
        assert isinstance(result, ReplyTooLargeError)


@pytest.mark.parametrize("seed", range(4))
def test_a_head_that_was_read_before_means_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply is read alike whether or not replies with the same head came before it."""
    heads: dict[bytes, Any] = {}
    monkeypatch.setattr(channels, "_heads", heads)

    async def main() -> None:
        rng = random.Random(seed)
        known = 0
        for _ in range(300):
            first = rng.choice(GOOD)
            # As it is, with other bytes in the body, shorter, longer, or damaged.
            data = rng.choice([first, first.replace(b"abc", b"xyz"), first[:-1], first + b"!"])
            data = mutate(rng, data) if rng.random() < 0.5 else data
            steps, most = rng.choice([(1, 50), (100_000,)]), rng.choice([10_000, len(BODY) - 1])
            heads.clear()
            alone = await feed(random.Random(seed), data, most, steps)
            await feed(rng, first, steps=(100_000,))
            known += len(heads)
            again = await feed(random.Random(seed), data, most, steps)
            assert repr(again) == repr(alone)
        assert known > 40

    asyncio.run(main())


async def answered(*pieces: bytes) -> tuple[RawReply | BaseException, bool]:
    """What a fresh connection reads, and whether it is kept."""
    channel = Channel(asyncio.get_running_loop())
    channel.connection_made(cast("Any", FakeSocket(channel)))
    waiter = channel.start(b"", None, 10_000)
    for piece in pieces:
        channel.get_buffer(-1)[: len(piece)] = piece
        channel.buffer_updated(len(piece))
    await asyncio.sleep(0)
    alive = channel.alive
    channel.connection_lost(None)
    return waiter.exception() or waiter.result(), alive


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (reply(b"ok"), True),
        (reply(b"no", 404), True),
        (reply(b"no", 429, headers=("Retry-After: 3",)), True),
        (reply(b"no", 500), False),
        (reply(b"ok", close=True), False),
        (reply(b"ok").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (b"HTTP/1.1 204 X\r\n\r\n", True),
        (GOOD[2], True),
        (GOOD[3], True),
    ],
)
def test_a_connection_is_kept_alike_whatever_came_before(data: bytes, kept: bool) -> None:
    """M25: a server that will not use it again says so each time with the same head."""

    async def main() -> None:
        first, second = await answered(data), await answered(data)
        assert first == second
        assert first[1] is kept

    asyncio.run(main())


def test_a_body_that_looks_like_a_reply_is_a_body() -> None:
    """M28: also when that reply was read before, and the body arrives after its head."""
    inner = reply(b'{"request_id":"another"}')
    outer = reply(inner)
    head = outer.removesuffix(inner)

    async def main() -> None:
        await answered(inner)
        for pieces in ([outer], [head, inner], [head[:9], head[9:], inner]):
            result, alive = await answered(*pieces)
            assert isinstance(result, tuple)
            assert (result[2], alive) == (inner, True)

    asyncio.run(main())


def test_the_reply_to_head_ends_its_connection_whatever_came_before() -> None:
    """What a HEAD leaves behind is not kept for the next request, also where no body is due."""

    async def main() -> None:
        alive = []
        for head_only in (False, True):
            channel = Channel(asyncio.get_running_loop())
            channel.connection_made(cast("Any", FakeSocket(channel)))
            waiter = channel.start(b"", None, 10, head_only=head_only)
            data = reply(b"")
            channel.get_buffer(-1)[: len(data)] = data
            channel.buffer_updated(len(data))
            assert (await waiter)[2] == b""
            alive.append(channel.alive)
        assert alive == [True, False]

    asyncio.run(main())


def test_heads_that_are_remembered_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """M48: thousands of headers in each reply do not stay; they took 20 MB."""
    heads: dict[bytes, Any] = {}
    monkeypatch.setattr(channels, "_heads", heads)
    for letters in (1800, 2200):
        data = reply(BODY, headers=(f"X: {'x' * letters}",))
        result = asyncio.run(feed(random.Random(0), data, steps=(100_000,)))
        assert isinstance(result, tuple)
        assert result[2] == BODY
    assert [len(head) > 1800 for head in heads] == [True]


@pytest.mark.parametrize("end", [b"\r\n\n", b"\n\r\n", b"\n\n", b"\r\n\rx", b"\r\n \r\n\r\n"])
def test_a_head_that_ends_in_another_way_is_refused(end: bytes) -> None:
    """M28: what is remembered of heads relies on it; httptools before 0.6.3 took some of them."""
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 4" + end + b"abcd"
    result = asyncio.run(feed(random.Random(0), data, steps=(100_000,)))
    assert isinstance(result, MalformedReplyError)


@pytest.mark.parametrize("data", GOOD)
def test_unchanged_replies(data: bytes) -> None:
    """M28: however the bytes are cut, a good reply is read whole."""

    async def main() -> None:
        for seed in range(20):
            result = await feed(random.Random(seed), data)
            assert not isinstance(result, BaseException), result
            assert (result[0], result[2]) == (200, BODY)

    asyncio.run(main())


def test_only_headers_are_held_to_their_limit() -> None:
    """M28: a long body arrives whole, in whatever pieces; headers beyond 64 KB are refused."""

    async def main() -> None:
        body = bytes(range(256)) * 4 * 1024
        result = await feed(random.Random(3), reply(body), len(body))
        assert not isinstance(result, BaseException), result
        assert result[2] == body
        for size, taken in ((60_000, True), (70_000, False)):
            long = reply(b"{}", headers=(f"X: {'x' * size}",))
            result = await feed(random.Random(3), long, steps=(500,))
            assert isinstance(result, ReplyTooLargeError) is not taken

    asyncio.run(main())


PARTS = [bytes([n % 251]) * (n * 997 % 70_000) for n in range(120)]


async def _dial(server: Loopback) -> Channel:
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(lambda: Channel(loop), "127.0.0.1", server.port)
    return channel


def _head(body: Body) -> bytes:
    return b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)


def test_a_body_in_blocks_arrives_whole_and_the_connection_stays() -> None:
    """M25: blocks leave as the socket takes them; the bytes and the next request are right."""

    async def main() -> None:
        async with serving(reply(b"ok")) as server:
            channel = await _dial(server)
            body = Body(PARTS)
            for _ in range(3):
                status, _, content = await channel.start(_head(body), body, 1000)
                assert (status, content) == (200, b"ok")
                assert channel.alive
            channel.abort()
            await channel.wait_closed()
            assert server.connections == 1
            assert [seen.body for seen in server.seen] == [b"".join(PARTS)] * 3

    asyncio.run(asyncio.wait_for(main(), 300))


def test_little_of_a_body_waits_in_memory() -> None:
    """M25: a server that does not read is not sent more than the buffers of the connection."""

    async def main() -> None:
        taken = 0

        def blocks() -> Iterator[bytes]:
            nonlocal taken
            for _ in range(400):
                taken += 1
                yield bytes(256 * 1024)

        class Endless(Body):
            def __len__(self) -> int:
                return 400 * 256 * 1024

            def __iter__(self) -> Iterator[bytes]:
                return blocks()

        reading = asyncio.Event()
        gone = asyncio.Event()

        async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reading.set()
            await gone.wait()
            writer.transport.abort()

        server = await asyncio.start_server(deaf, "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        port = server.sockets[0].getsockname()[1]
        _, channel = await loop.create_connection(lambda: Channel(loop), "127.0.0.1", port)
        waiter = channel.start(b"POST / HTTP/1.1\r\n\r\n", Endless([]), 1000)
        await reading.wait()
        await asyncio.sleep(0.2)
        assert taken < 100
        assert channel._transport is not None
        assert channel._transport.get_write_buffer_size() < 1_000_000
        gone.set()
        with pytest.raises(APIConnectionError):
            await waiter
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(main(), 300))


def test_an_answer_before_the_body_is_read_ends_the_connection() -> None:
    """M25: the rest of a body is never taken for the next request."""

    async def main() -> None:
        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(b"too large", 413))
            await writer.drain()
            await asyncio.sleep(0.2)
            writer.transport.abort()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        port = server.sockets[0].getsockname()[1]
        _, channel = await loop.create_connection(lambda: Channel(loop), "127.0.0.1", port)
        body = Body([bytes(1_000_000)] * 60)
        status, _, content = await channel.start(_head(body), body, 1000)
        assert (status, content) == (413, b"too large")
        assert not channel.alive
        await channel.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(main(), 300))


def test_who_stops_waiting_for_the_end_leaves_it_to_the_others():
    """M25: one of two who wait for a socket to be gone gives up; the other is told when it is."""

    async def use():
        channel = Channel(asyncio.get_running_loop())
        channel.connection_made(cast("Any", FakeSocket(channel)))
        first, second = (asyncio.ensure_future(channel.wait_closed()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0.01)
        assert not second.done()
        channel.connection_lost(None)
        await asyncio.wait_for(second, 300)

    asyncio.run(use())


def test_a_connection_that_the_server_will_not_use_again_is_closed() -> None:
    """M25: `Connection: close` is heeded by us too, so no socket is left open on either side."""

    async def main() -> None:
        async with serving(reply(b"ok", headers=("Connection: close",))) as server:
            channel = await _dial(server)
            result = await channel.start(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, 1000)
            assert result[2] == b"ok"
            assert not channel.alive
            for _ in range(1000):
                if not server.open:
                    break
                await asyncio.sleep(0.01)
            assert server.open == 0

    asyncio.run(main())
