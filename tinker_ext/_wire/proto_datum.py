"""One datum as protobuf: text and dense tensors are written around their arrays, without a copy.

Building messages copies every tensor three times (to bytes, into the message, into the result). A
datum of text chunks and dense tensors, the usual one, needs five small headers instead; everything
else goes through the generated messages. Tests hold both to the same bytes' meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tinker_proto import tinker_pb2 as pb

from tinker_ext._wire.payload import Part, varint
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types.chunks import DmelChunk, EncodedTextChunk, ImageChunk
from tinker_ext.types.datum import Datum, PromptProvenanceSpan
from tinker_ext.types.tensor_data import TensorData

_FLOAT32: Final = pb.DTYPE_FLOAT32
_INT64: Final = pb.DTYPE_INT64
_INT32_MAX: Final = 2**31 - 1

LARGE_BYTES: Final = 8192

# Tags: field number << 3 | 2 (length-delimited) or | 0 (varint); numbers as in tinker.proto.
_REQUEST_DATA: Final = b"\x1a"
_DATUM_MODEL_INPUT: Final = b"\x0a"
_DATUM_LOSS_FN_INPUTS: Final = b"\x12"
_CHUNK_ENCODED_TEXT: Final = b"\x0a"
_TEXT_TOKENS: Final = b"\x0a"
_ENTRY_KEY: Final = b"\x0a"
_ENTRY_VALUE: Final = b"\x12"
_TENSOR_DENSE: Final = b"\x0a"
_TENSOR_DTYPE: Final = b"\x18"
_TENSOR_SHAPE: Final = b"\x22"


def write_datum(parts: list[Part], datum: Datum) -> int:
    """Append a datum to the parts of a request.

    Returns:
        How many bytes were appended.

    Raises:
        InvalidInputError: A token id does not fit.
        FeatureMissingError: The wire has no form for one of its chunks.
    """
    if not (_is_large(datum) and _is_plain(datum)):
        message = _message(datum)
        head = _REQUEST_DATA + varint(len(message))
        parts += (head, message)
        return len(head) + len(message)
    place = len(parts)
    parts.append(b"")
    size = 0
    for chunk in datum.model_input.chunks:
        assert isinstance(chunk, EncodedTextChunk)
        size += _write_text(parts, chunk.array)
    for name, tensor in datum.loss_fn_inputs.items():
        size += _write_tensor(parts, name, tensor)
    head = _REQUEST_DATA + varint(size)
    parts[place] = head
    return len(head) + size


def _is_large(datum: Datum) -> bool:
    """Whether copies cost more than the headers written by hand: from about 1,000 tokens on."""
    return any(tensor.array.nbytes >= LARGE_BYTES for tensor in datum.loss_fn_inputs.values())


def _is_plain(datum: Datum) -> bool:
    return (
        not datum.model_input_spans
        and not datum.loss_fn_input_spans
        and all(type(chunk) is EncodedTextChunk for chunk in datum.model_input.chunks)
        and all(tensor.crow is None for tensor in datum.loss_fn_inputs.values())
    )


def _write_text(parts: list[Part], tokens: npt.NDArray[np.int64]) -> int:
    array = _tokens(tokens)
    text = _TEXT_TOKENS + varint(array.nbytes)
    chunk = _CHUNK_ENCODED_TEXT + varint(len(text) + array.nbytes)
    length = len(chunk) + len(text) + array.nbytes
    head = _DATUM_MODEL_INPUT + varint(length) + chunk + text
    parts += (head, array.data)
    return len(head) + array.nbytes


def _write_tensor(parts: list[Part], name: str, tensor: TensorData) -> int:
    array = tensor.array
    size = array.nbytes
    before = _TENSOR_DENSE + varint(size)
    after = _TENSOR_DTYPE + varint(_FLOAT32 if tensor.dtype == "float32" else _INT64)
    if tensor.shape:
        dims = b"".join(map(varint, tensor.shape))
        after += _TENSOR_SHAPE + varint(len(dims)) + dims
    key = name.encode()
    entry = (
        _ENTRY_KEY + varint(len(key)) + key + _ENTRY_VALUE + varint(len(before) + size + len(after))
    )
    length = len(entry) + len(before) + size + len(after)
    head = _DATUM_LOSS_FN_INPUTS + varint(length) + entry + before
    parts += (head, np.ascontiguousarray(array).data, after)
    return len(head) + size + len(after)


def _message(datum: Datum) -> bytes:
    message: Any = pb.Datum()
    for chunk in datum.model_input.chunks:
        out = message.model_input.add()
        if isinstance(chunk, EncodedTextChunk):
            out.encoded_text.tokens = _tokens(chunk.array).tobytes()
        elif isinstance(chunk, ImageChunk):
            out.image.data = chunk.data
            out.image.format = str(chunk.format)
            if chunk.expected_tokens is not None:
                out.image.expected_tokens = chunk.expected_tokens
        elif isinstance(chunk, DmelChunk):
            out.dmel.dmel = chunk.dmel
        else:
            raise FeatureMissingError("image_asset_pointer chunks in training")
    inputs = message.loss_fn_inputs
    for name, tensor in datum.loss_fn_inputs.items():
        _tensor(inputs[name], tensor)
    _spans(message.model_input_spans, datum.model_input_spans)
    _spans(message.loss_fn_input_spans, datum.loss_fn_input_spans)
    content: bytes = message.SerializeToString()
    return content


def _tokens(array: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    if array.size and (array.max() > _INT32_MAX or array.min() < 0):
        raise InvalidInputError("A token id does not fit the wire: it must lie in 0 … 2³¹ - 1.")
    return array.astype("<i4")


def _tensor(message: Any, tensor: TensorData) -> None:
    if tensor.crow is None or tensor.col is None:
        message.dense = tensor.array.tobytes()
    else:
        message.sparse_csr.values = tensor.array.tobytes()
        message.sparse_csr.crow_indices = tensor.crow.tobytes()
        message.sparse_csr.col_indices = tensor.col.tobytes()
    message.dtype = _FLOAT32 if tensor.dtype == "float32" else _INT64
    if tensor.shape is not None:
        message.shape.extend(tensor.shape)


def _spans(message: Any, spans: Iterable[Any] | None) -> None:
    for span in spans or ():
        out = message.add()
        prompt = isinstance(span, PromptProvenanceSpan)
        target = out.prompt_tokens if prompt else out.sampled_tokens
        target.sequence_id = span.sequence_id
        target.offset = span.offset
        target.length = span.length
