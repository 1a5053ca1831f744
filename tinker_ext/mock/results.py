"""Outcomes of accepted requests and their two wire forms, JSON and protobuf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import orjson

EMPTY_CELL = (0, -99999.0)


class Result(Protocol):
    """What every outcome can do; `proto` is None where the wire has no binary form."""

    def json(self) -> Any:
        """Return the JSON value."""

    def proto(self) -> bytes | None:
        """Return the protobuf body."""

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""


@attrs.frozen
class Failure:
    """A request that was accepted and then failed.

    Attributes:
        message: What went wrong and what to do.
        category: `user`, `server` or `unknown`.
    """

    message: str
    category: str = "user"

    def json(self) -> dict[str, str]:
        """Return the RequestFailedResponse."""
        return {"error": self.message, "category": self.category}

    def proto(self) -> None:
        """Failures travel as JSON only."""

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""
        return {"form": "failure", "value": self.json()}


@attrs.frozen
class Refusal:
    """A request that was accepted and is refused with a status when it is polled.

    Attributes:
        status: Status of the poll.
        message: Its detail.
    """

    status: int
    message: str

    def json(self) -> dict[str, str]:
        """Return the body of the poll."""
        return {"detail": f"Failed to retrieve future: {self.message}"}

    def proto(self) -> None:
        """Refusals travel as JSON only."""

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""
        return {"form": "refusal", "value": {"status": self.status, "message": self.message}}


@attrs.frozen
class JsonResult:
    """A result with a JSON form only."""

    value: Mapping[str, Any]

    def json(self) -> Any:
        """Return the JSON value."""
        return self.value

    def proto(self) -> None:
        """There is no binary form."""

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""
        return {"form": "json", "value": dict(self.value)}


@attrs.frozen
class LossResult:
    """What forward and forward_backward give: arrays per datum, and metrics."""

    outputs: Sequence[Mapping[str, npt.NDArray[Any]]]
    metrics: Mapping[str, float]
    output_type: str = "ArrayRecord"

    def json(self) -> Any:
        """Return the ForwardBackwardOutput."""
        return {
            "loss_fn_output_type": self.output_type,
            "loss_fn_outputs": [
                {name: tensor_json(array) for name, array in output.items()}
                for output in self.outputs
            ],
            "metrics": dict(self.metrics),
        }

    def proto(self) -> bytes:
        """Return the ForwardBackwardOutput as protobuf."""
        from tinker_proto import tinker_pb2 as pb

        message = pb.ForwardBackwardOutput(loss_fn_output_type=self.output_type)
        record = message.loss_fn_outputs.add(
            type_tag=self.output_type, num_datums=len(self.outputs)
        )
        for name in self.outputs[0] if self.outputs else ():
            arrays = [np.ascontiguousarray(output[name]) for output in self.outputs]
            integer = np.issubdtype(arrays[0].dtype, np.integer)
            arrays = [array.astype(np.int64 if integer else np.float32) for array in arrays]
            offsets = np.cumsum([0] + [array.nbytes for array in arrays], dtype=np.int64)
            field = record.fields[name]
            field.data = b"".join(array.tobytes() for array in arrays)
            field.offsets = offsets.tobytes()
            field.dtype = pb.DTYPE_INT64 if integer else pb.DTYPE_FLOAT32
            field.trailing_shape.extend(arrays[0].shape[1:])
        for name, value in self.metrics.items():
            message.metrics[name] = value
        return bytes(message.SerializeToString(deterministic=True))

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps."""
        return {"form": "loss", "value": plain(self.json())}


@attrs.frozen
class Topk:
    """The k likeliest tokens per position; a row is None where there is no prediction."""

    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]

    def rows(self) -> list[list[list[float | int]] | None]:
        """Return `[[token, logprob], …]` per position, None for an empty row."""
        rows: list[list[list[float | int]] | None] = []
        for ids, values in zip(self.token_ids, self.logprobs, strict=True):
            cells = [
                [int(token), float(value)]
                for token, value in zip(ids, values, strict=True)
                if value > EMPTY_CELL[1]
            ]
            rows.append(cells or None)
        return rows

    def fill(self, message: Any) -> None:
        """Write into a TopkLogprobs message."""
        message.token_ids = self.token_ids.astype("<i4").tobytes()
        message.logprobs = self.logprobs.astype("<f4").tobytes()
        message.length, message.k = self.token_ids.shape


@attrs.frozen
class Generated:
    """One sampled sequence."""

    tokens: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32] | None
    stop_reason: str
    topk: Topk | None = None


