"""Revoke the API key in use

Logging out of a generated key revokes it on the server. Any 2xx means done.

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
    from ...types import Unknown

    _Parsed: TypeAlias = None | ErrorBody | Unknown | str
    _Success: TypeAlias = None

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs() -> dict[str, Any]:
    return build_request(
        "delete",
        "/api/v1/auth/apikey/me",
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.error_body import ErrorBody

    return (
        Answer(204, 204),
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
        Answer(200, 299),
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
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Revoke the API key in use

    Args:
        client: Where to send the request.
        timeout: Seconds; the client's own limit when None.

    Returns:
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(client.send(_get_kwargs(), timeout))


def sync(
    *,
    client: Client,
    timeout: float | None = None,
) -> _Success:
    """Revoke the API key in use

    Args:
        client: Where to send the request.
        timeout: Seconds; the client's own limit when None.

    Returns:
        The parsed body of a 2xx answer.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(sync_detailed(client=client, timeout=timeout))
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Revoke the API key in use

    Args:
        client: Where to send the request.
        timeout: Seconds; the client's own limit when None.

    Returns:
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(await client.send_async(_get_kwargs(), timeout))


async def asyncio(
    *,
    client: Client,
    timeout: float | None = None,
) -> _Success:
    """Revoke the API key in use

    Args:
        client: Where to send the request.
        timeout: Seconds; the client's own limit when None.

    Returns:
        The parsed body of a 2xx answer.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(await asyncio_detailed(client=client, timeout=timeout))
    return parsed
