"""The connections of one lane: HTTP/1.1 with keep-alive over asyncio, for exactly one origin.

Requests beyond the number of connections wait in a `FairQueue`; nothing is scanned, so the cost per
request is flat. Behind a proxy, or with a transport of the caller, httpx carries the requests and
the queue limits them all the same.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import ssl
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from tinker_ext._transport.channel import Channel, RawReply
from tinker_ext._transport.limits import Deadlines, FairQueue
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    Lane,
    RetryRule,
)
from tinker_ext._transport.origin import Origin
from tinker_ext.errors import ClientClosedError

if TYPE_CHECKING:
    import httpx

_SAFE_RULES = frozenset({RetryRule.READ, RetryRule.POLL})
# A kept connection may be closed by the server at the moment we write to it. A request that cannot
# be sent twice takes only a connection that was used just now.
_UNSAFE_MAX_IDLE = 1.0
# Such a moment is rare, so that a safe request is sent anew at once. After more of them the server
# is not well, and the retry table says when to come back.
_RESEND_RATE = 1.0
_RESEND_BURST = 4
_IDLE_SECONDS = 30.0
_MB = 1024 * 1024


@attrs.frozen
class LaneSettings:
    """Size of a lane: its connections and the largest reply it accepts."""

    connections: int
    max_reply_bytes: int


# Only polls carry results; every other reply is an acknowledgement or a page of a listing. All
# lanes together stay below 256 file descriptors.
LANE_SETTINGS: Mapping[str, LaneSettings] = {
    Lane.SESSION: LaneSettings(8, 32 * _MB),
    Lane.TRAIN: LaneSettings(16, 32 * _MB),
    Lane.SAMPLE: LaneSettings(64, 32 * _MB),
    Lane.POLL: LaneSettings(112, 512 * _MB),
    Lane.TELEMETRY: LaneSettings(2, 1 * _MB),
    Lane.REST: LaneSettings(16, 64 * _MB),
}


class Pool:
    """The connections of one lane to one origin, on the loop that runs when it is made.

    Args:
        origin: The only place requests may go.
        settings: How many connections, hence most requests in flight, and the largest reply.
        given: A transport of the caller, which stays the caller's to close.
        proxy: Proxy to go through with httpx's own transport.
        connect_timeout: Seconds to open a connection, TLS included.
        idle_seconds: A connection unused for longer is closed.
        ssl_context: Replaces the default (verification on, certificates as httpx finds them).

    Raises:
        ConfigurationError: The proxy cannot be used.
    """

    def __init__(
        self,
        origin: Origin,
        settings: LaneSettings,
        *,
        given: httpx.AsyncBaseTransport | None = None,
        proxy: str | None = None,
        connect_timeout: float = 30.0,
        idle_seconds: float = _IDLE_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.origin = origin
        self._loop = asyncio.get_running_loop()  # not asked for again: that is a system call
        self.queue = FairQueue(settings.connections)
        self._given = given is not None
        self._foreign = given
        if given is not None or proxy is not None:
            # Here and for TLS: httpx takes longer to load than the rest of a client.
            from tinker_ext._transport import bridge

            self._send_foreign = bridge.send_foreign
            if proxy is not None and given is None:
                self._foreign = bridge.proxy_transport(proxy)
        self._connect_timeout = connect_timeout
        self._idle_seconds = idle_seconds
        self._max_reply_bytes = settings.max_reply_bytes
        self._ssl = ssl_context
        self._is_address = _is_address(origin.host)
        self._idle: deque[Channel] = deque()
        # Exchanges under way: when each is over at the latest, and after how many seconds.
        self._busy: dict[Channel, tuple[float, float]] = {}
        self._deadlines = Deadlines(self._expire)
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._next_resend = 0.0
        self._host_line = f" HTTP/1.1\r\nHost: {origin.authority}\r\n"

    async def send(self, call: Call, target: str, headers: str, deadline: float) -> RawReply:
        """Send one request for a caller that holds a slot of `queue`.

        Args:
            call: What to send.
            target: Path and query, already percent-encoded.
            headers: Encoded lines, each ending in CRLF, without Host and Content-Length.
            deadline: Loop time that the exchange may not pass.

        Returns:
            Status, headers (lower case) and the unpacked body.

        Raises:
            ConnectError: No connection; nothing was sent.
            ConnectionLostError: Closed before any byte of the answer.
            MalformedReplyError: Garbage, cut short, or a length that lies.
            ReplyTooLargeError: More bytes than allowed, also after unpacking.
            ExchangeTimeoutError: Not finished in time.
        """
        now = self._loop.time()
        limit = call.max_reply_bytes or self._max_reply_bytes
        if self._foreign is not None:
            timeout = min(call.timeout, max(deadline - now, 0.001))
            return await self._send_foreign(
                self._foreign, call, f"{self.origin}{target}", headers, timeout, limit
            )
        if self._closed:
            raise ClientClosedError("the connection pool is closed")
        method, content = call.method, call.content
        length = ""
        if content is not None or method in ("POST", "PUT", "PATCH"):
            length = f"Content-Length: {len(content or b'')}\r\n"
        head = f"{method} {target}{self._host_line}{headers}{length}\r\n".encode("latin-1")
        del headers  # it may be long until the reply is there
        seconds = call.timeout
        if deadline - now < seconds:
            seconds = max(deadline - now, 0.001)
        end = now + seconds
        channel = self._take_idle(now, _UNSAFE_MAX_IDLE if call.retry is RetryRule.UNSAFE else None)
        kept = channel is not None
        while True:  # at most twice: once more when a kept connection was closed just now
            if channel is None:
                channel = await self._connect(min(self._connect_timeout, end - self._loop.time()))
            waiter = channel.start(head, content, limit, head_only=method == "HEAD")
            self._busy[channel] = end, seconds
            if end < self._deadlines.rings:
                self._deadlines.watch(self._loop, end)
            try:
                return await waiter
            except asyncio.CancelledError:
                channel.abort()
                raise
            except ConnectionLostError:
                safe = method == "GET" or call.retry in _SAFE_RULES
                if self._closed or not (kept and safe and self._may_resend(self._loop.time())):
                    raise
            finally:
                self._give_back(channel)
            channel, kept = None, False

    def _expire(self, now: float) -> float:
        """End the exchanges whose time is over."""
        earliest = math.inf
        for channel, (end, seconds) in self._busy.items():
            if end <= now:
                channel.expire(seconds)
            else:
                earliest = min(earliest, end)
        return earliest

    def _give_back(self, channel: Channel) -> None:
        """Keep a connection for the next request, if it is still open."""
        del self._busy[channel]
        if not channel.alive:
            return
        if self._closed:
            channel.abort()
            return
        channel.idle_since = self._loop.time()
        self._idle.append(channel)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._idle_seconds, self._sweep)

    def _may_resend(self, now: float) -> bool:
        """Whether a request whose idle connection was just closed is sent anew without a pause."""
        if self._next_resend - now > _RESEND_BURST / _RESEND_RATE:
            return False
        self._next_resend = max(self._next_resend, now) + 1.0 / _RESEND_RATE
        return True

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

    def _sweep(self) -> None:
        """Close what has been idle too long; the oldest stand on the left."""
        self._sweeper = None
        horizon = self._loop.time() - self._idle_seconds
        while self._idle and (not self._idle[0].alive or self._idle[0].idle_since <= horizon):
            self._idle.popleft().abort()
        if self._idle:
            delay = max(0.1, self._idle[0].idle_since - horizon)
            self._sweeper = self._loop.call_later(delay, self._sweep)

    async def _connect(self, timeout: float) -> Channel:
        origin = self.origin
        host = origin.host.strip("[]")
        if origin.secure and self._ssl is None:
            from tinker_ext._transport.bridge import client_context

            self._ssl = client_context()
        # A kept connection that is too old for this request makes room for the new one; every
        # slot held is a connection open or opening, this one included.
        if self._idle and len(self._idle) + self.queue.held > self.queue.limit:
            self._idle.popleft().abort()
        try:
            async with asyncio.timeout(max(timeout, 0.001)):
                _, channel = await self._loop.create_connection(
                    lambda: Channel(self._loop),
                    host,
                    origin.port,
                    ssl=self._ssl if origin.secure else None,
                    server_hostname=host if origin.secure else None,
                    # An address has no rival to race against, and a race costs a task.
                    happy_eyeballs_delay=None if self._is_address else 0.25,
                )
        except TimeoutError:
            raise ExchangeTimeoutError(
                f"no connection to {origin} within {timeout:.3g} s", sent=False
            ) from None
        except ssl.SSLError as error:
            raise ConnectError(
                f"TLS with {origin} failed: {getattr(error, 'verify_message', '') or error.reason}"
            ) from error
        except OSError as error:
            raise ConnectError(f"cannot connect to {origin}: {error}") from error
        return channel

    async def aclose(self) -> None:
        """Close the connections that are ours; exchanges under way fail."""
        self._closed = True
        if self._foreign is not None and not self._given:
            await self._foreign.aclose()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        channels = [*self._idle, *self._busy]
        self._idle.clear()
        for channel in channels:
            channel.abort()
        for channel in channels:
            await channel.wait_closed()
        self._deadlines.close()
        self.queue.close()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
