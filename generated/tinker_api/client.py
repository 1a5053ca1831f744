"""`Client`: where requests go, with which credential, and how long to wait for the answer.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

import httpx
from attrs import define, evolve, field

from .types import Headers

__all__ = ["Client"]

_USERINFO = re.compile(r"//[^/@]*@")


def _bounded(instance: Any, attribute: Any, value: float | httpx.Timeout) -> None:
    limits = value.as_dict().values() if isinstance(value, httpx.Timeout) else (value,)
    if any(limit is None or not 0 < limit < float("inf") for limit in limits):
        raise ValueError(
            "timeout must be a positive number of seconds: a call never waits for ever"
        )


@define
class Client:
    """Settings and connections of the low-level calls.

    Args:
        base_url: Scheme, host and optional path prefix of the server.
        token: Credential, sent in `auth_header_name`; never shown.
        auth_header_name: Header that carries the credential.
        prefix: Word before the credential, such as `Bearer`.
        timeout: Seconds a call may wait for the network; there is always a limit.
        headers: Sent with each request; values are never shown.
        follow_redirects: Off, so that a credential stays with its server.
        httpx_args: Further arguments of `httpx.Client`, such as `verify` or `transport`.

    Example:
        >>> Client("http://localhost:8000", token="tml-secret")
        Client(base_url='http://localhost:8000', timeout=60.0)
    """

    base_url: str = field(repr=lambda url: repr(_USERINFO.sub("//", url)))
    token: str | None = field(default=None, repr=False)
    auth_header_name: str = field(default="X-API-Key", repr=False, kw_only=True)
    prefix: str = field(default="", repr=False, kw_only=True)
    timeout: float | httpx.Timeout = field(default=60.0, validator=_bounded, kw_only=True)
    headers: Mapping[str, str] = field(factory=Headers, repr=False, kw_only=True)
    follow_redirects: bool = field(default=False, repr=False, kw_only=True)
    httpx_args: Mapping[str, Any] = field(factory=dict, repr=False, kw_only=True)
    _client: httpx.Client | None = field(default=None, init=False, repr=False, eq=False)
    _async_client: httpx.AsyncClient | None = field(default=None, init=False, repr=False, eq=False)

    def with_timeout(self, timeout: float | httpx.Timeout) -> Client:
        """Return a client with another timeout and connections of its own."""
        return evolve(self, timeout=timeout)

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        """Return a client with more headers and connections of its own."""
        return evolve(self, headers=Headers({**self.headers, **headers}))

    def set_httpx_client(self, client: httpx.Client) -> Client:
        """Use this connection pool for synchronous calls."""
        self._client = client
        return self

    def set_async_httpx_client(self, client: httpx.AsyncClient) -> Client:
        """Use this connection pool for asynchronous calls."""
        self._async_client = client
        return self

    def get_httpx_client(self) -> httpx.Client:
        """Return the pool of the synchronous calls; made on first use."""
        if self._client is None:
            self._client = httpx.Client(**self._arguments())
        return self._client

    def get_async_httpx_client(self) -> httpx.AsyncClient:
        """Return the pool of the asynchronous calls; made on first use."""
        if self._async_client is None:
            self._async_client = httpx.AsyncClient(**self._arguments())
        return self._async_client

    def _arguments(self) -> dict[str, Any]:
        return {
            "base_url": self.base_url,
            "timeout": self.timeout,
            "follow_redirects": self.follow_redirects,
            **self.httpx_args,
        }

    def _complete(self, parts: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        if timeout is not None:
            _bounded(self, None, timeout)
        headers = Headers({name.lower(): value for name, value in self.headers.items()})
        if self.token is not None:
            credential = f"{self.prefix} {self.token}" if self.prefix else self.token
            headers[self.auth_header_name.lower()] = credential
        return {
            **parts,
            "headers": Headers({**headers, **parts["headers"]}),
            "timeout": self.timeout if timeout is None else timeout,
        }

    def send(
        self, parts: dict[str, Any], timeout: float | None = None
    ) -> tuple[int, Headers, bytes]:
        """Send the parts of a request and return status, headers and body.

        Raises:
            httpx.TransportError: No answer: connection, protocol or timeout.
        """
        answer = self.get_httpx_client().request(**self._complete(parts, timeout))
        return answer.status_code, Headers(answer.headers), answer.content

    async def send_async(
        self, parts: dict[str, Any], timeout: float | None = None
    ) -> tuple[int, Headers, bytes]:
        """Do what `send` does, without blocking the event loop."""
        answer = await self.get_async_httpx_client().request(**self._complete(parts, timeout))
        return answer.status_code, Headers(answer.headers), answer.content

    def close(self) -> None:
        """Close the synchronous connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def aclose(self) -> None:
        """Close the asynchronous connections."""
        if self._async_client is not None:
            await self._async_client.aclose()
            self._async_client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Client holds a credential and open connections; build it where you need it"
        )
