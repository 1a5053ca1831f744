"""What a future is and yields: the promise of a sample, and every body of retrieve_future."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import orjson
from tinker_api.codec import TEXT
from tinker_api.models import (
    FutureMetadataOnly,
    RequestFailedResponse,
    TryAgainResponse,
    UntypedAPIFuture,
    parse_future_retrieve_response,
)
from tinker_api.operations import Operation

from tinker_ext._wire import json_codec
from tinker_ext.types.checkpoints import SaveWeightsResponse

NotDone = TryAgainResponse | FutureMetadataOnly | RequestFailedResponse
"""Members of the union that are not a result."""

_TEXTS: Final = frozenset({str})
_IDS: Final = ("model_id", "session_id", "sampling_session_id", "loss_id")
_SAVES: Final = frozenset(
    {
        "SaveWeightsResponse",
        "SaveWeightsForSamplerResponseInternal",
        "SaveWeightsExternalResponseInternal",
    }
)
_HOT: Final = {
    "ForwardBackwardOutput": json_codec.decode_forward,
    "SampleResponse": json_codec.decode_sample,
}
"""Large results, which our own decoders read into arrays."""


def read_promise(content: bytes) -> tuple[str, list[str] | None]:
    """Read the answer to a sample: the id of its future, and the ids of its sequences if told.

    Raises:
        ApiError: It is not such an answer.
        ValueError: It is not JSON, or the id is empty.
    """
    body = orjson.loads(content)
    if type(body) is dict and "model_id" not in body:
        # Nearly every answer, read as the model would read it, at a tenth of the cost.
        request_id, ids = body.get("request_id"), body.get("sample_sequence_ids")
        texts = ids is None or (type(ids) is list and _TEXTS.issuperset(map(type, ids)))
        if request_id and texts:
            return TEXT.read(request_id), ids
    promise = UntypedAPIFuture.from_dict(body)
    if not promise.request_id:
        check_promise(promise)
    return promise.request_id, promise.sample_sequence_ids


def check_promise(record: Any) -> None:
    """Refuse an answer that names a future by nothing; one without a future passes."""
    if getattr(record, "request_id", None) == "":
        raise ValueError("request_id is empty, so nobody can ask for the result")


def read_json(op: Operation[Any, Any], body: Any) -> Any:
    """Read a JSON body for a future of this operation.

    Returns:
        The result as users get it, or the member that says that there is not one (yet).

    Raises:
        ApiError: The body is another member of the union, or none of them.
        ValueError: It is the awaited member, and does not fit it.
    """
    decode = _HOT.get(op.result or "")
    if decode is not None and op.member_of(body) == op.result:
        return decode(body)
    if op.result == "OptimStepResponse":
        body = _with_nan(body)
    expected = op.result_model
    assert expected is not None
    return _public(parse_future_retrieve_response(body, expected))


def read_proto(op: Operation[Any, Any], content: bytes) -> Any:
    """Read a protobuf body for a future of this operation; ValueError when it does not fit."""
    decode = _proto_decoders().get(op.result or "")
    if decode is None:
        raise ValueError(f"{op.result} came as protobuf")
    return decode(content)


@functools.cache
def _proto_decoders() -> dict[str, Callable[[bytes], Any]]:
    # Not at the top: protobuf is an extra. Once: an import statement is too slow for every sample.
    from tinker_ext._wire import proto_codec

    return {
        "ForwardBackwardOutput": proto_codec.decode_forward,
        "SampleResponse": proto_codec.decode_sample,
    }


def check_ids(record: Any) -> Any:
    """Return the record; one whose id is empty cannot be used, and is as good as unreadable."""
    for name in _IDS:
        if getattr(record, name, None) == "":
            raise ValueError(f"{name} is empty")
    return record


def _public(record: Any) -> Any:
    if isinstance(record, NotDone):
        return record
    name = type(record).__name__
    if name in _SAVES and not (record.path or getattr(record, "sampling_session_id", None)):
        raise ValueError("it does not tell where the weights are")
    if name == "SaveWeightsResponse":
        return SaveWeightsResponse.from_dict(record.to_dict())
    return check_ids(record)


def _with_nan(body: Any) -> Any:
    """The body with NaN for every metric that is null.

    JSON encoders write null for a number that is not finite. The document knows no such metric,
    but the step it tells about was taken: an error here would say that it was not.
    """
    metrics = body.get("metrics") if isinstance(body, dict) else None
    if not isinstance(metrics, dict) or None not in metrics.values():
        return body
    read = {name: math.nan if value is None else value for name, value in metrics.items()}
    return {**body, "metrics": read}
