"""Make a checkpoint private

409 means that it is private already, which is a final answer. Any 2xx means done; the body is
ignored.

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
    from ...models.checkpoint_kind import CheckpointKind
    from ...models.error_body import ErrorBody
    from ...types import Unknown

    _Parsed: TypeAlias = None | ErrorBody | Unknown | str
    _Success: TypeAlias = None

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "delete",
        "/api/v1/training_runs/{}/checkpoints/{}/{}/publish",
        (
            training_run_id,
            refuse_unlisted(
                "checkpoint_kind",
                checkpoint_kind,
                ("weights", "sampler_weights", "external_weights"),
            ),
            checkpoint_name,
        ),
        headers={
            "X-Idempotency-Key": x_idempotency_key,
            "x-sdk-version": x_sdk_version,
            "x-sdk-method": x_sdk_method,
        },
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
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Make a checkpoint private

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                training_run_id,
                checkpoint_kind,
                checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


def sync(
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Make a checkpoint private

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
            training_run_id,
            checkpoint_kind,
            checkpoint_name,
            x_idempotency_key=x_idempotency_key,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Make a checkpoint private

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
                training_run_id,
                checkpoint_kind,
                checkpoint_name,
                x_idempotency_key=x_idempotency_key,
                x_sdk_version=x_sdk_version,
                x_sdk_method=x_sdk_method,
            ),
            timeout,
        )
    )


async def asyncio(
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    x_idempotency_key: str | None = None,
    x_sdk_version: str | None = None,
    x_sdk_method: str | None = None,
    timeout: float | None = None,
) -> _Success:
    """Make a checkpoint private

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
        x_idempotency_key: Chosen per call and kept over the transport's own retries. The official clients
            write `stainless-python-retry-<uuid4>`, and a bare uuid4 for `copy_weights`.
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
            training_run_id,
            checkpoint_kind,
            checkpoint_name,
            x_idempotency_key=x_idempotency_key,
            x_sdk_version=x_sdk_version,
            x_sdk_method=x_sdk_method,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
