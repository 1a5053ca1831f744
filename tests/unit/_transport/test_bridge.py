"""M25: an application in this process is served like a server elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tinker_ext.mock.in_process import InProcessTransport


def ask(app: Any, method: str = "POST") -> httpx.Response:
    """Send one request into an application."""

    async def main() -> httpx.Response:
        async with httpx.AsyncClient(transport=InProcessTransport(app)) as client:
            return await client.request(method, "http://inside/a%20b?c=d", content=b"body")

    return asyncio.run(main())


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was asked."""
    message = await receive()
    text = f"{scope['method']} {scope['path']}?{scope['query_string'].decode()} "
    headers = [(b"content-type", b"text/plain"), (b"x-length", dict(scope["headers"])[b"host"])]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
    await send({"type": "http.response.body", "body": message["body"]})
    assert (await receive())["type"] == "http.disconnect"


def test_request_and_answer_pass_unchanged() -> None:
    """M25: method, path, query, headers and both bodies."""
    answer = ask(echo)
    assert (answer.status_code, answer.text) == (201, "POST /a b?c=d body")
    assert answer.headers["x-length"] == "inside"
    assert ask(echo, "HEAD").content == b""


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """Says nothing."""


async def cut(scope: Any, receive: Any, send: Any) -> None:
    """Stops in the middle."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


@pytest.mark.parametrize("app", [silent, cut])
def test_an_answer_that_is_not_finished_is_a_lost_connection(app: Any) -> None:
    """M24: it counts as one whose effect nobody knows."""
    with pytest.raises(httpx.ReadError, match="without an answer"):
        ask(app)
