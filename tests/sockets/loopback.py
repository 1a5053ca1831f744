"""A tiny server on loopback that answers with exactly the bytes a test wants, good or nasty."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.server import ThreadingHTTPServer
from typing import Any

import attrs


class ThreadedServer(ThreadingHTTPServer):
    """A server of handlers in threads, on a free port; it is silent about clients that hang up."""

    def __init__(self, handler: Any) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@attrs.define
class Seen:
    """One request as it arrived."""

    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Writer = asyncio.StreamWriter
Answer = Callable[[Seen, Writer], Awaitable[None]]


def reply(
    body: bytes = b"{}", status: int = 200, headers: tuple[str, ...] = (), *, close: bool = False
) -> bytes:
    """Return a well-formed reply."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


@attrs.define
class Loopback:
    """The running server: its port and everything it saw."""

    port: int = 0
    seen: list[Seen] = attrs.field(factory=list)
    connections: int = 0
    open: int = 0
    busiest: int = 0
    writers: set[Writer] = attrs.field(factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(answer: Answer | bytes) -> AsyncIterator[Loopback]:
    """Serve on a free port; `answer` is the bytes to send, or a coroutine that writes them."""
    server = Loopback()

    async def handle(reader: asyncio.StreamReader, writer: Writer) -> None:
        server.connections += 1
        server.open += 1
        server.busiest = max(server.busiest, server.open)
        server.writers.add(writer)
        number = server.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.rstrip().split("\r\n")
                method, target, _ = first.split(" ")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
                size = int(headers.get("content-length", "0"))
                body = await reader.readexactly(size) if size else b""
                request = Seen(number, method, target, headers, body)
                server.seen.append(request)
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(request, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            server.open -= 1
            server.writers.discard(writer)
            writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in list(server.writers):
            writer.transport.abort()
        await asyncio.sleep(0)
