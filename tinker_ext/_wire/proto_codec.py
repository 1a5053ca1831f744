"""The protobuf wire: training bodies out, training and sampling results in."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from tinker_proto import tinker_pb2 as pb

from tinker_ext._wire.dialect import Wire
from tinker_ext._wire.payload import Part, Payload, seal_proto, seal_proto_zstd, varint
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types.chunks import DmelChunk, EncodedTextChunk, ImageChunk, declared_tokens
from tinker_ext.types.datum import Datum, PromptProvenanceSpan
from tinker_ext.types.enums import StopReason, TensorDtype
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.sampling import (
    Decoded,
    PromptAltTokens,
    SampleResponse,
    TopkLogprobs,
    decoded_response,
)
from tinker_ext.types.tensor_data import TensorData

CONTENT_TYPE: Final = "application/x-protobuf"

_HEADERS: Final = (("Content-Type", CONTENT_TYPE),)
_ZSTD_HEADERS: Final = (*_HEADERS, ("Content-Encoding", "zstd"))

# Made once: numpy takes longer to read the name of a dtype than to make a view.
_F4, _I4, _I8 = np.dtype("<f4"), np.dtype("<i4"), np.dtype("<i8")

_FLOAT32: Final = pb.DTYPE_FLOAT32
_INT32: Final = pb.DTYPE_INT32
_INT64: Final = pb.DTYPE_INT64
_NAMELESS_DATUMS: Final = 1 << 16
"""A few bytes may announce so many outputs without content; more would only fill memory."""


def encode_forward(
    model_id: str,
    data: Sequence[Datum],
    loss_fn: str,
    loss_fn_config: Mapping[str, float | str] | None,
    *,
    forward_only: bool,
    zstd: bool = False,
) -> Payload:
    """Encode one chunk of forward or forward_backward."""
    request = pb.ForwardBackwardRequest(
        model_id=model_id, loss_fn=loss_fn, forward_only=forward_only
    )
    for name, value in (loss_fn_config or {}).items():
        if isinstance(value, str):
            request.loss_fn_config_v2[name].text = value
        else:
            request.loss_fn_config[name] = value
            request.loss_fn_config_v2[name].number = value
    parts: list[Part] = [request.SerializeToString()]
    size = len(parts[0])
    for datum in data:
        size += write_datum(parts, datum)
    seal, headers = (seal_proto_zstd, _ZSTD_HEADERS) if zstd else (seal_proto, _HEADERS)
    work = size if zstd else 0
    return Payload("forward_backward", parts, seal, size, headers, Wire.PROTO, work)


# -- one datum -------------------------------------------------------------------------------
#
# Building messages copies every tensor three times (to bytes, into the message, into the result). A
# datum of text chunks and dense tensors, the usual one, is written around its arrays instead, with
# five small headers; everything else goes through the generated messages. Tests hold both to the
# same bytes' meaning.

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
    """Append a datum to the parts of a request; tells how many bytes that were.

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
        tokens = _tokens(chunk)
        length = tokens.nbytes
        head = _text_head(length)
        parts += (head, tokens)
        size += len(head) + length
    for name, tensor in datum.loss_fn_inputs.items():
        if tensor.crow is not None:
            return None
        values = tensor.array.data
        if not values.c_contiguous:
            values = np.ascontiguousarray(tensor.array).data
        length = values.nbytes
        head, after = _tensor_frame(name, length, tensor.dtype, tensor.dims)
        parts += (head, values, after)
        size += len(head) + length + len(after)
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
            out.encoded_text.tokens = _tokens(chunk).tobytes()
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


def _tokens(chunk: EncodedTextChunk) -> memoryview:
    """The ids; their bytes are the same as int32."""
    if not chunk.is_small:
        raise InvalidInputError("A token id does not fit the wire: it must lie in 0 … 2³¹ - 1.")
    return chunk.buffer


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


# -- results ---------------------------------------------------------------------------------


def parse(kind: Any, content: bytes) -> Any:
    """Parse protobuf bytes; garbage is a ValueError."""
    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise ValueError(f"not a {kind.DESCRIPTOR.name}: {error}") from None


