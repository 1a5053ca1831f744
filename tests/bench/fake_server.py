"""A server that costs almost nothing: canned answers in both wires, so that clients are measured.

It computes nothing. What it pretends comes from the first segment of the path, for example
`http://127.0.0.1:1234/length=128,rtt=30,gpu=50`: tokens in a result, milliseconds of a round trip,
milliseconds of one forward_backward on the only GPU; `sample=100` has a sample take milliseconds,
`hold=1` leaves every one pending, `era=0.4.1` speaks JSON only. Needs the standard library
only. Run as a program it prints its port.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import resource
import struct
from array import array
from collections.abc import Callable
from typing import Any

SAMPLED_TOKENS = 128
HELD_SECONDS = 30.0
SMALL_BODY = 100_000
"""A body below this is read as it is; of a larger one nothing more is copied."""
JSON = b"application/json"
PROTO = b"application/x-protobuf"
HEAD = b"HTTP/1.1 %d OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"

CONFIG = {
    "pjwt_auth_enabled": False,
    "parallel_fwdbwd_chunks": True,
    "fwdbwd_max_chunk_len": 1024,
    "fwdbwd_max_chunk_bytes_count": 5_000_000,
    "sample_max_concurrent_requests": 2000,
}


def reply(body: bytes, kind: bytes = JSON, status: int = 200) -> bytes:
    """A whole HTTP response."""
    return HEAD % (status, kind, len(body)) + body


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: bytes | int) -> bytes:
    """One protobuf field: text, bytes or a message, or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def logprobs(count: int) -> array[float]:
    """Numbers with as many digits as real ones."""
    return array("f", [-0.001 - (n * 4057 % 10**6) / 10**6 for n in range(count)])


@functools.cache
def sample_result(binary: bool) -> bytes:
    """One sampled sequence with its logprobs."""
    tokens = array("i", range(2000, 2000 + SAMPLED_TOKENS))
    values = logprobs(SAMPLED_TOKENS)
    if binary:
        sequence = field(1, 1) + field(2, tokens.tobytes()) + field(3, values.tobytes())
        return reply(field(1, sequence), PROTO)
    one = {"tokens": list(tokens), "logprobs": list(values), "stop_reason": "length"}
    return reply(json.dumps({"type": "sample", "sequences": [one]}).encode())


@functools.lru_cache(maxsize=16)
def forward_result(datums: int, length: int, binary: bool) -> bytes:
    """Logprobs of a batch and one metric."""
    values = logprobs(length)
    if binary:
        ends = array("q", range(0, 4 * length * (datums + 1), 4 * length))
        tensor = field(1, values.tobytes() * datums) + field(2, ends.tobytes()) + field(3, 1)
        column = field(1, b"logprobs") + field(2, tensor)
        record = field(1, b"t:ArrayRecord") + field(2, column) + field(3, datums)
        metric = field(1, b"loss:sum") + varint(2 << 3 | 1) + struct.pack("<d", 1.5)
        return reply(field(1, b"t:ArrayRecord") + field(2, record) + field(3, metric), PROTO)
    one = {"logprobs": {"data": list(values), "dtype": "float32", "shape": [length]}}
    body = {
        "loss_fn_output_type": "ArrayRecord",
        "loss_fn_outputs": [one] * datums,
        "metrics": {"loss:sum": 1.5},
    }
    return reply(json.dumps(body).encode())


def count_datums(body: bytes | memoryview, binary: bool) -> int:
    """How many datums a forward_backward body has, without reading them."""
    if not binary:
        return bytes(body).count(b'"model_input"')
    count = at = 0
    while at < len(body):
        tag = body[at]
        size, at = read_varint(body, at + 1)
        if tag & 7 == 2:
            at += size
        count += tag == 0x1A
    return count