@attrs.frozen
class SampleResult:
    """What asample gives.

    Attributes:
        prompt_logprobs: One per prompt token, NaN where it is missing.
        targets: Logprobs of the tokens asked for by `target_prompt_logprobs`.
        alternatives: Other tokens per position and their logprobs.
    """

    sequences: Sequence[Generated]
    prompt_logprobs: npt.NDArray[np.float32] | None = None
    topk_prompt: Topk | None = None
    targets: npt.NDArray[np.float32] | None = None
    alternatives: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None = None
    cache_hits: int = 0

    def json(self) -> Any:
        """Return the SampleResponse."""
        value: dict[str, Any] = {
            "type": "sample",
            "sequences": [_sequence_json(sequence) for sequence in self.sequences],
        }
        if self.prompt_logprobs is not None:
            value["prompt_logprobs"] = [
                None if np.isnan(p) else float(p) for p in self.prompt_logprobs
            ]
        if self.topk_prompt is not None:
            value["topk_prompt_logprobs"] = self.topk_prompt.rows()
        if self.targets is not None:
            value["target_prompt_logprobs"] = tensor_json(self.targets)
        if self.alternatives is not None:
            tokens, logprobs = self.alternatives
            value["prompt_alt_tokens"] = {
                "tokens": tensor_json(tokens),
                "logprobs": tensor_json(logprobs),
            }
        return value

    def proto(self) -> bytes:
        """Return the SampleResponse as protobuf."""
        from tinker_proto import tinker_pb2 as pb

        message = pb.SampleResponse(prompt_cache_hit_tokens=self.cache_hits)
        for sequence in self.sequences:
            item = message.sequences.add()
            item.stop_reason = (
                pb.STOP_REASON_STOP if sequence.stop_reason == "stop" else pb.STOP_REASON_LENGTH
            )
            item.tokens = sequence.tokens.astype("<i4").tobytes()
            if sequence.logprobs is not None:
                item.logprobs = sequence.logprobs.astype("<f4").tobytes()
            if sequence.topk is not None:
                sequence.topk.fill(item.topk_sampled_logprobs)
        if self.prompt_logprobs is not None:
            message.prompt_logprobs = self.prompt_logprobs.astype("<f4").tobytes()
        if self.topk_prompt is not None:
            self.topk_prompt.fill(message.topk_prompt_logprobs)
        if self.targets is not None:
            _fill_tensor(pb, message.target_prompt_logprobs, self.targets)
        if self.alternatives is not None:
            _fill_tensor(pb, message.prompt_alt_tokens.tokens, self.alternatives[0])
            _fill_tensor(pb, message.prompt_alt_tokens.logprobs, self.alternatives[1])
        return bytes(message.SerializeToString(deterministic=True))

    def to_record(self) -> dict[str, Any]:
        """Return what a snapshot keeps; samples do not survive a restart."""
        return {"form": "json", "value": plain(self.json())}


def _sequence_json(sequence: Generated) -> dict[str, Any]:
    value: dict[str, Any] = {"stop_reason": sequence.stop_reason, "tokens": sequence.tokens}
    if sequence.logprobs is not None:
        value["logprobs"] = sequence.logprobs
    if sequence.topk is not None:
        value["topk_logprobs"] = sequence.topk.rows()
    return value


def tensor_json(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Write an array as TensorData: flat data, dtype and shape."""
    integer = np.issubdtype(array.dtype, np.integer)
    flat = np.ascontiguousarray(array, dtype=np.int64 if integer else np.float32)
    return {
        "data": flat.reshape(-1),
        "dtype": "int64" if integer else "float32",
        "shape": list(array.shape),
    }


def _fill_tensor(pb: Any, message: Any, array: npt.NDArray[Any]) -> None:
    integer = np.issubdtype(array.dtype, np.integer)
    message.dense = np.ascontiguousarray(array, "<i8" if integer else "<f4").tobytes()
    message.dtype = pb.DTYPE_INT64 if integer else pb.DTYPE_FLOAT32
    message.shape.extend(array.shape)


def plain(value: Any) -> Any:
    """Turn arrays inside a JSON value into lists."""
    return orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def from_record(record: Mapping[str, Any]) -> Result | Failure:
    """Rebuild an outcome from a snapshot."""
    value = record["value"]
    if record["form"] == "failure":
        return Failure(value["error"], value["category"])
    if record["form"] == "refusal":
        return Refusal(value["status"], value["message"])
    if record["form"] == "json":
        return JsonResult(value)
    outputs = [
        {
            name: np.asarray(t["data"], dtype=t["dtype"]).reshape(t["shape"])
            for name, t in output.items()
        }
        for output in value["loss_fn_outputs"]
    ]
    return LossResult(outputs, value["metrics"], value["loss_fn_output_type"])
