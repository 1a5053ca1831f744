"""Ask for the trace of a session

The first call starts the export, later calls report on it; clients ask every 5 seconds until
`status` is `ready` or `failed`.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

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
    from ...models.error_body import ErrorBody
    from ...models.trace_export_response import TraceExportResponse
    from ...types import Unknown

    _Parsed: TypeAlias = TraceExportResponse | ErrorBody | Unknown | str | None
    _Success: TypeAlias = TraceExportResponse

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    session_id: str,
    *,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "get",
        "/api/v1/sessions/{}/trace_export",
        (session_id,),
        headers={
            "x-sdk-version": x_sdk_version,
            "x-sdk-method": x_sdk_method,
        },
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.error_body import ErrorBody
    from ...models.trace_export_response import TraceExportResponse

    return (
        Answer(200, 200, json=Object(TraceExportResponse)),
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
    session_id: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Ask for the trace of a session

    Args:
        session_id: A session, as `create_session` named it.
        client: Where to send the request.
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
                session_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        sync_detailed(
            session_id,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
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
    """Ask for the trace of a session

    Args:
        session_id: A session, as `create_session` named it.
        client: Where to send the request.
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
                session_id,
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        await asyncio_detailed(
            session_id,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
