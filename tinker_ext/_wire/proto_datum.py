"""One datum as protobuf: text and dense tensors are written around their arrays, without a copy.

Building messages copies every tensor three times (to bytes, into the message, into the result). A
datum of text chunks and dense tensors, the usual one, needs five small headers instead; everything
else goes through the generated messages. Tests hold both to the same bytes' meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tinker_proto import tinker_pb2 as pb

from tinker_ext._wire.images import declared_tokens
from tinker_ext._wire.payload import Part, varint
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types.chunks import DmelChunk, EncodedTextChunk, ImageChunk
from tinker_ext.types.datum import Datum, PromptProvenanceSpan
from tinker_ext.types.tensor_data import TensorData

_FLOAT32: Final = pb.DTYPE_FLOAT32
_INT64: Final = pb.DTYPE_INT64
_INT32_MAX: Final = 2**31 - 1

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
    place = len(parts)
    parts.append(b"")
    size = _write_plain(parts, datum)
    if size is None:
        del parts[place + 1 :]
        message = _message(datum)
        parts.append(message)
        size = len(message)
    parts[place] = head = _datum_head(size)
    return len(head) + size


def _write_plain(parts: list[Part], datum: Datum) -> int | None:
    """Append text chunks and dense tensors; None when the datum has anything else."""
    if datum.model_input_spans or datum.loss_fn_input_spans:
        return None
    size = 0
    for chunk in datum.model_input.chunks:
        if type(chunk) is not EncodedTextChunk:
            return None
        tokens = _tokens(chunk.ids)
        head = _text_head(tokens.nbytes)
        parts += (head, tokens.data)
        size += len(head) + tokens.nbytes
    for name, tensor in datum.loss_fn_inputs.items():
        if tensor.crow is not None:
            return None
        array = tensor.array
        head, after = _tensor_frame(name, array.nbytes, tensor.dtype, tensor.dims)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        parts += (head, array.data, after)
        size += len(head) + array.nbytes + len(after)
    return size


# Batches repeat a few shapes, so what stands around the arrays is made once for each.


@functools.lru_cache(maxsize=4096)
def _datum_head(size: int) -> bytes:
    return _REQUEST_DATA + varint(size)


@functools.lru_cache(maxsize=4096)
def _text_head(size: int) -> bytes:
    text = _TEXT_TOKENS + varint(size)
    chunk = _CHUNK_ENCODED_TEXT + varint(len(text) + size)
    return _DATUM_MODEL_INPUT + varint(len(chunk) + len(text) + size) + chunk + text


@functools.lru_cache(maxsize=4096)
def _tensor_frame(
    name: str, size: int, dtype: str, dims: tuple[int, ...] | None
) -> tuple[bytes, bytes]:
    """What stands before and after the values of a dense tensor."""
    before = _TENSOR_DENSE + varint(size)
    after = _TENSOR_DTYPE + varint(_FLOAT32 if dtype == "float32" else _INT64)
    if dims:
        written = b"".join(map(varint, dims))
        after += _TENSOR_SHAPE + varint(len(written)) + written
    key = name.encode()
    entry = (
        _ENTRY_KEY + varint(len(key)) + key + _ENTRY_VALUE + varint(len(before) + size + len(after))
    )
    length = len(entry) + len(before) + size + len(after)
    return _DATUM_LOSS_FN_INPUTS + varint(length) + entry + before, after


def _message(datum: Datum) -> bytes:
    message: Any = pb.Datum()
    for chunk in datum.model_input.chunks:
        out = message.model_input.add()
        if isinstance(chunk, EncodedTextChunk):
            out.encoded_text.tokens = _tokens(chunk.ids).tobytes()
        elif isinstance(chunk, ImageChunk):
            out.image.data = chunk.data
            out.image.format = str(chunk.format)
            tokens = declared_tokens(chunk)
            if tokens is not None:
                out.image.expected_tokens = tokens
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


def _tokens(ids: npt.NDArray[np.uint32 | np.int64]) -> npt.NDArray[np.uint32]:
    """The same bytes as int32."""
    if ids.dtype != np.uint32 or (ids.size and np.maximum.reduce(ids) > _INT32_MAX):
        raise InvalidInputError("A token id does not fit the wire: it must lie in 0 … 2³¹ - 1.")
    return ids  # type: ignore[return-value]  # a cast would be a call for each datum


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
