"""The bridge to httpx: the embedded server, a proxy, a transport of the caller.

TLS connections of any kind trust the authorities that httpx finds (`client_context`).
The reply is unpacked by us and within our bounds, and every failure becomes one of our own errors.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl

import httpx

from tinker_ext._transport.channel import RawReply
from tinker_ext._transport.inflate import CorruptError, TooLargeError, inflater_for
from tinker_ext._transport.messages import (
    Call,
    ConnectError,
    ConnectionLostError,
    ExchangeTimeoutError,
    MalformedReplyError,
    ReplyTooLargeError,
    UnreadableReplyError,
)
from tinker_ext.errors import ConfigurationError, TinkerError

_parsed = functools.lru_cache(256)(httpx.URL)
"""A client asks for few addresses, again and again, and httpx takes long to read one."""


def proxy_transport(proxy: str) -> httpx.AsyncBaseTransport:
    """Return httpx's transport through a proxy; how many requests it carries is our own limit.

    Raises:
        ConfigurationError: The proxy's URL has a scheme that httpx cannot speak here.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    try:
        return httpx.AsyncHTTPTransport(verify=client_context(), proxy=proxy, limits=limits)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        scheme = proxy.partition("://")[0]
        raise ConfigurationError(
            f"the proxy that the environment names for this server cannot be used ({scheme}://…): "
            f"{error}"
        ) from None


async def send_foreign(
    transport: httpx.AsyncBaseTransport,
    call: Call,
    url: str,
    headers: str,
    timeout: float,
    max_reply_bytes: int,
) -> RawReply:
    """Send one request over a transport that is not ours; fails as `Pool.send` does."""
    request = _request(call, _parsed(url), headers, timeout)
    response: httpx.Response | None = None
    try:
        async with asyncio.timeout(timeout):
            response = await transport.handle_async_request(request)
            body = await _read(response, max_reply_bytes, head_only=call.method == "HEAD")
    except TinkerError:
        raise
    except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
        raise ExchangeTimeoutError(
            f"no complete reply within {timeout:.3g} s", sent=None if response is None else True
        ) from None
    except (httpx.ConnectTimeout, httpx.PoolTimeout):
        raise ExchangeTimeoutError(f"no connection within {timeout:.3g} s", sent=False) from None
    except (httpx.ConnectError, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        raise ConnectError(f"cannot connect: {error}") from error
    except Exception as error:
        if response is not None or isinstance(error, httpx.RemoteProtocolError):
            raise MalformedReplyError(
                f"the reply could not be read: {error}", sent=True if response else None
            ) from error
        raise ConnectionLostError(f"no answer: {type(error).__name__}: {error}") from error
    finally:
        if response is not None:
            await response.aclose()
    return response.status_code, dict(response.headers.items()), body


def _request(call: Call, url: httpx.URL, headers: str, timeout: float) -> httpx.Request:
    """What `httpx.Request(content=…)` gives, in half the time: it looks for each header twice."""
    content = b"" if call.content is None else bytes(call.content)
    # One that the caller gave is the one for a server behind a gateway; two would be refused.
    lines = [] if "\r\nhost: " in f"\r\n{headers}".lower() else [(b"Host", url.netloc)]
    for line in headers.encode("latin-1").split(b"\r\n"):
        if line:
            name, _, value = line.partition(b": ")
            lines.append((name, value))
    if content or call.method in ("POST", "PUT", "PATCH"):
        lines.append((b"Content-Length", b"%d" % len(content)))
    request = httpx.Request(
        call.method,
        url,
        headers=lines,
        stream=httpx.ByteStream(content),
        extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout)},
    )
    request.read()
    return request


async def _read(response: httpx.Response, limit: int, *, head_only: bool) -> bytes:
    status = response.status_code
    if response.is_closed and not hasattr(response, "_content"):
        return b""
    try:
        inflater = inflater_for(response.headers.get("content-encoding", ""), limit)
        packed = 0
        pieces: list[bytes] = []
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        async for piece in stream:
            packed += len(piece)
            if packed > limit:
                raise TooLargeError
            pieces.extend([piece] if inflater is None else inflater.feed(piece))
        if inflater is not None and packed:
            inflater.finish()
    except TooLargeError:
        raise ReplyTooLargeError(
            f"the reply is larger than the {limit} bytes allowed, or packed beyond reason", status
        ) from None
    except CorruptError as error:
        raise UnreadableReplyError(f"the reply cannot be unpacked: {error}") from None
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) != packed and not head_only and status not in (204, 304):
        raise MalformedReplyError(
            f"the reply has {packed} bytes where its header promises {length}"
        )
    return b"".join(pieces)


def client_context() -> ssl.SSLContext:
    """A context that verifies servers, with SSL_CERT_FILE or SSL_CERT_DIR where they are set.

    Raises:
        ConfigurationError: What the variable names cannot be read as certificates.
    """
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # also of the ssl module
        name = next((n for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(n)), None)
        if name is None:
            raise ConfigurationError(
                f"the certificates that come with httpx cannot be read: {_reason(error)}"
            ).with_context(hint="Install the package certifi again.") from error
        raise ConfigurationError(
            f"{name} is {os.environ[name]!r}, which cannot be read: {_reason(error)}"
        ).with_context(hint=f"Correct {name}, or unset it.") from error


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)  # of the ssl module, whose strerror says less
    return str(reason or error.strerror or error)
