"""Wait for a result

Long-polls for about half a minute. The 200 body is not tagged for certain: read the status
first, then the content type, `type` equal to `try_again`, `status` equal to
`complete_metadata`, the key `error`, and else the result of the operation that gave the ticket.
0.36.0 asks for sampling and forward results with `Accept: application/x-protobuf`. 408 means
still pending, 410 that the ticket is worthless, 402 that billing paused the work.

Generated file: run `nox -s regenerate` instead of editing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ...codec import (
    Choice,
    Object,
)
from ...exchange import Answer, build_request, read_answer, refuse_unlisted, unwrap
from ...types import Response

if TYPE_CHECKING:
    from ...client import Client
    from ...models.error_body import ErrorBody
    from ...models.future_retrieve_request import FutureRetrieveRequest
    from ...models.future_retrieve_response import FutureRetrieveResponse
    from ...models.pending_future_body import PendingFutureBody
    from ...models.retrieve_future_x_tinker_request_type import RetrieveFutureXTinkerRequestType
    from ...types import Unknown

    _Parsed: TypeAlias = (
        FutureRetrieveResponse | bytes | ErrorBody | Unknown | str | None | PendingFutureBody
    )
    _Success: TypeAlias = FutureRetrieveResponse | bytes

__all__ = ["asyncio", "asyncio_detailed", "sync", "sync_detailed"]


def _get_kwargs(
    *,
    body: FutureRetrieveRequest | bytes,
    x_tinker_request_type: RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
) -> dict[str, Any]:
    return build_request(
        "post",
        "/api/v1/retrieve_future",
        headers={
            "X-Tinker-Request-Type": refuse_unlisted(
                "x_tinker_request_type",
                x_tinker_request_type,
                (
                    "CreateModel",
                    "Forward",
                    "ForwardBackward",
                    "OptimStep",
                    "SaveWeights",
                    "LoadWeights",
                    "SaveWeightsForSampler",
                    "Sample",
                    "SaveWeightsExternal",
                    "CreateCustomLoss",
                    "UnloadModel",
                ),
            ),
            "X-Tinker-Request-Iteration": x_tinker_request_iteration,
            "X-Tinker-Create-Promise-Roundtrip-Time": x_tinker_create_promise_roundtrip_time,
            "X-Idempotency-Key": x_idempotency_key,
        },
        body=body,
    )


@cache
def _answers() -> tuple[Answer, ...]:
    from ...models.create_custom_loss_response import CreateCustomLossResponse
    from ...models.create_model_response import CreateModelResponse
    from ...models.error_body import ErrorBody
    from ...models.forward_backward_output import ForwardBackwardOutput
    from ...models.future_metadata_only import FutureMetadataOnly
    from ...models.load_weights_response import LoadWeightsResponse
    from ...models.optim_step_response import OptimStepResponse
    from ...models.pending_future_body import PendingFutureBody
    from ...models.request_failed_response import RequestFailedResponse
    from ...models.sample_response import SampleResponse
    from ...models.save_weights_external_response_internal import (
        SaveWeightsExternalResponseInternal,
    )
    from ...models.save_weights_for_sampler_response_internal import (
        SaveWeightsForSamplerResponseInternal,
    )
    from ...models.save_weights_response import SaveWeightsResponse
    from ...models.try_again_response import TryAgainResponse
    from ...models.unload_model_response import UnloadModelResponse

    return (
        Answer(
            200,
            200,
            json=Choice(
                models=(
                    TryAgainResponse,
                    CreateModelResponse,
                    UnloadModelResponse,
                    SampleResponse,
                    SaveWeightsResponse,
                    LoadWeightsResponse,
                    SaveWeightsForSamplerResponseInternal,
                    SaveWeightsExternalResponseInternal,
                    CreateCustomLossResponse,
                    FutureMetadataOnly,
                    RequestFailedResponse,
                    ForwardBackwardOutput,
                    OptimStepResponse,
                ),
                rules=(
                    ("type", "try_again", TryAgainResponse),
                    ("status", "complete_metadata", FutureMetadataOnly),
                    ("error", None, RequestFailedResponse),
                ),
            ),
            binary=("application/x-protobuf",),
        ),
        Answer(400, 400, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(401, 401, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(402, 402, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(403, 403, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(404, 404, json=Object(ErrorBody), binary=("text/plain", "text/html")),
        Answer(408, 408, json=Object(PendingFutureBody), binary=("text/plain", "text/html")),
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
    body: FutureRetrieveRequest | bytes,
    x_tinker_request_type: RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
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
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(
        client.send(
            _get_kwargs(
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
                body=body,
            ),
            timeout,
        )
    )


def sync(
    *,
    client: Client,
    body: FutureRetrieveRequest | bytes,
    x_tinker_request_type: RetrieveFutureXTinkerRequestType | None = None,
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        sync_detailed(
            x_tinker_request_type=x_tinker_request_type,
            x_tinker_request_iteration=x_tinker_request_iteration,
            x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
            x_idempotency_key=x_idempotency_key,
            body=body,
            client=client,
            timeout=timeout,
        )
    )
    return parsed


async def asyncio_detailed(
    *,
    client: Client,
    body: FutureRetrieveRequest | bytes,
    x_tinker_request_type: RetrieveFutureXTinkerRequestType | None = None,
    x_tinker_request_iteration: int | None = None,
    x_tinker_create_promise_roundtrip_time: float | None = None,
    x_idempotency_key: str | None = None,
    timeout: float | None = None,
) -> Response[_Parsed]:
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
        Status, headers, raw content and the parsed body of any documented status.

    Raises:
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
    """
    return _response(
        await client.send_async(
            _get_kwargs(
                x_tinker_request_type=x_tinker_request_type,
                x_tinker_request_iteration=x_tinker_request_iteration,
                x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
                x_idempotency_key=x_idempotency_key,
                body=body,
            ),
            timeout,
        )
    )


async def asyncio(
    *,
    client: Client,
    body: FutureRetrieveRequest | bytes,
    x_tinker_request_type: RetrieveFutureXTinkerRequestType | None = None,
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
        UnexpectedStatus: The status is not documented.
        UnexpectedBody: The body is not what is documented.
        httpx.TransportError: No answer in time, or no connection.
        StatusError: A documented status outside 2xx.
    """
    parsed: _Success = unwrap(
        await asyncio_detailed(
            x_tinker_request_type=x_tinker_request_type,
            x_tinker_request_iteration=x_tinker_request_iteration,
            x_tinker_create_promise_roundtrip_time=x_tinker_create_promise_roundtrip_time,
            x_idempotency_key=x_idempotency_key,
            body=body,
            client=client,
            timeout=timeout,
        )
    )
    return parsed
