"""Describe the API key in use

Name, note and owner of the key in `X-API-Key`. Called by the command line tool.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import GET_API_KEY as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = models.ApiKeyInfoResponse | models.ErrorBody | Unknown | str | None
    _Success: TypeAlias = models.ApiKeyInfoResponse

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    *,
    client: Client,
    timeout: float | None = None,
) -> _Success:
    """Describe the API key in use

    Args:
        client: Where to send the request.
        timeout: Seconds; the client's own limit when None.

    Returns:
        The parsed body of a 2xx answer.

    Raises:
        StatusError: A documented status outside 2xx.
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    parsed: _Success = OPERATION.unwrap(client.send(OPERATION.build(), timeout))
    return parsed


def sync_detailed(
    *,
    client: Client,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(client.send(OPERATION.build(), timeout))


async def asyncio(
    *,
    client: Client,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(await client.send_async(OPERATION.build(), timeout))
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(await client.send_async(OPERATION.build(), timeout))
