"""A TCP proxy between client and server that resets, cuts, stalls and garbles, by one seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from types import TracebackType
from typing import Self

# What happens to one exchange on a connection.
FAULTS = {
    "latency": "both ways take some milliseconds more",
    "reset_before": "the connection is reset before the server sees the request",
    "reset_after": "the server answers, the client gets a reset",
    "truncate": "half of the first bytes of the answer arrive, then the connection ends",
    "slow_close": "the answer arrives, and the connection ends a little later",
    "half_open": "the request vanishes and nobody says so, until the connection ends",
    "garbage": "the answer is noise",
}


class TcpProxy:
    """Carries bytes between a client and one server.

    Args:
        port: Port of the server on this machine.
        seed: Decides which exchanges fail, and how.
        rate: Part of the exchanges that fails.
        most: Failures after which the line is good.
    """

    def __init__(self, port: int, seed: int, *, rate: float = 0.25, most: int = 12) -> None:
        self._upstream = port
        self._rng = random.Random(f"proxy {seed}")
        self._rate = rate
        self._left = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)
        self._ready = threading.Event()
        self._tasks: dict[asyncio.Task[None], bytes] = {}
        self.port = 0
        self.struck: list[str] = []

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    def asking(self, operation: str) -> int:
        """How many connections there are now whose last request was for this operation."""
        name = operation.encode()
        return sum(name in asked.split(b"\r\n", 1)[0] for asked in list(self._tasks.values()))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(300)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(300)

    def _run(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        loop.run_forever()
        server.close()
        for task in self._tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = b""
        task.add_done_callback(self._tasks.pop)
        upstream: asyncio.StreamWriter | None = None
        try:
            source, upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
            await self._serve(task, reader, writer, source, upstream)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for line in (writer, upstream):
                if line is not None:
                    with contextlib.suppress(OSError):
                        line.close()

    async def _serve(
        self,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        source: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        """Carry exchange after exchange; HTTP/1.1 clients wait for each answer."""
        sent = await reader.read(1 << 20)
        while sent:
            self._tasks[task] = sent
            fault = self._draw()
            if fault == "reset_before":
                return _reset(writer)
            if fault == "half_open":
                await asyncio.sleep(self._rng.uniform(0.05, 0.4))
                return None
            if fault == "garbage":
                writer.write(self._rng.randbytes(200))
                await writer.drain()
                return None
            if fault == "latency":
                await asyncio.sleep(self._rng.uniform(0.001, 0.03))
            upstream.write(sent)
            await upstream.drain()
            sent = await self._answer(fault, reader, writer, source, upstream)
        return None

    async def _answer(
        self,
        fault: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        source: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> bytes:
        """Carry the answer, and more of a long request; returns the start of the next request."""
        answer = asyncio.ensure_future(source.read(1 << 20))
        more = asyncio.ensure_future(reader.read(1 << 20))
        began = False
        try:
            while True:
                await asyncio.wait((answer, more), return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    sent = more.result()
                    if began or not sent:
                        return sent
                    upstream.write(sent)
                    await upstream.drain()
                    more = asyncio.ensure_future(reader.read(1 << 20))
                    continue
                got = answer.result()
                if fault == "reset_after":
                    _reset(writer)
                    return b""
                if fault == "truncate":
                    got = got[: len(got) // 2]
                writer.write(got)
                await writer.drain()
                if fault == "slow_close":
                    await asyncio.sleep(self._rng.uniform(0.0, 0.02))
                if fault in ("truncate", "slow_close") or not got:
                    return b""
                began = True
                answer = asyncio.ensure_future(source.read(1 << 20))
        finally:
            answer.cancel()
            more.cancel()

    def _draw(self) -> str | None:
        if self._left <= 0 or self._rng.random() >= self._rate:
            return None
        self._left -= 1
        fault = self._rng.choice(sorted(FAULTS))
        self.struck.append(fault)
        return fault


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST instead of FIN."""
    line = writer.get_extra_info("socket")
    if line is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
