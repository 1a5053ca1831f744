"""Give a model's place back

Low-level only in 0.4.1; the 0.36.0 SDK keeps the types but never calls it. The reply is a
ticket at once; the UnloadModelResponse comes from `retrieve_future`.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import UNLOAD_MODEL as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = models.UntypedAPIFuture | models.ErrorBody | Unknown | str | None
    _Success: TypeAlias = models.UntypedAPIFuture

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    *,
    client: Client,
    body: models.UnloadModelRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Give a model's place back

    Args:
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
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
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
    return parsed


def sync_detailed(
    *,
    client: Client,
    body: models.UnloadModelRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                body=body,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    body: models.UnloadModelRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                body=body,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    body: models.UnloadModelRequest | bytes,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                body=body,
                x_idempotency_key=x_idempotency_key,
            ),
            timeout,
        )
    )
