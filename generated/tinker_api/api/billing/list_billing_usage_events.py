"""Read usage over time

For administrators. Both ends fall on full hours in UTC, at most 14 days apart, and the start is
not in the future.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ...codec import (
    Object,
)
from ...exchange import Answer, build_request, read_answer, unwrap
from ...types import Response

if TYPE_CHECKING:
    from ...client import Client
    from ...models.billing_usage_response import BillingUsageResponse
    from ...models.error_body import ErrorBody
    from ...types import Unknown

    _Parsed: TypeAlias = BillingUsageResponse | ErrorBody | Unknown | str | None
    _Success: TypeAlias = BillingUsageResponse

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    *,
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "get",
        "/api/v1/billing/usage/events",
        query={
            "starting_on": starting_on,
            "ending_before": ending_before,
        },
        headers={
            "x-sdk-version": x_sdk_version,
            "x-sdk-method": x_sdk_method,
        },
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.billing_usage_response import BillingUsageResponse
    from ...models.error_body import ErrorBody

    return (
        Answer(200, 200, json=Object(BillingUsageResponse)),
        Answer(400, 400, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(401, 401, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(402, 402, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(403, 403, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(404, 404, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(408, 408, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(409, 409, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(410, 410, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(422, 422, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(429, 429, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(500, 599, json=Object(ErrorBody), binary=("text/plain", "text/html")),
    )


def _parse_response(*, status_code: int, headers: Mapping[str, str], content: bytes) -> _Parsed:
    parsed: _Parsed = read_answer(_answers(), status_code, headers, content)
    return parsed


def _response(answer: tuple[int, Mapping[str, str], bytes]) -> Response[_Parsed]:
    status_code, headers, content = answer
    parsed = _parse_response(status_code=status_code, headers=headers, content=content)
    return Response(status_code, headers, content, parsed)


def sync_detailed(
    *,
    client: Client,
    starting_on: datetime.datetime,
    ending_before: datetime.datetime,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Read usage over time

    Args:
        client: Where to send the request.
        starting_on: Start of the period, itself included; RFC 3339 in UTC, a full hour.
        ending_before: End of the period, itself excluded; RFC 3339 in UTC, a full hour.
        x_sdk_version: Version of the calling SDK. Sent from 0.36.0 on.
        x_sdk_method: Name of the public method behind the call. Sent from 0.36.0 on.
        timeout: Seconds; the client's own limit when None.

    Returns:
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(
        client.send(
            _get_kwargs(
                starting_on=starting_on,
                ending_before=ending_before,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        sync_detailed(
            starting_on=starting_on,
            ending_before=ending_before,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
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
    """Read usage over time

    Args:
        client: Where to send the request.
        starting_on: Start of the period, itself included; RFC 3339 in UTC, a full hour.
        ending_before: End of the period, itself excluded; RFC 3339 in UTC, a full hour.
        x_sdk_version: Version of the calling SDK. Sent from 0.36.0 on.
        x_sdk_method: Name of the public method behind the call. Sent from 0.36.0 on.
        timeout: Seconds; the client's own limit when None.

    Returns:
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(
        await client.send_async(
            _get_kwargs(
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        await asyncio_detailed(
            starting_on=starting_on,
            ending_before=ending_before,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