def decode_forward(content: bytes) -> ForwardBackwardOutput:
    """Read the result of forward or forward_backward."""
    aside: list[memoryview] | None = None
    if len(content) >= _LARGE_BYTES:
        aside = []
        content = _set_aside(memoryview(content), _DATA, aside)
    message = parse(pb.ForwardBackwardOutput, content)
    outputs: list[dict[str, TensorData]] = []
    for record in message.loss_fn_outputs:
        outputs.extend(_record(record, aside))
    if not message.loss_fn_output_type.isprintable():
        # The sequences of a SampleResponse stand in the same field and parse as text.
        raise ValueError("not a ForwardBackwardOutput: its first field is not a name")
    kind = message.loss_fn_output_type.rsplit(":", 1)[-1]
    return ForwardBackwardOutput(
        loss_fn_output_type=kind or ("" if outputs else "ArrayRecord"),
        loss_fn_outputs=outputs,
        metrics=dict(message.metrics),
    )


_LARGE_BYTES: Final = 64 * 1024
"""From here on copying the values of a result takes longer than finding them."""
_DATA: Final = (2, 2, 2, 1)
"""Fields that lead to the values: loss_fn_outputs, fields, the value of an entry, data."""


def _set_aside(message: memoryview, path: tuple[int, ...], aside: list[memoryview]) -> bytes:
    """A copy of a message that has a number in place of the bytes at the end of a path.

    Those bytes are nearly all of a result, and the protobuf runtime copies them twice. Here they
    stay where they arrived: `aside` takes them, and eight bytes with their index there replace
    them. What is not a message is a ValueError.
    """
    out: list[Part] = []
    at, end = 0, len(message)
    while at < end:
        begin = at
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 2:
            body = at
            size, at = _varint(message, at)
            inside, at = message[at : at + size], at + size
            if tag >> 3 == path[0]:
                if len(path) == 1:
                    new = len(aside).to_bytes(8, "little")
                    aside.append(inside)
                else:
                    new = _set_aside(inside, path[1:], aside)
                out += (message[begin:body], varint(len(new)), new)
                begin = at
        elif kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"not a protobuf message: wire type {kind}")
        if at > end:
            raise ValueError("not a protobuf message: it ends too early")
        if begin < at:
            out.append(message[begin:at])
    return b"".join(out)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("not a protobuf message: a number does not end")


def _record(record: Any, aside: list[memoryview] | None) -> list[dict[str, TensorData]]:
    names = list(record.fields)
    columns = [_slices(record.fields[name], aside) for name in names]
    count = record.num_datums or (len(columns[0]) if columns else 0)
    for name, column in zip(names, columns, strict=True):
        if len(column) != count:
            raise ValueError(f"{name}: {len(column)} tensors for {count} datums")
    if not columns:
        if count > _NAMELESS_DATUMS:
            raise ValueError(f"{count} datums without a tensor")
        return [{} for _ in range(count)]
    if len(names) == 1:  # nearly always: logprobs
        (name,) = names
        return [{name: tensor} for tensor in columns[0]]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _slices(batched: Any, aside: list[memoryview] | None) -> list[TensorData]:
    raw: Part = batched.data
    dtype = batched.dtype
    if aside is not None and raw:
        raw = aside[int.from_bytes(raw, "little")]
    if len(batched.offsets) % 8:
        raise ValueError("offsets are not int64")
    offsets = np.frombuffer(batched.offsets, _I8)
    trailing = tuple(batched.trailing_shape)
    if any(n < 0 for n in trailing):
        raise ValueError(f"trailing shape {trailing}")
    width = _WIDTHS.get(dtype)
    if width is None:
        raise ValueError(f"unknown dtype {dtype}")
    step = width * math.prod(trailing)
    if offsets.size == 0:
        return []
    places: list[int] = offsets.tolist()
    if places[0] < 0 or places[-1] > len(raw):
        raise ValueError("offsets do not lie within the data")
    if step and math.gcd(step, *places) != step:
        raise ValueError("offsets do not fall on rows")
    values = _values(raw, dtype)
    values.setflags(write=False)
    name: TensorDtype = "int64" if values.dtype.kind == "i" else "float32"
    make = TensorData.constant
    tensors = []
    for start, end in itertools.pairwise(places):
        if end < start:
            raise ValueError("offsets do not rise")
        part = values[start // width : end // width]
        if trailing:
            part = part.reshape(-1 if step else 0, *trailing)
        tensors.append(make(part, name, part.shape))
    return tensors


_WIDTHS: Final[Mapping[int, int]] = {
    _FLOAT32: 4,
    _INT64: 8,
    _INT32: 4,
    pb.DTYPE_BFLOAT16: 2,
}


def _values(raw: Part, dtype: int) -> npt.NDArray[Any]:
    """A view over the bytes; narrower types are widened."""
    width = _WIDTHS.get(dtype)
    if width is None:
        raise ValueError(f"unknown dtype {dtype}")
    if len(raw) % width:
        raise ValueError(f"{len(raw)} bytes are no whole number of values")
    if dtype == _FLOAT32:
        return np.frombuffer(raw, _F4)
    if dtype == _INT64:
        return np.frombuffer(raw, _I8)
    if dtype == _INT32:
        return np.frombuffer(raw, _I4).astype(_I8)
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)


