"""Read the audit log

For administrators. May answer with a redirect to where the log is kept.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ...codec import (
    Object,
)
from ...exchange import Answer, build_request, read_answer, refuse_unlisted, unwrap
from ...types import Response

if TYPE_CHECKING:
    from ...client import Client
    from ...models.audit_event_type import AuditEventType
    from ...models.audit_log_response import AuditLogResponse
    from ...models.error_body import ErrorBody
    from ...types import Unknown

    _Parsed: TypeAlias = AuditLogResponse | ErrorBody | Unknown | str | None
    _Success: TypeAlias = AuditLogResponse

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    *,
    event_type: AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "get",
        "/api/v1/audit",
        query={
            "event_type": refuse_unlisted(
                "event_type",
                event_type,
                ("all", "checkpoints", "projects", "teams", "organizations"),
            ),
            "day": day,
        },
        headers={
            "x-sdk-version": x_sdk_version,
            "x-sdk-method": x_sdk_method,
        },
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.audit_log_response import AuditLogResponse
    from ...models.error_body import ErrorBody

    return (
        Answer(200, 200, json=Object(AuditLogResponse)),
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
        Answer(300, 399),
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
    event_type: AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Read the audit log

    Args:
        client: Where to send the request.
        event_type: The kind of resource whose events are wanted.
        day: The UTC day to read, as `YYYY-MM-DD`; the server picks one when absent.
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
                event_type=event_type,
                day=day,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


def sync(
    *,
    client: Client,
    event_type: AuditEventType | None = None,
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        sync_detailed(
            event_type=event_type,
            day=day,
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
    event_type: AuditEventType | None = None,
    day: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Read the audit log

    Args:
        client: Where to send the request.
        event_type: The kind of resource whose events are wanted.
        day: The UTC day to read, as `YYYY-MM-DD`; the server picks one when absent.
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
    event_type: AuditEventType | None = None,
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        await asyncio_detailed(
            event_type=event_type,
            day=day,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
