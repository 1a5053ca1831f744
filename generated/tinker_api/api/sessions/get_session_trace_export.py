"""Ask for the trace of a session

The first call starts the export, later calls report on it; clients ask every 5 seconds until
`status` is `ready` or `failed`.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import GET_SESSION_TRACE_EXPORT as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = models.TraceExportResponse | models.ErrorBody | Unknown | str | None
    _Success: TypeAlias = models.TraceExportResponse

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    session_id: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Ask for the trace of a session

    Args:
        session_id: A session, as `create_session` named it.
        client: Where to send the request.
        x_sdk_version: Version of the calling SDK. Sent from 0.36.0 on.
        x_sdk_method: Name of the public method behind the call. Sent from 0.36.0 on.
        timeout: Seconds; the client's own limit when None.

    Returns:
        The parsed body of a 2xx answer.

    Raises:
        StatusError: A documented status outside 2xx.
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    parsed: _Success = OPERATION.unwrap(
        client.send(
            OPERATION.build(
                session_id=session_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


def sync_detailed(
    session_id: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                session_id=session_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    session_id: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                session_id=session_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    session_id: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                session_id=session_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
