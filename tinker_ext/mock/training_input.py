"""Training requests as the engine wants them: arrays, read from JSON or protobuf bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import orjson

from tinker_ext.mock.encoding import decoded
from tinker_ext.mock.messages import JSON, PROTOBUF, HttpError, Request

Array = npt.NDArray[Any]


class BadInput(Exception):
    """The data of a request cannot be trained on; the text says why and where."""


@attrs.frozen
class Example:
    """One datum: the tokens of its model input and its loss inputs."""

    tokens: npt.NDArray[np.int64]
    inputs: Mapping[str, Array]


@attrs.frozen
class Batch:
    """The content of one forward or forward_backward request."""

    examples: Sequence[Example]
    loss_fn: str
    config: Mapping[str, float | str]
    forward_only: bool = False

    @property
    def token_count(self) -> int:
        """Return the number of input tokens, for the bill."""
        return sum(len(example.tokens) for example in self.examples)


def from_json(value: Mapping[str, Any], *, forward_only: bool) -> Batch:
    """Read a ForwardBackwardInput."""
    return Batch(
        [_example_json(i, datum) for i, datum in enumerate(value["data"])],
        value["loss_fn"],
        value.get("loss_fn_config") or {},
        forward_only,
    )


def _example_json(index: int, datum: Mapping[str, Any]) -> Example:
    inputs = {
        name: _tensor_json(f"data[{index}].loss_fn_inputs.{name}", tensor)
        for name, tensor in datum.get("loss_fn_inputs", {}).items()
    }
    return Example(model_input_tokens(datum["model_input"]), inputs)


def model_input_tokens(value: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """Return the token ids of a ModelInput; pictures and sounds become stand-in tokens."""
    parts = [_chunk_json(chunk) for chunk in value["chunks"]]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _chunk_json(chunk: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    tokens = chunk.get("tokens")
    if isinstance(tokens, list):
        return np.asarray(tokens, dtype=np.int64)
    content = str(chunk.get("data") or chunk.get("location") or chunk.get("dmel") or "")
    count = chunk.get("expected_tokens") or tokens or 1
    return stand_ins(content.encode(), int(count))


def stand_ins(content: bytes, count: int) -> npt.NDArray[np.int64]:
    """Return byte tokens that depend on the content, so that other media read differently."""
    digest = hashlib.blake2b(content, digest_size=32).digest()
    return np.resize(np.frombuffer(digest, dtype=np.uint8), count).astype(np.int64)


def _tensor_json(where: str, tensor: Mapping[str, Any]) -> Array:
    dtype = np.int64 if tensor["dtype"] == "int64" else np.float32
    values = np.asarray(tensor["data"], dtype=dtype)
    shape = tensor.get("shape")
    crow, col = tensor.get("sparse_crow_indices"), tensor.get("sparse_col_indices")
    if crow is not None and col is not None:
        return _densify(where, values, np.asarray(crow), np.asarray(col), shape or ())
    return _shaped(where, values, shape)


def _shaped(where: str, values: Array, shape: Sequence[int] | None) -> Array:
    if not shape:
        return values
    try:
        return values.reshape([int(n) for n in shape])
    except ValueError:
        raise BadInput(f"{where}: {values.size} values do not fill shape {list(shape)}") from None


def _densify(where: str, values: Array, crow: Array, col: Array, shape: Sequence[int]) -> Array:
    if len(shape) != 2 or len(crow) != shape[0] + 1 or len(col) != len(values):
        raise BadInput(f"{where}: inconsistent sparse CSR tensor of shape {list(shape)}")
    counts = np.diff(crow)
    if (counts < 0).any() or crow[0] != 0 or crow[-1] != len(values):
        raise BadInput(f"{where}: crow_indices must rise from 0 to {len(values)}")
    if len(col) and (col.min() < 0 or col.max() >= shape[1]):
        raise BadInput(f"{where}: col_indices outside 0…{shape[1] - 1}")
    dense = np.zeros([int(n) for n in shape], dtype=values.dtype)
    dense[np.repeat(np.arange(int(shape[0])), counts), col] = values
    return dense


def from_proto(body: bytes) -> tuple[str, int | None, Batch]:
    """Read a ForwardBackwardRequest.

    Returns:
        Model id, seq_id (None for the wire's 0) and the batch.

    Raises:
        BadInput: The bytes are no such message, or its tensors are inconsistent.
    """
    from google.protobuf.message import DecodeError
    from tinker_proto import tinker_pb2 as pb

    try:
        message = pb.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise BadInput(f"not a ForwardBackwardRequest: {error}") from None
    config: dict[str, float | str] = dict(message.loss_fn_config)
    for name, value in message.loss_fn_config_v2.items():
        config[name] = value.text if value.WhichOneof("value") == "text" else value.number
    examples = [_example_proto(pb, i, datum) for i, datum in enumerate(message.data)]
    batch = Batch(examples, message.loss_fn, config, message.forward_only)
    return message.model_id, message.seq_id or None, batch


def _example_proto(pb: Any, index: int, datum: Any) -> Example:
    parts = []
    for chunk in datum.model_input:
        kind = chunk.WhichOneof("chunk")
        if kind == "encoded_text":
            parts.append(_array(f"data[{index}].model_input", chunk.encoded_text.tokens, "<i4"))
        elif kind == "image":
            count = chunk.image.expected_tokens or 1
            parts.append(stand_ins(chunk.image.data, count))
        elif kind == "dmel":
            parts.append(stand_ins(chunk.dmel.dmel, 1))
    tokens = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
    inputs = {
        name: _tensor_proto(pb, f"data[{index}].loss_fn_inputs.{name}", tensor)
        for name, tensor in datum.loss_fn_inputs.items()
    }
    return Example(tokens, inputs)


def _array(where: str, data: bytes, dtype: str) -> Array:
    try:
        return np.frombuffer(data, dtype=dtype)
    except ValueError:
        raise BadInput(f"{where}: {len(data)} bytes are no whole number of {dtype}") from None


def _tensor_proto(pb: Any, where: str, tensor: Any) -> Array:
    dtypes = {pb.DTYPE_FLOAT32: "<f4", pb.DTYPE_INT64: "<i8", pb.DTYPE_INT32: "<i4"}
    dtype = dtypes.get(tensor.dtype)
    if dtype is None:
        raise BadInput(f"{where}: dtype {tensor.dtype} is not float32, int64 or int32")
    if tensor.WhichOneof("encoding") == "sparse_csr":
        sparse = tensor.sparse_csr
        return _densify(
            where,
            _array(where, sparse.values, dtype),
            _array(where, sparse.crow_indices, "<i8"),
            _array(where, sparse.col_indices, "<i8"),
            list(tensor.shape),
        )
    return _shaped(where, _array(where, tensor.dense, dtype), list(tensor.shape))


class TrainingBody:
    """What fault rules may ask about the body of a request, read only when one asks.

    Args:
        request: A request whose body may still be compressed.
    """

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def content_type(self) -> str:
        """Its media type; JSON where none is given."""
        return self._request.content_type or JSON

    def batch(self) -> str:
        """Return a fingerprint of the training data, the same on both wires."""
        batch = self._batch
        if batch is None:
            return hashlib.blake2b(self._request.body, digest_size=16).hexdigest()
        mark = hashlib.blake2b(batch.loss_fn.encode(), digest_size=16)
        for example in batch.examples:
            mark.update(example.tokens.astype(np.int64).tobytes() + b"\0")
            for name in sorted(example.inputs):
                mark.update(name.encode() + example.inputs[name].tobytes() + b"\0")
        return mark.hexdigest()

    def forward_only(self) -> bool:
        """Whether it is a protobuf body that asks for a forward pass only."""
        batch = self._batch if self.content_type == PROTOBUF else None
        return batch is not None and batch.forward_only

    @cached_property
    def _batch(self) -> Batch | None:
        try:
            body = decoded(self._request)
            if self.content_type == PROTOBUF:
                return from_proto(body)[2]
            value = orjson.loads(body)
            inner = value.get("forward_backward_input") or value.get("forward_input")
            return from_json(inner, forward_only="forward_input" in value)
        except (BadInput, HttpError, ValueError, TypeError, KeyError, AttributeError):
            return None
