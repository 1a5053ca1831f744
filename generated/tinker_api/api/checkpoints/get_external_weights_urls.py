"""Find the files of an external checkpoint

Only for `external_weights` checkpoints.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...operations import GET_EXTERNAL_WEIGHTS_URLS as OPERATION
from ...types import Response

if TYPE_CHECKING:
    from ... import models
    from ...client import Client
    from ...types import Unknown

    _Parsed: TypeAlias = (
        models.ExternalWeightsUrlsResponse | models.ErrorBody | Unknown | str | None
    )
    _Success: TypeAlias = models.ExternalWeightsUrlsResponse

__all__ = ["OPERATION", "asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def sync(
    training_run_id: str,
    checkpoint_kind: models.CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Find the files of an external checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
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
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
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
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync` does; return status, headers, content and the body of any documented status."""
    return OPERATION.respond(
        client.send(
            OPERATION.build(
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
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
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Do what `sync` does, without blocking the event loop."""
    parsed: _Success = OPERATION.unwrap(
        await client.send_async(
            OPERATION.build(
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
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
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Do what `sync_detailed` does, without blocking the event loop."""
    return OPERATION.respond(
        await client.send_async(
            OPERATION.build(
                training_run_id=training_run_id,
                checkpoint_kind=checkpoint_kind,
                checkpoint_name=checkpoint_name,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )
