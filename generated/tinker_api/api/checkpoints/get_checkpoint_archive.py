"""Find the archive of a checkpoint

The answer is a redirect that must not be followed: its `Location` is the signed URL that a user
downloads. Last seen in SDK 0.25; later eras use `external_weights_urls`.

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
) -> dict[str, Any]:
    return build_request(
        "get",
        "/api/v1/training_runs/{}/checkpoints/{}/{}/archive",
        (
            training_run_id,
            refuse_unlisted(
                "checkpoint_kind",
                checkpoint_kind,
                ("weights", "sampler_weights", "external_weights"),
            ),
            checkpoint_name,
        ),
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.error_body import ErrorBody

    return (
        Answer(302, 302),
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
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Find the archive of a checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
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
    timeout: float | None = None,
) -> _Success:
    """Find the archive of a checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
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
    parsed: _Success = unwrap(
        sync_detailed(
            training_run_id, checkpoint_kind, checkpoint_name, client=client, timeout=timeout
        )
    )
    return parsed


async def asyncio_detailed(
    training_run_id: str,
    checkpoint_kind: CheckpointKind,
    checkpoint_name: str,
    *,
    client: Client,
    timeout: float | None = None,
) -> Response[_Parsed]:
    """Find the archive of a checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
        client: Where to send the request.
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
    timeout: float | None = None,
) -> _Success:
    """Find the archive of a checkpoint

    Args:
        training_run_id: A training run; the same string as the model id, `<session_id>:train:<n>`.
        checkpoint_kind: First segment of a checkpoint id: training state, weights to sample from, or (from
            0.36.0 on) exported weights.
        checkpoint_name: Second segment of a checkpoint id, the name given when it was saved.
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
    parsed: _Success = unwrap(
        await asyncio_detailed(
            training_run_id, checkpoint_kind, checkpoint_name, client=client, timeout=timeout
        )
    )
    return parsed
