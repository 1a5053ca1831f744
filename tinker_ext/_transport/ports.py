"""The way out of each lane: its size, and our own pool or somebody else's transport behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import attrs
import httpx

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.foreign import send_foreign
from tinker_ext._transport.http import HttpTransport
from tinker_ext._transport.limits import FairQueue
from tinker_ext._transport.messages import Call, Lane, RetryRule
from tinker_ext._transport.origin import Origin
from tinker_ext.tls import client_context

_SAFE_RULES = frozenset({RetryRule.READ, RetryRule.POLL})
# A kept connection may be closed by the server at the moment we write to it. A request that cannot
# be sent twice takes only a connection that was used just now.
_UNSAFE_MAX_IDLE = 1.0
_MB = 1024 * 1024


@attrs.frozen
class LaneSettings:
    """Size of a lane: its connections and the largest reply it accepts."""

    connections: int
    max_reply_bytes: int


# Only polls carry results; every other reply is an acknowledgement or a page of a listing. All
# lanes together stay below 256 file descriptors.
LANE_SETTINGS: Mapping[Lane, LaneSettings] = {
    Lane.SESSION: LaneSettings(8, 32 * _MB),
    Lane.TRAIN: LaneSettings(16, 32 * _MB),
    Lane.SAMPLE: LaneSettings(64, 32 * _MB),
    Lane.POLL: LaneSettings(112, 512 * _MB),
    Lane.TELEMETRY: LaneSettings(2, 1 * _MB),
    Lane.REST: LaneSettings(16, 64 * _MB),
}


class Port:
    """One lane of one connection.

    Args:
        origin: Where it leads.
        settings: Its size.
        given: A transport of the caller, which stays the caller's to close.
        proxy: Proxy to go through with httpx's own transport.
        connect_timeout: Seconds to open a connection.
    """

    def __init__(
        self,
        origin: Origin,
        settings: LaneSettings,
        *,
        given: httpx.AsyncBaseTransport | None = None,
        proxy: str | None = None,
        connect_timeout: float = 30.0,
    ) -> None:
        self._origin = origin
        self._settings = settings
        self._own: HttpTransport | None = None
        self._given = given is not None
        if given is not None:
            self.transport = given
        elif proxy is not None:
            limits = httpx.Limits(
                max_connections=settings.connections,
                max_keepalive_connections=settings.connections,
            )
            self.transport = httpx.AsyncHTTPTransport(
                verify=client_context(), proxy=proxy, limits=limits
            )
        else:
            self.transport = self._own = HttpTransport(
                origin,
                connections=settings.connections,
                connect_timeout=connect_timeout,
                max_reply_bytes=settings.max_reply_bytes,
            )
        self.queue = self._own.queue if self._own else FairQueue(settings.connections)

    async def send(self, call: Call, target: str, headers: str, deadline: float) -> RawReply:
        """Send one request; the caller holds a slot of `queue`."""
        limit = call.max_reply_bytes or self._settings.max_reply_bytes
        if self._own is not None:
            return await self._own.send_held(
                call.method,
                target,
                headers.encode("latin-1"),
                call.content,
                timeout=call.timeout,
                deadline=deadline,
                replay=call.retry in _SAFE_RULES or call.method == "GET",
                max_idle=_UNSAFE_MAX_IDLE if call.retry is RetryRule.UNSAFE else None,
                max_reply_bytes=limit,
            )
        pairs = [line.partition(": ") for line in headers.split("\r\n") if line]
        left = deadline - asyncio.get_running_loop().time()
        return await send_foreign(
            self.transport,
            call.method,
            f"{self._origin}{target}",
            [(name, value) for name, _, value in pairs],
            call.content,
            timeout=min(call.timeout, max(left, 0.001)),
            max_reply_bytes=limit,
        )

    async def aclose(self) -> None:
        """Close the connections that are ours."""
        if not self._given:
            await self.transport.aclose()
