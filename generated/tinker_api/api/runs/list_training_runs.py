"""List training runs

`access_scope` and `project_id` are understood from 0.36.0 on.

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
    from ...models.access_scope import AccessScope
    from ...models.error_body import ErrorBody
    from ...models.training_runs_response import TrainingRunsResponse
    from ...types import Unknown

    _Parsed: TypeAlias = TrainingRunsResponse | ErrorBody | Unknown | str | None
    _Success: TypeAlias = TrainingRunsResponse

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    *,
    limit: int | None = None,
    offset: int | None = None,
    access_scope: AccessScope | None = None,
    project_id: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "get",
        "/api/v1/training_runs",
        query={
            "limit": limit,
            "offset": offset,
            "access_scope": refuse_unlisted("access_scope", access_scope, ("owned", "accessible")),
            "project_id": project_id,
        },
        headers={
            "x-sdk-version": x_sdk_version,
            "x-sdk-method": x_sdk_method,
        },
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.error_body import ErrorBody
    from ...models.training_runs_response import TrainingRunsResponse

    return (
        Answer(200, 200, json=Object(TrainingRunsResponse)),
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
    limit: int | None = None,
    offset: int | None = None,
    access_scope: AccessScope | None = None,
    project_id: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """List training runs

    Args:
        client: Where to send the request.
        limit: Length of a page.
        offset: Entries to pass over before the page begins.
        access_scope: Only what the caller owns, or everything the caller may read. Known from 0.36.0 on,
            where clients always send it; servers of the 0.4.1 era ignore it.
        project_id: Only what belongs to this project; everything when absent. Known from 0.36.0 on.
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
                limit=limit,
                offset=offset,
                access_scope=access_scope,
                project_id=project_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


def sync(
    *,
    client: Client,
    limit: int | None = None,
    offset: int | None = None,
    access_scope: AccessScope | None = None,
    project_id: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """List training runs

    Args:
        client: Where to send the request.
        limit: Length of a page.
        offset: Entries to pass over before the page begins.
        access_scope: Only what the caller owns, or everything the caller may read. Known from 0.36.0 on,
            where clients always send it; servers of the 0.4.1 era ignore it.
        project_id: Only what belongs to this project; everything when absent. Known from 0.36.0 on.
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
            limit=limit,
            offset=offset,
            access_scope=access_scope,
            project_id=project_id,
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
    limit: int | None = None,
    offset: int | None = None,
    access_scope: AccessScope | None = None,
    project_id: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """List training runs

    Args:
        client: Where to send the request.
        limit: Length of a page.
        offset: Entries to pass over before the page begins.
        access_scope: Only what the caller owns, or everything the caller may read. Known from 0.36.0 on,
            where clients always send it; servers of the 0.4.1 era ignore it.
        project_id: Only what belongs to this project; everything when absent. Known from 0.36.0 on.
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
                limit=limit,
                offset=offset,
                access_scope=access_scope,
                project_id=project_id,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    limit: int | None = None,
    offset: int | None = None,
    access_scope: AccessScope | None = None,
    project_id: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """List training runs

    Args:
        client: Where to send the request.
        limit: Length of a page.
        offset: Entries to pass over before the page begins.
        access_scope: Only what the caller owns, or everything the caller may read. Known from 0.36.0 on,
            where clients always send it; servers of the 0.4.1 era ignore it.
        project_id: Only what belongs to this project; everything when absent. Known from 0.36.0 on.
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
            limit=limit,
            offset=offset,
            access_scope=access_scope,
            project_id=project_id,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