def read_varint(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """A protobuf number and where it ends."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


class World:
    """What one base URL pretends.

    Args:
        text: The segment of the path, such as `length=128,rtt=30`.
    """

    def __init__(self, text: str) -> None:
        given = dict(part.split("=") for part in text.split(",") if "=" in part)
        self.length = int(given.get("length", 128))
        self.one_way = float(given.get("rtt", 0)) / 2000
        self.gpu = float(given.get("gpu", 0)) / 1000
        self.sample = float(given.get("sample", 0)) / 1000
        self.hold = given.get("hold") == "1"
        self.old = given.get("era") == "0.4.1"
        self.free_at = 0.0
        self.count = 0

    def answer(
        self, path: bytes, head: bytes, body: bytes | memoryview, now: float
    ) -> tuple[float, bytes]:
        """When the answer is ready, and the answer."""
        name = path.rsplit(b"/", 1)[-1]
        if name == b"retrieve_future":
            return self._result(json.loads(bytes(body))["request_id"], head, now)
        self.count += 1
        if name == b"asample":
            due = math.inf if self.hold else now + self.sample if self.sample else 0
            ticket = {"request_id": f"s|{due}", "sample_sequence_ids": [f"q{self.count}"]}
            return 0, reply(json.dumps(ticket).encode())
        if name in (b"forward_backward", b"forward"):
            self.free_at = max(now, self.free_at) + self.gpu
            datums = count_datums(
                body, PROTO in head.split(b"\r\naccept", 1)[0] or body[:1] != b"{"
            )
            return 0, reply(b'{"request_id":"f|%r|%d"}' % (self.free_at, datums))
        if name == b"optim_step":
            return 0, reply(b'{"request_id":"o|%r"}' % self.free_at)
        if name == b"config" and self.old:
            return 0, reply(b'{"detail":"Not Found"}', status=404)
        return 0, reply(json.dumps(SMALL.get(name, lambda _: {})(self.count)).encode())

    def _result(self, request_id: str, head: bytes, now: float) -> tuple[float, bytes]:
        kind, due, *rest = request_id.split("|")
        binary = b"accept: application/x-protobuf" in head
        if float(due) - now > HELD_SECONDS:
            pending = {"type": "try_again", "request_id": request_id, "queue_state": "active"}
            return now + HELD_SECONDS, reply(json.dumps(pending).encode(), status=408)
        if kind == "s":
            return float(due), sample_result(binary)
        if kind == "f":
            return float(due), forward_result(int(rest[0]), self.length, binary)
        if kind == "m":
            return 0, reply(b'{"model_id":"bench:train:0","type":"create_model"}')
        return float(due), reply(b'{"type":"optim_step","metrics":{}}')


SMALL: dict[bytes, Callable[[int], dict[str, Any]]] = {
    b"config": lambda n: CONFIG,
    b"create_session": lambda n: {"session_id": f"bench-{n}", "type": "create_session"},
    b"session_heartbeat": lambda n: {"type": "session_heartbeat"},
    b"create_model": lambda n: {"request_id": "m|0"},
    b"create_sampling_session": lambda n: {
        "sampling_session_id": f"bench:sample:{n}",
        "type": "create_sampling_session",
    },
    b"telemetry": lambda n: {"status": "accepted"},
    b"healthz": lambda n: {"status": "ok"},
    b"get_server_capabilities": lambda n: {"supported_models": [{"model_name": "bench/tiny"}]},
    b"weights_info": lambda n: {"base_model": "bench/tiny", "is_lora": True, "lora_rank": 8},
}

WORLDS: dict[bytes, World] = {}


class Server(asyncio.Protocol):
    """Finds where a request ends and answers it."""

    def connection_made(self, transport: Any) -> None:
        """Begin with nothing read."""
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.parts: list[bytes] = []
        self.have = 0
        self.wanted = 0

    def data_received(self, data: bytes) -> None:
        """Collect until a request is complete; big bodies are joined once."""
        self.parts.append(data)
        self.have += len(data)
        while self.have and self.have >= self.wanted:
            buffer = b"".join(self.parts) if len(self.parts) > 1 else self.parts[0]
            self.parts = [buffer]
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = buffer[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.wanted = end + 4 + size
            if self.have < self.wanted:
                return
            body: bytes | memoryview = memoryview(buffer)[end + 4 : self.wanted]
            if size < SMALL_BODY:
                body = bytes(body)
            self.receive(head[: head.find(b"\r\n")].split(b" ", 2)[1], head, body)
            rest = buffer[self.wanted :] if self.have > self.wanted else b""
            self.parts, self.have, self.wanted = ([rest] if rest else []), len(rest), 0

    def receive(self, path: bytes, head: bytes, body: bytes | memoryview) -> None:
        """Take a request in, half a round trip later."""
        name = path[1:].split(b"/", 1)[0]
        world = WORLDS.get(name)
        if world is None:
            world = WORLDS[name] = World(name.decode())
        if world.one_way:
            self.loop.call_later(world.one_way, self.answer, world, path, head, body)
        else:
            self.answer(world, path, head, body)

    def answer(self, world: World, path: bytes, head: bytes, body: bytes | memoryview) -> None:
        """Answer when it is due and half a round trip has passed."""
        now = self.loop.time()
        due, content = world.answer(path, head, body, now)
        wait = max(0.0, due - now) + world.one_way
        if wait:
            self.loop.call_later(wait, self.transport.write, content)
        else:
            self.transport.write(content)


async def serve() -> None:
    """Serve on a free port, and print it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=4096)
    os.write(1, b"%d\n" % server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
