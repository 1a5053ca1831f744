"""Wait for a result

Long-polls for about half a minute. The 200 body is not tagged for certain: read the status
first, then the content type, `type` equal to `try_again`, `status` equal to
`complete_metadata`, the key `error`, and else the result of the operation that gave the ticket.
0.36.0 asks for sampling and forward results with `Accept: application/x-protobuf`. 408 means
still pending, 410 that the ticket is worthless, 402 that billing paused the work.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import RETRIEVE_FUTURE as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = (
        models.FutureRetrieveResponse
        | bytes
        | models.ErrorBody
        | Unknown
        | str
        | None
        | models.PendingFutureBody
    )
    _Success: TypeAlias = models.FutureRetrieveResponse | bytes

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    *,
    client: Client,
    body: models.FutureRetrieveRequest | bytes,
    x_tinker_request_type: models.RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Wait for a result

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_tinker_request_type: The operation that gave the ticket. 0.36.0 adds SaveWeightsExternal and
            CreateCustomLoss. UnloadModel completes the list; no official client has been seen
            polling for it.
        x_tinker_request_iteration: How many times this ticket has been polled before, starting at 0.
        x_tinker_create_promise_roundtrip_time: Seconds the request that gave the ticket took; sent with the first poll only.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                body=body,
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
    return parsed


def sync_detailed(
    *,
    client: Client,
    body: models.FutureRetrieveRequest | bytes,
    x_tinker_request_type: models.RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                body=body,
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    body: models.FutureRetrieveRequest | bytes,
    x_tinker_request_type: models.RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                body=body,
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    body: models.FutureRetrieveRequest | bytes,
    x_tinker_request_type: models.RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                body=body,
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