def _full_tensor(message: Any) -> TensorData:
    shape = list(message.shape) or None
    if message.HasField("sparse_csr"):
        csr = message.sparse_csr
        return TensorData(
            _values(csr.values, message.dtype),
            shape=shape,
            sparse_crow_indices=_values(csr.crow_indices, _INT64),
            sparse_col_indices=_values(csr.col_indices, _INT64),
        )
    return TensorData.adopt(_values(message.dense, message.dtype), shape)


_STOP_REASONS: Final[Mapping[int, StopReason]] = {
    pb.STOP_REASON_STOP: "stop",
    pb.STOP_REASON_LENGTH: "length",
}


def decode_sample(content: bytes) -> SampleResponse:
    """Read a sample result."""
    message = parse(pb.SampleResponse, content)
    has, sequences = message.HasField, message.sequences
    return decoded_response(
        # By index: to a loop the runtime says by an error, made anew each time, that it is over.
        [_sequence(sequences[at]) for at in range(len(sequences))],
        _values(message.prompt_logprobs, _FLOAT32) if has("prompt_logprobs") else None,
        _topk(message.topk_prompt_logprobs) if has("topk_prompt_logprobs") else None,
        _full_tensor(message.target_prompt_logprobs) if has("target_prompt_logprobs") else None,
        message.prompt_cache_hit_tokens,
        PromptAltTokens(
            _full_tensor(message.prompt_alt_tokens.tokens),
            _full_tensor(message.prompt_alt_tokens.logprobs),
        )
        if has("prompt_alt_tokens")
        else None,
    )


def _sequence(message: Any) -> Decoded:
    reason = _STOP_REASONS.get(message.stop_reason)
    if reason is None:
        raise ValueError(f"unknown stop reason {message.stop_reason}")
    tokens, given = _values(message.tokens, _INT32), message.logprobs
    logprobs = _values(given, _FLOAT32) if given else None
    if logprobs is not None and len(logprobs) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens with {len(logprobs)} logprobs")
    return (
        reason,
        "",
        tokens,
        logprobs,
        _topk(message.topk_sampled_logprobs, len(tokens))
        if message.HasField("topk_sampled_logprobs")
        else None,
    )


def _topk(message: Any, positions: int | None = None) -> TopkLogprobs | None:
    n, k = message.length, message.k
    if n == 0 or k == 0:
        return None
    if positions not in (None, n):
        raise ValueError(f"{n} rows of top-k logprobs for {positions} tokens")
    ids = _values(message.token_ids, _INT32)
    values = _values(message.logprobs, _FLOAT32)
    if ids.size != n * k or values.size != n * k:
        raise ValueError(f"a {n} × {k} table with {ids.size} ids and {values.size} logprobs")
    return TopkLogprobs(ids.reshape(n, k), values.reshape(n, k))
