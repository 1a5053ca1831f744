"""Our `httpx.AsyncBaseTransport`: HTTP/1.1 with keep-alive over asyncio, for exactly one origin.

Two doors lead to the same pool: `send_raw` takes prepared bytes (the hot path, about a tenth of a
millisecond per call) and `handle_async_request` serves an `httpx.AsyncClient`. Requests beyond the
number of connections wait in a `FairQueue`; nothing is scanned, so the cost per request is flat.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections import deque

import httpx

from tinker_ext._transport.alarms import Alarms
from tinker_ext._transport.channel import Channel, RawReply
from tinker_ext._transport.faults import (
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
)
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.limits import FairQueue
from tinker_ext._transport.origin import Origin, encode_header
from tinker_ext._wire.payload import Body
from tinker_ext.errors import ClientClosedError
from tinker_ext.tls import client_context

DEFAULT_TIMEOUT = 60.0
DEFAULT_MAX_REPLY_BYTES = 512 * 1024 * 1024
_HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "host", "keep-alive"}


class HttpTransport(httpx.AsyncBaseTransport):
    """A pool of connections to one origin.

    Args:
        origin: The only place requests may go; a request for another one is refused.
        connections: Most connections, hence most requests in flight.
        connect_timeout: Seconds to open a connection, TLS included.
        idle_seconds: A connection unused for longer is closed.
        max_reply_bytes: Most bytes of a reply, packed or unpacked.
        ssl_context: Replaces the default (verification on, certificates as httpx finds them).
    """

    def __init__(
        self,
        origin: Origin,
        *,
        connections: int = 64,
        connect_timeout: float = 10.0,
        idle_seconds: float = 30.0,
        max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.origin = origin
        self.queue = FairQueue(connections)
        self._connect_timeout = connect_timeout
        self._idle_seconds = idle_seconds
        self._max_reply_bytes = max_reply_bytes
        self._ssl = ssl_context
        self._is_address = _is_address(origin.host)
        self._idle: deque[Channel] = deque()
        self._busy: set[Channel] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._alarms = Alarms()
        self._closed = False
        self._host_line = f" HTTP/1.1\r\nHost: {origin.authority}\r\n".encode("ascii")

    async def send_raw(
        self,
        method: str,
        target: str,
        headers: bytes,
        content: bytes | Body | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        deadline: float | None = None,
        replay: bool = False,
        max_idle: float | None = None,
        max_reply_bytes: int | None = None,
    ) -> RawReply:
        """Send one request and return status, headers (lower case) and the unpacked body.

        Args:
            method: HTTP method.
            target: Path and query, already percent-encoded.
            headers: Encoded lines, each ending in CRLF, without Host and Content-Length.
            content: Body, or None.
            timeout: Seconds from having a connection slot to the last byte, connecting included.
            deadline: Loop time that neither waiting for a slot nor the exchange may pass.
            replay: The request has no effect: when a kept connection turns out to be dead, send it
                again on a new one.
            max_idle: Do not use a kept connection that was idle for longer.
            max_reply_bytes: Replaces the pool's limit.

        Raises:
            ConnectError: No connection; nothing was sent.
            ConnectionLostError: Closed before any byte of the answer.
            MalformedReplyError: Garbage, cut short, or a length that lies.
            ReplyTooLargeError: More bytes than allowed, also after unpacking.
            ExchangeTimeoutError: Not finished in time.
            TimeoutError: No connection came free before the deadline.
        """
        await self.queue.acquire(deadline=deadline)
        try:
            return await self.send_held(
                method,
                target,
                headers,
                content,
                timeout=timeout,
                deadline=deadline,
                replay=replay,
                max_idle=max_idle,
                max_reply_bytes=max_reply_bytes,
            )
        finally:
            self.queue.release()

    async def send_held(
        self,
        method: str,
        target: str,
        headers: bytes,
        content: bytes | Body | None,
        *,
        timeout: float,
        deadline: float | None = None,
        replay: bool = False,
        max_idle: float | None = None,
        max_reply_bytes: int | None = None,
    ) -> RawReply:
        """Do what `send_raw` does for a caller that holds a slot of `queue`."""
        head = b"%b %b%b%b" % (method.encode(), target.encode(), self._host_line, headers)
        if content is not None:
            head += b"Content-Length: %d\r\n\r\n" % len(content)
        elif method in ("POST", "PUT", "PATCH"):
            head += b"Content-Length: 0\r\n\r\n"
        else:
            head += b"\r\n"
        limit = self._max_reply_bytes if max_reply_bytes is None else max_reply_bytes
        if self._closed:
            raise ClientClosedError("the connection pool is closed")
        loop = asyncio.get_running_loop()
        now = loop.time()
        end = now + timeout
        if deadline is not None and deadline < end:
            end = deadline
        channel = self._take_idle(now, max_idle)
        if channel is not None:
            try:
                return await self._run(channel, head, content, end, timeout, limit, method)
            except ConnectionLostError:
                if not replay:
                    raise
        channel = await self._connect(loop, min(self._connect_timeout, end - loop.time()))
        return await self._run(channel, head, content, end, timeout, limit, method)

    async def _run(
        self,
        channel: Channel,
        head: bytes,
        content: bytes | Body | None,
        end: float,
        timeout: float,
        limit: int,
        method: str,
    ) -> RawReply:
        loop = asyncio.get_running_loop()
        waiter = channel.start(head, content, limit, head_only=method == "HEAD")
        timer = self._alarms.set(loop, end, channel.expire, timeout)
        self._busy.add(channel)
        try:
            return await waiter
        except asyncio.CancelledError:
            channel.abort()
            raise
        finally:
            timer.cancel()
            self._busy.discard(channel)
            if channel.alive:
                if self._closed:
                    channel.abort()
                else:
                    self._keep(channel, loop)

    def _take_idle(self, now: float, max_idle: float | None) -> Channel | None:
        oldest = self._idle_seconds if max_idle is None else min(max_idle, self._idle_seconds)
        while self._idle:
            channel = self._idle.pop()  # the most recently used: the least likely to be stale
            if not channel.alive:
                continue
            if now - channel.idle_since > oldest:
                self._idle.append(channel)
                return None
            return channel
        return None

    def _keep(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        channel.idle_since = loop.time()
        self._idle.append(channel)
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._idle_seconds, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has been idle too long; the oldest stand on the left."""
        self._sweeper = None
        horizon = loop.time() - self._idle_seconds
        while self._idle and (not self._idle[0].alive or self._idle[0].idle_since <= horizon):
            self._idle.popleft().abort()
        if self._idle:
            delay = max(0.1, self._idle[0].idle_since - horizon)
            self._sweeper = loop.call_later(delay, self._sweep, loop)

    async def _connect(self, loop: asyncio.AbstractEventLoop, timeout: float) -> Channel:
        origin = self.origin
        host = origin.host.strip("[]")
        if origin.secure and self._ssl is None:
            self._ssl = client_context()
        # A kept connection that is too old for this request makes room for the new one; every
        # slot held is a connection open or opening, this one included.
        if self._idle and len(self._idle) + self.queue.held > self.queue.limit:
            self._idle.popleft().abort()
        try:
            async with asyncio.timeout(max(timeout, 0.001)):
                _, channel = await loop.create_connection(
                    lambda: Channel(loop),
                    host,
                    origin.port,
                    ssl=self._ssl if origin.secure else None,
                    server_hostname=host if origin.secure else None,
                    # An address has no rival to race against, and a race costs a task.
                    happy_eyeballs_delay=None if self._is_address else 0.25,
                )
        except TimeoutError:
            raise ExchangeTimeoutError(
                f"no connection to {origin} within {timeout:g} s", sent=False
            ) from None
        except ssl.SSLError as error:
            raise ConnectError(
                f"TLS with {origin} failed: {getattr(error, 'verify_message', '') or error.reason}"
            ) from error
        except OSError as error:
            raise ConnectError(f"cannot connect to {origin}: {error}") from error
        return channel

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serve an `httpx.AsyncClient`; the whole reply is read and unpacked before it returns."""
        url = request.url
        port = url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
        host = url.raw_host.decode("ascii")
        if (url.scheme, host.strip("[]"), port) != (
            self.origin.scheme,
            self.origin.host.strip("[]"),
            self.origin.port,
        ):
            raise ConnectError(f"this transport serves {self.origin} only")
        content = await request.aread()
        names = {name.lower() for name, _ in request.headers.raw}
        lines = [
            encode_header(name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.headers.raw
            if name.lower().decode("latin-1") not in _HOP_HEADERS
            and name.lower() != b"accept-encoding"
        ]
        if b"accept-encoding" in names:
            lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}\r\n")
        timeouts = request.extensions.get("timeout", {})
        given = [timeouts.get(kind) for kind in ("read", "write", "connect")]
        seconds = max((value for value in given if value is not None), default=DEFAULT_TIMEOUT)
        has_body = bool(content) or b"content-length" in names or b"transfer-encoding" in names
        status, headers, body = await self.send_raw(
            request.method,
            url.raw_path.decode("ascii"),
            "".join(lines).encode("latin-1"),
            content if has_body else None,
            timeout=seconds,
            replay=request.method in ("GET", "HEAD", "OPTIONS"),
        )
        kept = {
            name: value
            for name, value in headers.items()
            if name not in ("content-encoding", "transfer-encoding")
        }
        if request.method != "HEAD":
            kept["content-length"] = str(len(body))
        return httpx.Response(
            status,
            headers=[(n.encode("latin-1"), v.encode("latin-1")) for n, v in kept.items()],
            stream=httpx.ByteStream(body),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def aclose(self) -> None:
        """Close every connection; exchanges under way fail."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        channels = [*self._idle, *self._busy]
        self._idle.clear()
        for channel in channels:
            channel.abort()
        for channel in channels:
            await channel.wait_closed()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
