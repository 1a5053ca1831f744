"""Readers of results and replies: the name of a record → the object users get."""

from __future__ import annotations

import math
from typing import Any, Final

import attrs

from tinker_ext._wire import json_codec
from tinker_ext._wire.json_codec import text
from tinker_ext.types.checkpoints import SaveWeightsForSamplerResponse, SaveWeightsResponse

_REQUIRED_TEXT: Final = {
    "CreateModelResponse": ("model_id",),
    "CreateSessionResponse": ("session_id",),
    "CreateSamplingSessionResponse": ("sampling_session_id",),
    "CreateCustomLossResponse": ("loss_id",),
    "GetSamplerResponse": ("sampler_id", "base_model"),
    "WeightsInfoResponse": ("base_model",),
    "CopyWeightsResponse": ("tinker_path",),
    "UnloadModelResponse": ("model_id",),
}


@attrs.define
class RecordDecoder:
    """Reads a record that is only ever JSON."""

    name: str

    def from_json(self, body: Any) -> Any:
        """Build the record; ValueError, KeyError or TypeError when it does not fit."""
        if not isinstance(body, dict):
            raise ValueError(f"expected an object, got {type(body).__name__}")
        for key in _REQUIRED_TEXT.get(self.name, ()):
            if not text(body[key]):
                raise ValueError(f"{key} is empty")
        if self.name == "SaveWeightsResponse":
            return SaveWeightsResponse(path=text(body["path"]), type=body.get("type"))
        if self.name == "SaveWeightsForSamplerResponse":
            return SaveWeightsForSamplerResponse(path=text(body["path"]), type=body.get("type"))
        if self.name == "OptimStepResponse":
            body = _with_nan(body)
        from tinker_api import models

        return getattr(models, self.name).from_dict(body)

    def from_proto(self, content: bytes) -> Any:
        """Refuse: this record has no protobuf form."""
        raise ValueError(f"{self.name} came as protobuf")


def _with_nan(body: dict[str, Any]) -> dict[str, Any]:
    """The body with NaN for every metric that is null.

    JSON encoders write null for a number that is not finite. The document knows no such metric,
    but the step it tells about was taken: an error here would say that it was not.
    """
    metrics = body.get("metrics")
    if not isinstance(metrics, dict) or None not in metrics.values():
        return body
    read = {name: math.nan if value is None else value for name, value in metrics.items()}
    return {**body, "metrics": read}


@attrs.define
class ForwardDecoder:
    """Reads ForwardBackwardOutput from either wire."""

    name: str = "ForwardBackwardOutput"

    def from_json(self, body: Any) -> Any:
        """Read JSON."""
        return json_codec.decode_forward(body)

    def from_proto(self, content: bytes) -> Any:
        """Read protobuf."""
        from tinker_ext._wire import proto_codec

        return proto_codec.decode_forward(content)


@attrs.define
class SampleDecoder:
    """Reads SampleResponse from either wire."""

    name: str = "SampleResponse"

    def from_json(self, body: Any) -> Any:
        """Read JSON."""
        return json_codec.decode_sample(body)

    def from_proto(self, content: bytes) -> Any:
        """Read protobuf."""
        from tinker_ext._wire import proto_codec

        return proto_codec.decode_sample(content)


_BINARY: Final[dict[str, ForwardDecoder | SampleDecoder]] = {
    "ForwardBackwardOutput": ForwardDecoder(),
    "SampleResponse": SampleDecoder(),
}
_records: dict[str, RecordDecoder] = {}


def decoder(name: str) -> RecordDecoder | ForwardDecoder | SampleDecoder:
    """The reader of a record."""
    found = _BINARY.get(name)
    if found is not None:
        return found
    return _records.setdefault(name, RecordDecoder(name))


def is_binary(name: str | None) -> bool:
    """Whether the record may come as protobuf."""
    return name in _BINARY
