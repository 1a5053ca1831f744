"""Compute losses without gradients

JSON only. The 0.36.0 era sends the same work to `forward_backward` with `forward_only` set. The
reply is a ticket at once; the ForwardBackwardOutput comes from `retrieve_future`.

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
    from ...models.forward_request import ForwardRequest
    from ...models.untyped_api_future import UntypedAPIFuture
    from ...types import Unknown

    _Parsed: TypeAlias = UntypedAPIFuture | ErrorBody | Unknown | str | None
    _Success: TypeAlias = UntypedAPIFuture

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    *,
    body: ForwardRequest | bytes,
    x_idempotency_key: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "post",
        "/api/v1/forward",
        headers={
            "X-Idempotency-Key": x_idempotency_key,
        },
        body=body,
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.error_body import ErrorBody
    from ...models.untyped_api_future import UntypedAPIFuture

    return (
        Answer(200, 200, json=Object(UntypedAPIFuture)),
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
    body: ForwardRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Compute losses without gradients

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                x_idempotency_key=x_idempotency_key,
                body=body,
            ),
            timeout,
        )
    )


def sync(
    *,
    client: Client,
    body: ForwardRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Compute losses without gradients

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
            x_idempotency_key=x_idempotency_key, body=body, client=client, timeout=timeout
        )
    )
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    body: ForwardRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Compute losses without gradients

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                x_idempotency_key=x_idempotency_key,
                body=body,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    body: ForwardRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Compute losses without gradients

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
            x_idempotency_key=x_idempotency_key, body=body, client=client, timeout=timeout
        )
    )
    return parsed
