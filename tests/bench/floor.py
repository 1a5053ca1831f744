"""The least that a client of samples can be: what the others are measured against.

It sends the same two requests for each sample over kept connections, parses HTTP with the same
parser and decodes the same result into arrays, and has nothing else: no retry, no deadline, no
limit but its connections, no order, no cancelling, no error texts. Its names are those that
`contender.py` uses of an SDK.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httptools
import numpy as np
import orjson
from tinker_proto.tinker_pb2 import SampleResponse

CONNECTIONS = 64


class Channel(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.waiter: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Keep what arrives."""
        self.parts.append(data)

    def on_message_complete(self) -> None:
        """Hand the body over."""
        assert self.waiter is not None
        self.waiter.set_result(b"".join(self.parts))

    def send(self, loop: asyncio.AbstractEventLoop, request: bytes) -> asyncio.Future[bytes]:
        """Write a request; gives the body of its answer."""
        self.parts = []
        self.parser = httptools.HttpResponseParser(self)
        self.waiter = loop.create_future()
        self.transport.write(request)
        return self.waiter


class Sampler:
    """Samples from one base URL.

    Args:
        url: The server.
    """

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._host, self._port = split.hostname, split.port
        self._path = split.path.encode() + b"/api/v1/"
        self._head = b" HTTP/1.1\r\nHost: %b\r\n" % split.netloc.encode()
        self._head += b"X-API-Key: tml-bench\r\nContent-Type: application/json\r\n"
        self._loop = asyncio.new_event_loop()
        self._idle: deque[Channel] = deque()
        self._queue: deque[tuple[Future[Any], list[int], dict[str, Any]]] = deque()
        self._lock = threading.Lock()
        self._woken = False
        self._opened = 0
        self._seq = 0
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def sample(self, prompt: list[int], num_samples: int, params: dict[str, Any]) -> Future[Any]:
        """Queue a sample."""
        result: Future[Any] = Future()
        with self._lock:
            self._queue.append((result, prompt, params))
            wake, self._woken = not self._woken, True
        if wake:
            self._loop.call_soon_threadsafe(self._pump)
        return result

    def _pump(self) -> None:
        self._woken = False
        while self._queue and (self._idle or self._opened < CONNECTIONS):
            channel = self._idle.popleft() if self._idle else None
            self._opened += channel is None
            self._loop.create_task(self._run(channel, *self._queue.popleft()))

    async def _run(
        self,
        channel: Channel | None,
        result: Future[Any],
        prompt: list[int],
        params: dict[str, Any],
    ) -> None:
        if channel is None:
            _, channel = await self._loop.create_connection(Channel, self._host, self._port)
        self._seq += 1
        body = {
            "sampling_session_id": "bench:sample:1",
            "seq_id": self._seq,
            "num_samples": 1,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": prompt}]},
            "sampling_params": params,
            "type": "sample",
        }
        promise = await self._post(channel, b"asample", orjson.dumps(body))
        found = {"request_id": orjson.loads(promise)["request_id"], "allow_metadata_only": False}
        answer = await self._post(
            channel, b"retrieve_future", orjson.dumps(found), b"Accept: application/x-protobuf\r\n"
        )
        self._idle.append(channel)
        if self._queue and not self._woken:
            self._pump()
        read = SampleResponse.FromString(answer)
        result.set_result(
            [
                (
                    one.stop_reason,
                    np.frombuffer(one.tokens, np.int32),
                    np.frombuffer(one.logprobs, np.float32),
                )
                for one in read.sequences
            ]
        )

    def _post(
        self, channel: Channel, name: bytes, body: bytes, extra: bytes = b""
    ) -> asyncio.Future[bytes]:
        head = b"POST " + self._path + name + self._head + extra
        request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        return channel.send(self._loop, request)


types = SimpleNamespace(
    ModelInput=SimpleNamespace(from_ints=list), SamplingParams=lambda **fields: fields
)


def ServiceClient(base_url: str) -> Any:
    """What `contender.py` asks for a sampling client."""
    return SimpleNamespace(create_sampling_client=lambda base_model: Sampler(base_url))
