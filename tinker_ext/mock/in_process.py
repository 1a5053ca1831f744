"""The transports of httpx that carry requests straight into an application of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class InProcessTransport(httpx.AsyncBaseTransport):
    """Calls the application on the caller's loop.

    `httpx.ASGITransport` looks for trio in the file system at every request, which costs more than
    the embedded server needs for a small one.
    """

    def __init__(self, app: Application) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Run the application once; an answer it does not finish counts as a lost connection."""
        content = await request.aread()
        url = request.url
        unread = True
        complete = asyncio.Event()
        start: Message = {}
        body: list[bytes] = []

        async def receive() -> Message:
            nonlocal unread
            if unread:
                unread = False
                return {"type": "http.request", "body": content, "more_body": False}
            await complete.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                body.append(message.get("body", b""))
                if not message.get("more_body", False):
                    complete.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }
        await self._app(scope, receive, send)
        if not start or not complete.is_set():
            raise httpx.ReadError("the application ended without an answer")
        stream = httpx.ByteStream(b"" if request.method == "HEAD" else b"".join(body))
        return httpx.Response(start["status"], headers=start.get("headers", []), stream=stream)


class Downloads(httpx.BaseTransport):
    """Downloads from the application: its files have addresses that nobody serves."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the application, on a loop of its own."""

        async def ask() -> httpx.Response:
            asked = httpx.Request(request.method, request.url, headers=request.headers)
            reply = await httpx.ASGITransport(self._app).handle_async_request(asked)
            body = httpx.ByteStream(b"".join([part async for part in reply.aiter_raw()]))
            return httpx.Response(reply.status_code, headers=reply.headers, stream=body)

        return asyncio.run(ask())
