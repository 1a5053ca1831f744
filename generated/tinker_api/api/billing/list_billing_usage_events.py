"""Read usage over time

For administrators. Both ends fall on full hours in UTC, at most 14 days apart, and the start is
not in the future.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, TypeAlias

from ...operations import LIST_BILLING_USAGE_EVENTS as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = models.BillingUsageResponse | models.ErrorBody | Unknown | str | None
    _Success: TypeAlias = models.BillingUsageResponse

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    *,
    client: Client,
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Read usage over time

    Args:
        client: Where to send the request.
        starting_on: Start of the period, itself included; RFC 3339 in UTC, a full hour.
        ending_before: End of the period, itself excluded; RFC 3339 in UTC, a full hour.
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
                starting_on=starting_on,
                ending_before=ending_before,
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
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                starting_on=starting_on,
                ending_before=ending_before,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                starting_on=starting_on,
                ending_before=ending_before,
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
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                starting_on=starting_on,
                ending_before=ending_before,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
