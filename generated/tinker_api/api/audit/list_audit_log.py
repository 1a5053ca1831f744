"""Read the audit log

For administrators. May answer with a redirect to where the log is kept.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import LIST_AUDIT_LOG as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = models.AuditLogResponse | models.ErrorBody | Unknown | str | None
    _Success: TypeAlias = models.AuditLogResponse

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    *,
    client: Client,
    event_type: models.AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Read the audit log

    Args:
        client: Where to send the request.
        event_type: The kind of resource whose events are wanted.
        day: The UTC day to read, as `YYYY-MM-DD`; the server picks one when absent.
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
                event_type=event_type,
                day=day,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


def sync_detailed(
    *,
    client: Client,
    event_type: models.AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                event_type=event_type,
                day=day,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    event_type: models.AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                event_type=event_type,
                day=day,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    event_type: models.AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                event_type=event_type,
                day=day,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
