"""A connection fed with mutated replies, without sockets: our own errors or the whole truth."""

from __future__ import annotations

import asyncio
import gzip
import random
from typing import Any, cast

import pytest
import zstandard
from unit._transport.loopback import reply

from tinker_ext._transport.channel import Channel, RawReply
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


async def feed(rng: random.Random, data: bytes) -> RawReply | BaseException:
    channel = Channel(asyncio.get_running_loop())
    socket = FakeSocket(channel)
    channel.connection_made(cast("Any", socket))
    waiter = channel.start(b"GET / HTTP/1.1\r\n\r\n", None, 10_000)
    position = 0
    while position < len(data) and not socket.closed:
        step = rng.choice([1, 5, 50, 100_000])
        channel.data_received(data[position : position + step])
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


@pytest.mark.parametrize("data", GOOD)
def test_unchanged_replies(data: bytes) -> None:
    """M28: however the bytes are cut, a good reply is read whole."""

    async def main() -> None:
        for seed in range(20):
            result = await feed(random.Random(seed), data)
            assert not isinstance(result, BaseException), result
            assert (result[0], result[2]) == (200, BODY)

    asyncio.run(main())
