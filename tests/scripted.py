"""A real server behind a script: some requests are answered by the test, the rest by the server.

Every request takes a little virtual time, so that a client which asks in a loop moves the clock and
its requests a second can be counted. A client that never stops is stopped: past `most` requests
the run ends with `HaltedError`.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import httpx
import orjson

from tinker_ext.mock.in_process import InProcessTransport

LATENCY = 0.001
"""Virtual seconds a request takes; a client without a pause asks a thousand times a second."""


@attrs.frozen
class Sent:
    """One request as the server saw it.

    Attributes:
        when: Virtual time.
        name: Operation, the path below /api/v1/.
        body: Decoded JSON, or the bytes of another body.
        status: Of the reply; None when there was none.
    """

    when: float
    name: str
    body: Any
    headers: httpx.Headers
    status: int | None = None

    @property
    def is_json(self) -> bool:
        return "json" in self.headers.get("content-type", "")


Deliver = Callable[[], Awaitable[httpx.Response]]
Script = Callable[[Sent, Deliver], Awaitable[Any]]


class Scripted(httpx.AsyncBaseTransport):
    """Carries requests to a server unless the script answers them.

    Args:
        inner: An ASGI application or another transport.
        script: Awaited with (request, deliver); returns a response, `(status, body)`,
            `(status, body, headers)`, or None to let the server answer. `deliver()` hands the
            request to the server and returns its reply.
        most: Requests after which the test is stopped.
    """

    def __init__(self, inner: Any, script: Script | None = None, *, most: int = 20_000) -> None:
        if not isinstance(inner, httpx.AsyncBaseTransport):
            inner = InProcessTransport(inner)
        self._inner = inner
        self._most = most
        self.script = script
        self.sent: list[Sent] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        name = request.url.path.partition("/api/v1/")[2]
        loop = asyncio.get_running_loop()
        sent = Sent(loop.time(), name, _decoded(request, content), request.headers)
        self.sent.append(sent)
        at = len(self.sent) - 1
        if at >= self._most:
            halt(f"{at} requests in {loop.time():.1f} virtual seconds, the last one {name}")
            await loop.create_future()
        await asyncio.sleep(LATENCY)
        response = await self._answer(sent, request)
        self.sent[at] = attrs.evolve(sent, status=response.status_code)
        return response

    async def _answer(self, sent: Sent, request: httpx.Request) -> httpx.Response:
        async def deliver() -> httpx.Response:
            response = await self._inner.handle_async_request(request)
            await response.aread()
            return response

        answer = None if self.script is None else await self.script(sent, deliver)
        if answer is None:
            return await deliver()
        return answer if isinstance(answer, httpx.Response) else reply(*answer)

    def count(self, name: str | None = None) -> int:
        """Requests of an operation, or all."""
        return sum(1 for sent in self.sent if name in (None, sent.name))

    def of(self, name: str) -> list[Sent]:
        """The requests of an operation."""
        return [sent for sent in self.sent if sent.name == name]

    def rate(self, name: str | None = None, window: float = 10.0) -> float:
        """Most requests in any `window` virtual seconds, per second."""
        return busiest([sent.when for sent in self.sent if name in (None, sent.name)], window)


def halt(reason: str) -> None:
    """Stop the run: the client would go on for ever."""
    loop: Any = asyncio.get_running_loop()
    if loop.halted is None:
        loop.halt(reason)


def busiest(times: list[float], window: float = 10.0) -> float:
    """Most moments in any stretch of so many seconds, per second.

    Example:
        >>> busiest([0.0, 1.0, 2.0, 100.0], 10.0)
        0.3
    """
    ordered = sorted(times)
    ends = (bisect.bisect_left(ordered, start + window) for start in ordered)
    return max((end - at for at, end in enumerate(ends)), default=0) / window


def reply(status: int, body: Any = None, headers: dict[str, str] | None = None) -> httpx.Response:
    """A reply with a JSON body, or text as HTML, or bytes as they are."""
    if isinstance(body, str):
        return httpx.Response(
            status, content=body, headers={"content-type": "text/html", **(headers or {})}
        )
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return httpx.Response(
        status, content=content, headers={"content-type": "application/json", **(headers or {})}
    )


def page(status: int) -> httpx.Response:
    """What a gateway says."""
    return reply(status, f"<html><head><title>{status}</title></head></html>")


def lost() -> httpx.TransportError:
    """The connection ended after the whole request was sent."""
    return httpx.RemoteProtocolError("server disconnected without sending a response")


def _decoded(request: httpx.Request, content: bytes) -> Any:
    if "json" in request.headers.get("content-type", "json"):
        try:
            return orjson.loads(content) if content else None
        except orjson.JSONDecodeError:
            return content
    return content


def undeclared(**settings: Any) -> dict[str, Any]:
    """Settings of a server that does not say what it does with a repeated number."""
    return {**settings, "client_config": {**settings.get("client_config", {}), "seq_ids": None}}


numbers = itertools.count()


def fresh_url() -> str:
    """An address no other test used, for what a process remembers about servers."""
    return f"http://server-{next(numbers)}.test"
