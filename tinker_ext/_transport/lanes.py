"""A connection to one server with one credential: lanes, common headers, one attempt, retries.

Each lane has its own pool, so a thousand polls never keep a training step waiting. `once` makes one
attempt and returns any status; `exchange` repeats by the retry table until there is an answer or an
error that says what, how often and what to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import NoReturn, Protocol
from urllib.parse import urljoin, urlsplit

import attrs
import httpx

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.faults import RedirectRefusedError
from tinker_ext._transport.foreign import send_foreign
from tinker_ext._transport.gate import RetryBudget, shared_budget
from tinker_ext._transport.http import HttpTransport, wait_for_slot
from tinker_ext._transport.inflate import ACCEPT_ENCODING
from tinker_ext._transport.limits import FairQueue, SharedBackoff, shared_backoff
from tinker_ext._transport.messages import Call, Lane, Reply, RetryRule
from tinker_ext._transport.observe import (
    Observer,
    Observers,
    RequestFinished,
    RequestStarted,
    RetryScheduled,
)
from tinker_ext._transport.origin import encode_header, encode_target, proxy_for, split_base_url
from tinker_ext._transport.retry import Accept, Fail, Outcome, Retry, Timing, run
from tinker_ext._version import __version__
from tinker_ext.config import Config
from tinker_ext.errors import ClientClosedError, TinkerError, error_for_status

__all__ = ["Call", "Connection", "Credentials", "Lane", "Reply", "RetryRule"]

_SAFE_RULES = frozenset({RetryRule.READ, RetryRule.POLL})
# A kept connection may be closed by the server at the moment we write to it. A request that cannot
# be sent twice takes only a connection that was used just now.
_UNSAFE_MAX_IDLE = 1.0
_MAX_REDIRECTS = 5
_MB = 1024 * 1024


class Credentials(Protocol):
    """Gives the value of X-API-Key; see `tinker_ext.auth`."""

    @property
    def fingerprint(self) -> str:
        """A digest that tells credentials apart without showing them."""
        ...

    async def header(self) -> str | None:
        """Return the value, or None to send no key."""
        ...


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


class _Port:
    """A lane's way out: our own pool, or a queue before somebody else's transport."""

    def __init__(
        self,
        settings: LaneSettings,
        own: HttpTransport | None,
        foreign: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.settings = settings
        self.own = own
        self.foreign = foreign
        self.queue = own.queue if own is not None else FairQueue(settings.connections)


class Connection:
    """Everything that goes to one base URL with one credential.

    Args:
        base_url: http(s) URL of the server; its path is kept in front of every call's path.
        credentials: Gives the API key for each attempt; None sends no key.
        config: Times and retry limits; the defaults when None.
        lanes: Sizes of lanes that differ from `LANE_SETTINGS`.
        headers: Sent with every call (Cloudflare Access, overrides of the user).
        transport: Replaces our own transport: an `httpx.ASGITransport`, a mock.
        rng: Source of jitter and idempotency keys.
        observer: Told about every attempt.

    Raises:
        ConfigurationError: The base URL or a header cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        credentials: Credentials | None,
        *,
        config: Config | None = None,
        lanes: Mapping[Lane, LaneSettings] | None = None,
        headers: Iterable[tuple[str, str]] = (),
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.origin, self._base_path = split_base_url(base_url)
        self.base_url = f"{self.origin}{self._base_path}"
        self.observers = Observers([observer] if observer is not None else [])
        self._credentials = credentials
        self._config = config = config or Config()
        self._lane_settings = {**LANE_SETTINGS, **(lanes or {})}
        self._rng = rng or random.Random()
        self._transport = transport
        self._proxy = None if transport is not None else proxy_for(self.origin)
        self._common = _common_headers([*config.extra_headers().items(), *headers])
        self._key_line: tuple[str | None, str] = (None, "")
        self._ports: dict[Lane, _Port] = {}
        self._closed = False
        self._plain_block = _block(self._common, with_body=False)
        self._body_block = _block(self._common, with_body=True)
        # The common headers without those a call replaces; calls replace few different sets.
        self._partial_blocks: dict[tuple[bool | str, ...], str] = {}
        self._timing = Timing(
            base=config.retry_base,
            cap=config.retry_cap,
            server_cap=config.retry_after_cap,
            window=config.retry_window,
            billing=config.billing_pause,
            attempts=config.retry_attempts,
        )
        # A future is polled as long as its owner waits, however often that is.
        self._poll_timing = attrs.evolve(self._timing, attempts=None)

    def __repr__(self) -> str:
        return f"Connection({self.base_url!r})"

    @property
    def backoff(self) -> SharedBackoff:
        """The pause shared by everybody with this server and credential."""
        credential = self._credentials.fingerprint if self._credentials is not None else "anonymous"
        return shared_backoff(self.base_url, credential)

    @property
    def budget(self) -> RetryBudget:
        """The retry budget shared by everybody with this server."""
        return shared_budget(self.base_url)

    def queue(self, lane: Lane) -> FairQueue:
        """The slots of a lane, one per connection."""
        return self._port(lane).queue

    def httpx_transport(self, lane: Lane = Lane.REST) -> httpx.AsyncBaseTransport:
        """The lane's transport for an `httpx.AsyncClient` around generated code."""
        port = self._port(lane)
        transport = port.own or port.foreign
        assert transport is not None
        return transport

    async def once(self, call: Call) -> Reply:
        """Make one attempt.

        Returns:
            The reply, whatever its status; a GET follows redirects within the same origin.

        Raises:
            APIConnectionError: No usable reply; its `sent` says what is known.
            APITimeoutError: Not finished within `call.timeout`.
            ReplyTooLargeError: The reply exceeds its bound.
        """
        deadline = asyncio.get_running_loop().time() + self._timing.window + call.timeout
        return await self._attempt(call, 0, deadline, self._idempotency_key(call))

    async def exchange(self, call: Call, *, deadline: float | None = None) -> Reply:
        """Make attempts by the retry table until there is an answer.

        Args:
            call: What to send; every attempt has the same body and idempotency key.
            deadline: Loop time after which nothing more is tried; by default 300 s from now.

        Returns:
            A 2xx reply (or a status the call's rule counts as an answer).

        Raises:
            APIStatusError: The final status, with attempts and elapsed time.
            APIConnectionError: The last failure without a reply; `sent` says what is known.
            RedirectRefusedError: A redirect that must not be followed.
        """
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + self._timing.window
        key = self._idempotency_key(call)

        async def attempt(earlier: int) -> Reply:
            reply = await self._attempt(call, earlier, deadline, key)
            if 300 <= reply.status < 400 and not call.redirect_is_answer:
                self._refuse_redirect(call, reply)
            return reply

        def on_retry(attempts: int, outcome: Outcome) -> None:
            assert isinstance(outcome.verdict, Retry)
            self.observers.notice(
                RetryScheduled(
                    call.operation,
                    call.lane,
                    attempts,
                    str(outcome.reply.status if outcome.reply else type(outcome.error).__name__),
                    outcome.verdict.delay,
                    outcome.verdict.source,
                )
            )

        ended = await run(
            attempt,
            call.retry,
            lane=call.lane,
            deadline=deadline,
            rng=self._rng,
            budget=self.budget,
            timing=self._poll_timing if call.retry is RetryRule.POLL else self._timing,
            on_retry=on_retry if self.observers else None,
        )
        reply, error = ended.last.reply, ended.last.error
        if error is not None:
            if isinstance(error, TinkerError):
                error.with_context(
                    operation=call.operation, attempts=ended.attempts, elapsed=ended.elapsed
                )
            raise error
        assert reply is not None
        if isinstance(ended.last.verdict, Accept) or 300 <= reply.status < 400:
            return reply
        unsafe = ended.last.verdict == Fail("unsafe")
        raise error_for_status(
            reply.status,
            reply.content,
            reply.headers,
            method=call.method,
            url=self.base_url + call.path,
            operation=call.operation,
            attempts=ended.attempts,
            elapsed=ended.elapsed,
            hint=_UNSAFE_HINT if unsafe else None,
        )

    async def aclose(self) -> None:
        """Close all connections; later calls fail. A transport given by the caller stays open."""
        self._closed = True
        for port in self._ports.values():
            if port.own is not None:
                await port.own.aclose()
            elif port.foreign is not None and port.foreign is not self._transport:
                await port.foreign.aclose()

    # --- one attempt --------------------------------------------------------------------------

    async def _attempt(self, call: Call, earlier: int, deadline: float, key: str | None) -> Reply:
        if self._closed:
            raise ClientClosedError("this connection is closed").with_context(
                operation=call.operation
            )
        loop = asyncio.get_running_loop()
        port = self._ports.get(call.lane) or self._port(call.lane)
        target = encode_target(self._base_path + call.path)
        headers = await self._headers(call, earlier, key)
        watched = bool(self.observers)
        if watched:
            self.observers.notice(
                RequestStarted(call.operation, call.lane, earlier + 1, len(call.content or b""))
            )
        started = loop.time()
        status: int | None = None
        failure: str | None = None
        try:
            raw = await self._send(port, call, target, headers, deadline)
            for _ in range(_MAX_REDIRECTS):
                if raw[0] not in (301, 302, 303, 307, 308) or call.redirect_is_answer:
                    break
                onward = self._same_origin_target(call, target, raw[1].get("location"))
                if onward is None:
                    break
                target = onward
                raw = await self._send(port, call, target, headers, deadline)
            status = raw[0]
            return Reply(status, raw[1], raw[2], loop.time() - started)
        except BaseException as error:
            failure = type(error).__name__
            if isinstance(error, TinkerError) and error.operation is None:
                error.with_context(operation=call.operation)
            raise
        finally:
            if watched:
                self.observers.notice(
                    RequestFinished(
                        call.operation,
                        call.lane,
                        earlier + 1,
                        status,
                        failure,
                        loop.time() - started,
                    )
                )

    async def _send(
        self, port: _Port, call: Call, target: str, headers: str, deadline: float
    ) -> RawReply:
        limit = call.max_reply_bytes or port.settings.max_reply_bytes
        if port.own is not None:
            return await port.own.send_raw(
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
        assert port.foreign is not None
        pairs = [tuple(line.split(": ", 1)) for line in headers.split("\r\n") if line]
        await wait_for_slot(port.queue, deadline)
        try:
            left = deadline - asyncio.get_running_loop().time()
            return await send_foreign(
                port.foreign,
                call.method,
                f"{self.origin}{target}",
                [(name, value) for name, value in pairs],
                call.content,
                timeout=min(call.timeout, max(left, 0.001)),
                max_reply_bytes=limit,
            )
        finally:
            port.queue.release()

    async def _headers(self, call: Call, earlier: int, key: str | None) -> str:
        with_body = call.method != "GET"
        own_key = False
        if call.headers:
            names = (with_body, *(name.lower() for name, _ in call.headers))
            block = self._partial_blocks.get(names)
            if block is None:
                kept = {key: pair for key, pair in self._common.items() if key not in names}
                block = self._partial_blocks[names] = _block(kept, with_body=with_body)
            block += "".join(encode_header(name, value) for name, value in call.headers)
            own_key = "x-api-key" in names
        else:
            block = self._body_block if with_body else self._plain_block
        if key is not None:
            block += encode_header("X-Idempotency-Key", key)
        if earlier:
            block += f"X-Stainless-Retry-Count: {earlier}\r\n"
        if self._credentials is not None and not own_key:
            secret = await self._credentials.header()
            if secret != self._key_line[0]:
                line = encode_header("X-API-Key", secret) if secret else ""
                self._key_line = (secret, line)
            block += self._key_line[1]
        return block

    def _idempotency_key(self, call: Call) -> str | None:
        if call.method == "GET":
            return None
        return call.idempotency_key or f"tinker-ext-{self._rng.getrandbits(128):032x}"

    # --- redirects ----------------------------------------------------------------------------

    def _same_origin_target(self, call: Call, target: str, location: str | None) -> str | None:
        if call.method != "GET" or not location:
            return None
        url = urljoin(f"{self.origin}{target}", location)
        parts = urlsplit(url)
        try:
            onward, path = split_base_url(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}")
        except TinkerError:
            return None
        if onward != self.origin:
            return None
        path = path if not parts.path.endswith("/") else f"{path}/"
        return encode_target(f"{path}?{parts.query}" if parts.query else path)

    def _refuse_redirect(self, call: Call, reply: Reply) -> NoReturn:
        where = urlsplit(reply.headers.get("location", ""))
        # Only host and scheme are shown: a signed URL is a secret of its own.
        place = f"{where.scheme}://{where.hostname}" if where.hostname else "another path"
        raise RedirectRefusedError(
            f"{call.operation} was redirected ({reply.status}) to {place}; not followed",
            reply.status,
        )

    # --- ports --------------------------------------------------------------------------------

    def _port(self, lane: Lane) -> _Port:
        port = self._ports.get(lane)
        if port is None:
            port = self._ports[lane] = self._open_port(lane)
        return port

    def _open_port(self, lane: Lane) -> _Port:
        settings = self._lane_settings[lane]
        if self._transport is not None:
            return _Port(settings, None, self._transport)
        if self._proxy is not None:
            limits = httpx.Limits(
                max_connections=settings.connections,
                max_keepalive_connections=settings.connections,
            )
            return _Port(settings, None, httpx.AsyncHTTPTransport(proxy=self._proxy, limits=limits))
        own = HttpTransport(
            self.origin,
            connections=settings.connections,
            connect_timeout=self._config.connect_timeout,
            max_reply_bytes=settings.max_reply_bytes,
        )
        return _Port(settings, own, None)


_UNSAFE_HINT = (
    "This server does not recognise a repeated request, so it was not sent again; look at the "
    "state of the run first."
)


def _common_headers(extra: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the headers of every call by lower-case name; later ones replace earlier ones."""
    headers = {
        "accept": ("Accept", "application/json"),
        "content-type": ("Content-Type", "application/json"),
        "user-agent": ("User-Agent", f"tinker-ext/{__version__}"),
        "accept-encoding": ("Accept-Encoding", ACCEPT_ENCODING),
    }
    headers.update((name.lower(), (name, value)) for name, value in extra)
    for name, value in headers.values():
        encode_header(name, value)
    return headers


def _block(headers: Mapping[str, tuple[str, str]], *, with_body: bool) -> str:
    return "".join(
        encode_header(name, value)
        for key, (name, value) in headers.items()
        if with_body or key != "content-type"
    )
