"""What a future yields: the body of retrieve_future as the object users get, on either wire."""

from __future__ import annotations

import math
from typing import Any, Final

from tinker_api.models import (
    FutureMetadataOnly,
    RequestFailedResponse,
    TryAgainResponse,
    parse_future_retrieve_response,
)
from tinker_api.operations import Operation

from tinker_ext._wire import json_codec
from tinker_ext.types.checkpoints import SaveWeightsResponse

NotDone = TryAgainResponse | FutureMetadataOnly | RequestFailedResponse
"""Members of the union that are not a result."""

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
    """Read a protobuf body for a future of this operation.

    Raises:
        ValueError: It does not fit, or the operation has no protobuf form.
    """
    from tinker_ext._wire import proto_codec

    if op.result == "ForwardBackwardOutput":
        return proto_codec.decode_forward(content)
    if op.result == "SampleResponse":
        return proto_codec.decode_sample(content)
    raise ValueError(f"{op.result} came as protobuf")


def check_ids(record: Any) -> Any:
    """Return the record; one whose id is empty cannot be used, and is as good as unreadable.

    Raises:
        ValueError: An id is empty.
    """
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
