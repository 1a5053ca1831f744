"""Faults carried out: on a port the socket is cut, in process a transport error is raised."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import struct
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import orjson

from tinker_ext.mock.faults import Fault
from tinker_ext.mock.messages import Receive, Request, Response, Scope, Send
from tinker_ext.mock.state.world import World

TRANSPORT = "tinker_ext.transport"
SLICES = 8
HTML = "<html><head><title>{0}</title></head><body><h1>{0}</h1><hr>gateway</body></html>"


class Connection:
    """The line to one caller.

    Attributes:
        cut: The line was cut on purpose.

    Args:
        log: Writes the request down; called once, before the caller can see how it ended.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, log: Callable[[], None]) -> None:
        self._transport: Any = (scope.get("extensions") or {}).get(TRANSPORT)
        self._receive = receive
        self.send = send
        self.cut = False
        self._log = log
        self._logged = False

    def log(self) -> None:
        """Write the request down, if it is not yet."""
        if not self._logged:
            self._logged = True
            self._log()

    async def close(self) -> None:
        """Hang up without an answer."""
        self.cut = True
        self.log()
        if self._transport is None:
            import httpx

            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        self._transport.close()
        await self._gone()

    async def reset(self) -> None:
        """Reset the connection (RST instead of FIN)."""
        self.cut = True
        self.log()
        if self._transport is None:
            import httpx

            raise httpx.ReadError("Connection reset by peer")
        line = self._transport.get_extra_info("socket")
        if line is not None:
            linger = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):  # a caller that has gone closed it already
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.abort()
        await self._gone()

    async def truncate(self, response: Response) -> None:
        """Announce a whole body and send half of it."""
        self.cut = True
        self.log()
        if self._transport is None:
            import httpx

            raise httpx.RemoteProtocolError(
                "peer closed connection without sending complete message body "
                f"(received {len(response.body) // 2} bytes, expected {len(response.body)})"
            )
        await self._start(response)
        half = response.body[: len(response.body) // 2]
        await self.send({"type": "http.response.body", "body": half, "more_body": True})
        self._transport.close()
        await self._gone()

    async def trickle(self, response: Response, seconds: float) -> None:
        """Send the body in slices spread over some seconds."""
        await self._start(response)
        size = max(1, -(-len(response.body) // SLICES))
        for at in range(0, len(response.body), size):
            await asyncio.sleep(seconds / SLICES)
            part = response.body[at : at + size]
            await self.send({"type": "http.response.body", "body": part, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

    async def _start(self, response: Response) -> None:
        self.log()
        headers = response.raw_headers()
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self.send(start)

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def strike_before(
    faults: Sequence[Fault], world: World, request: Request, connection: Connection
) -> Response | None:
    """Carry out what happens before a request has any effect.

    Returns:
        The answer to give instead of handling the request; None to handle it.
    """
    for fault in faults:
        if fault.kind == "delay":
            await asyncio.sleep(fault.delay)
        elif fault.kind == "hang":
            await asyncio.sleep(fault.delay)
            await connection.close()
        elif fault.kind == "drop_request":
            await connection.close()
        elif fault.kind == "reset" and not fault.after:
            await connection.reset()
        elif fault.kind in ("status", "html", "refuse_body") and not fault.after:
            return answer(fault)
        elif fault.kind.endswith("_completions"):
            return _completions(fault.kind, world, request)
        elif fault.kind in ("expired_future", "session_loss"):
            _lose(fault.kind, world, request)
        if connection.cut:
            return Response.empty()
    return None


async def strike_after(
    faults: Sequence[Fault], response: Response, connection: Connection
) -> Response | None:
    """Carry out what happens to a reply.

    Returns:
        The reply to send; None when nothing is left to send.
    """
    if connection.cut:
        return None
    for fault in faults:
        if fault.kind == "drop_response":
            await connection.close()
            return None
        if fault.kind == "reset" and fault.after:
            await connection.reset()
            return None
        if fault.kind == "truncate":
            await connection.truncate(response)
            return None
        if fault.kind == "slow_body":
            await connection.trickle(response, fault.delay)
            return None
        if fault.kind == "wrong_content_type":
            response.content_type = "text/plain; charset=utf-8"
        elif fault.kind == "garbage":
            noise = hashlib.blake2b(response.body, digest_size=64).digest()
            response = Response(response.status, noise, response.content_type)
        elif fault.kind == "headers":
            response.headers |= _headers(fault)
        elif fault.kind in ("status", "html") and fault.after:
            response = answer(fault)
    return response


def answer(fault: Fault) -> Response:
    """Return the reply of a `status`, `html` or `refuse_body` fault."""
    headers = _headers(fault)
    if fault.kind == "html":
        status = fault.status or 502
        page = fault.body or HTML.format(f"{status} {_phrase(status)}")
        return Response(status, page.encode(), "text/html", headers)
    status = fault.status or (422 if fault.kind == "refuse_body" else 503)
    if fault.body is not None:
        return Response(status, fault.body.encode(), "application/json", headers)
    return Response.of({"detail": f"injected fault {status}"}, status, headers)


def _headers(fault: Fault) -> dict[str, str]:
    headers = dict(fault.headers)
    if fault.retry_after is not None:
        given = fault.retry_after
        headers["retry-after"] = given if isinstance(given, str) else f"{given:g}"
    return headers


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _completions(kind: str, world: World, request: Request) -> Response:
    """Answer retrieve_futures at once, and wrongly."""
    body = _json(request)
    target = body.get("target") or {}
    sampler = world.samplers.get(str(target.get("sampling_session_id", "")))
    clone = int(target.get("cloned_sampler_id", 0) or 0)
    cursor = int(body.get("prev_cursor", 0) or 0)
    told: list[dict[str, str]] = []
    if kind == "stale_completions" and sampler is not None:
        with world.lock:
            done, _ = sampler.completions.since(clone, 0)
        told = [{"request_id": request_id, "state": state} for request_id, state in done]
    elif kind == "false_completions":
        draw = hashlib.blake2b(request.body, digest_size=4).hexdigest()
        told = [{"request_id": f"tmp-0-{draw}{n}", "state": "finished"} for n in range(3)]
        cursor += len(told)
    return Response.of({"completions": told, "cursor": cursor})


def _json(request: Request) -> dict[str, Any]:
    try:
        body = orjson.loads(request.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _lose(kind: str, world: World, request: Request) -> None:
    body = _json(request)
    if kind == "expired_future":
        world.promises.expire(str(body.get("request_id", "")))
        return
    owner = body.get("session_id") or body.get("model_id") or body.get("sampling_session_id") or ""
    world.lose_session(str(owner).split(":", 1)[0])
