"""Set or remove the expiry of a checkpoint

Null removes the expiry and is sent as null. Any 2xx means done; the body is ignored.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import SET_CHECKPOINT_TTL as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = None | models.ErrorBody | Unknown | str
    _Success: TypeAlias = None

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    training_run_id: str,
    checkpoint_kind: models.CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    body: models.SetCheckpointTtlRequest | bytes,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Set or remove the expiry of a checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
        body: The request, or its bytes when already encoded.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                body=body,
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


def sync_detailed(
    training_run_id: str,
    checkpoint_kind: models.CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    body: models.SetCheckpointTtlRequest | bytes,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                body=body,
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    training_run_id: str,
    checkpoint_kind: models.CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    body: models.SetCheckpointTtlRequest | bytes,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                body=body,
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    training_run_id: str,
    checkpoint_kind: models.CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    body: models.SetCheckpointTtlRequest | bytes,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                body=body,
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
