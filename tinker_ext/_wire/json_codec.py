"""The JSON wire: training and sampling bodies out, their results in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import attrs
import numpy as np
import numpy.typing as npt
import orjson

from tinker_ext import tensors
from tinker_ext._wire.dialect import Wire
from tinker_ext._wire.payload import Part, Payload, seal_json
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.chunks import (
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInputChunk,
    declared_tokens,
)
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import TensorDtype
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.sampling import (
    EMPTY_CELL,
    Decoded,
    PromptAltTokens,
    SampleResponse,
    SamplingParams,
    TopkLogprobs,
    decoded_response,
)
from tinker_ext.types.tensor_data import TensorData

_HEADERS = (("Content-Type", "application/json"),)
_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_NUMBERS = (int, float)
_NUMBER_BYTES = 9
"""What a token id, a target or a weight takes as text, roughly."""
_FLOAT32 = float(np.finfo(np.float32).max)


def dumps(body: Any, name: str = "The request") -> bytes:
    """Compact JSON; numpy arrays are written as they are.

    NaN and infinity become null without a word, and looking for them here would make every sample
    dearer: what a user gives is checked at the call, where it has no check of its own by
    `check_json`.

    Raises:
        InvalidInputError: Something in it has no JSON form.
    """
    try:
        return orjson.dumps(body, option=_NUMPY)
    except TypeError as error:
        raise InvalidInputError(f"{name} cannot be written as JSON: {error}.") from None


def check_json(name: str, value: Any) -> None:
    """Refuse a value of the user's that JSON cannot carry as it is; it is written to be looked at.

    Raises:
        InvalidInputError: It holds NaN, infinity, or an object without JSON form.
    """
    place = _not_finite(value, name) if b"null" in dumps(value, name) else None
    if place is not None:
        raise InvalidInputError(f"{place}, which JSON cannot carry.")


def _not_finite(value: Any, place: str) -> str | None:
    """Where in a value the first number is that is NaN or infinite, in words."""
    if isinstance(value, (float, np.floating)):
        return None if np.isfinite(value) else f"{place} is {value}"
    if isinstance(value, np.ndarray):
        finite = value.dtype.kind != "f" or np.isfinite(value).all()
        return None if finite else f"{place} holds NaN or infinity"
    if isinstance(value, Mapping):
        parts = ((f"{place}[{name!r}]", each) for name, each in value.items())
    elif isinstance(value, (list, tuple)):
        parts = ((f"{place}[{index}]", each) for index, each in enumerate(value))
    else:
        return None
    return next((found for name, each in parts if (found := _not_finite(each, name))), None)


def encode_forward(
    model_id: str,
    data: Sequence[Datum],
    loss_fn: str,
    loss_fn_config: Mapping[str, float | str] | None,
    *,
    forward_only: bool,
    later: bool = False,
    sized_images: bool | None = None,
) -> Payload:
    """Encode one chunk of forward or forward_backward."""
    inputs: dict[str, Any] = {
        "data": [_datum(datum, sized_images) for datum in data],
        "loss_fn": loss_fn,
    }
    if loss_fn_config is not None:
        inputs["loss_fn_config"] = dict(loss_fn_config)
    operation = "forward" if forward_only else "forward_backward"
    tree = {f"{operation}_input": inputs, "model_id": model_id}
    parts: Sequence[Part] | Callable[[], Sequence[Part]]
    if later:
        size = sum(map(_numbers, data)) * _NUMBER_BYTES
        parts, work = (lambda: (dumps(tree),)), size
    else:
        body = dumps(tree)
        parts, size, work = (body,), len(body), 0
    return Payload(operation, parts, seal_json, size, _HEADERS, Wire.JSON, work)


def _numbers(datum: Datum) -> int:
    texts = (chunk for chunk in datum.model_input.chunks if isinstance(chunk, EncodedTextChunk))
    given = datum.loss_fn_inputs.values()
    return sum(text.length for text in texts) + sum(tensor.array.size for tensor in given)


def _datum(datum: Datum, sized_images: bool | None) -> dict[str, Any]:
    return {
        "loss_fn_inputs": {
            name: tensor_json(tensor.to_dense()) for name, tensor in datum.loss_fn_inputs.items()
        },
        "model_input": model_input_json(datum.model_input, sized_images),
    }


def tensor_json(tensor: TensorData) -> dict[str, Any]:
    """The JSON form of a tensor, sparse indices included; later changes of arrays are not seen."""
    tensor.settle()
    array = tensor.array
    if tensor.dtype == "float32" and not np.isfinite(array).all():
        raise InvalidInputError(
            "A tensor holds NaN or infinity, which the JSON wire of this server cannot carry."
        )
    body: dict[str, Any] = {
        "data": array if array.ndim == 1 else np.ascontiguousarray(array).reshape(-1),
        "dtype": tensor.dtype,
    }
    if tensor.shape is not None:
        body["shape"] = tensor.shape
    if tensor.crow is not None:
        body["sparse_crow_indices"] = tensor.crow
        body["sparse_col_indices"] = tensor.col
    return body


def model_input_json(value: ModelInput, sized_images: bool | None = None) -> dict[str, Any]:
    """The JSON form of a model input.

    Servers of the first era want `sized_images`, those of the second none; None sends what the
    user set.
    """
    return {"chunks": [_chunk(chunk, sized_images) for chunk in value.chunks]}


def _chunk(chunk: ModelInputChunk, sized_images: bool | None) -> dict[str, Any]:
    if isinstance(chunk, EncodedTextChunk):
        return {"tokens": chunk.ids, "type": "encoded_text"}
    body = chunk.to_dict()
    if sized_images is not None and not isinstance(chunk, DmelChunk):
        others = {name: value for name, value in body.items() if name not in _IMAGE_NUMBERS}
        return others | _image_numbers(chunk, sized_images)
    return body


def json_form(value: Any) -> Any:
    """The value with every prompt, chunk, datum and tensor in it as JSON; all else as it is.

    So that the table of operations, which knows generated records and plain JSON, takes the types
    that users build as arguments.
    """
    if isinstance(value, ModelInput):
        return model_input_json(value)
    if isinstance(value, Datum):
        return _datum(value, None)
    if isinstance(value, TensorData):
        return tensor_json(value)
    if isinstance(value, get_args(ModelInputChunk)):
        return _chunk(value, None)
    if type(value) is dict:
        return {name: json_form(item) for name, item in value.items()}
    if type(value) in (list, tuple) and not (value and isinstance(value[0], _NUMBERS)):
        return [json_form(item) for item in value]
    return value


# -- samples ---------------------------------------------------------------------------------
#
# The body of asample is written without the generated model, since one is made for every sample. A
# test holds it equal to what the model of the document gives.


@attrs.frozen
class SampleOptions:
    """What a sample call asks for beside prompt and parameters; the default asks for nothing."""

    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: TensorData | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool = False


PLAIN = SampleOptions()
_OPTIONS = tuple(field.name for field in attrs.fields(SampleOptions))


def sample_body(
    address: Mapping[str, str],
    seq_id: int | None,
    prompt: ModelInput,
    num_samples: int,
    params: SamplingParams,
    options: SampleOptions = PLAIN,
    sized_images: bool | None = None,
) -> bytes:
    """Body of asample."""
    body: dict[str, Any] = {
        "num_samples": num_samples,
        "prompt": _prompt(prompt, sized_images),
        "sampling_params": _params(params),
        **address,
    }
    if seq_id is not None:
        body["seq_id"] = seq_id
    if options is not PLAIN:
        for name in _OPTIONS:
            value = getattr(options, name)
            if value:
                body[name] = value
        if options.prompt_logprobs is False:  # a wish of its own, where None is the default
            body["prompt_logprobs"] = False
        if options.target_prompt_logprobs is not None:
            body["target_prompt_logprobs"] = tensor_json(options.target_prompt_logprobs)
    body["type"] = "sample"
    return dumps(body)


_last: tuple[EncodedTextChunk | None, orjson.Fragment | None] = (None, None)


def _prompt(prompt: ModelInput, sized_images: bool | None) -> Any:
    """The prompt as JSON; one that is sampled from in several calls is written once."""
    global _last
    if len(prompt.chunks) == 1 and isinstance(chunk := prompt.chunks[0], EncodedTextChunk):
        last, written = _last
        if last is not chunk:  # most prompts do not come again
            _last = chunk, None
        else:  # and is what it was: nothing in a chunk changes
            if written is None:
                written = orjson.Fragment(dumps(model_input_json(prompt)))
                _last = chunk, written
            return written
    return model_input_json(prompt, sized_images)


_known: tuple[SamplingParams | None, dict[str, Any]] = (None, {})


def _params(params: SamplingParams) -> dict[str, Any]:
    """The parameters as JSON; a loop passes the same ones to thousands of samples."""
    global _known
    last, written = _known
    if last is not params:
        written = params.to_dict()
        # Nothing in it may change but what a list of stops holds, which is in both.
        if type(params) is SamplingParams:
            _known = params, written
    return written


# -- images ---------------------------------------------------------------------------------
#
# In the fields of each server era; strict servers of one refuse those of the other. The first wants
# height, width and the number of tokens, the second at most the expected number. What the user set
# is translated, and a missing size is read from the image itself.

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
# Start-of-frame markers hold the size; DHT, JPG and DAC share their range.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset(range(0xD0, 0xD8)) | {0x01}


_IMAGE_NUMBERS = frozenset({"expected_tokens", "height", "width", "tokens"})


def _image_numbers(chunk: ImageChunk | ImageAssetPointerChunk, sized: bool) -> dict[str, int]:
    """The numbers that describe an image to a server; `sized` ones are of the first era."""
    tokens = declared_tokens(chunk)
    if not sized:
        return {} if tokens is None else {"expected_tokens": tokens}
    height, width = chunk.height, chunk.width
    if (height is None or width is None) and isinstance(chunk, ImageChunk):
        found = pixel_size(chunk.data) or (height, width)
        height, width = height or found[0], width or found[1]
    fields = {"height": height, "width": width, "tokens": tokens}
    missing = [name for name, value in fields.items() if value is None]
    if missing:
        raise InvalidInputError(
            f"This server needs {', '.join(missing)} of every {type(chunk).__name__}; set "
            f"{'them' if len(missing) > 1 else 'it'} on the chunk."
        )
    return {name: value for name, value in fields.items() if value is not None}


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """Height and width from the header of a PNG or JPEG file; None when they are not there."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    if not data.startswith(_JPEG):
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:  # fill bytes, and markers without content
            at += 1 if marker == 0xFF else 2
        elif marker in _FRAMES:
            sizes = data[at + 5 : at + 9]
            return int.from_bytes(sizes[:2], "big"), int.from_bytes(sizes[2:], "big")
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


# -- results ---------------------------------------------------------------------------------


def decode_forward(body: Any) -> ForwardBackwardOutput:
    """Read the result of forward or forward_backward."""
    outputs = [
        {str(name): decode_tensor(value) for name, value in output.items()}
        for output in _list(body["loss_fn_outputs"])
    ]
    metrics = body.get("metrics")
    return ForwardBackwardOutput(
        loss_fn_output_type=_text(body["loss_fn_output_type"]),
        loss_fn_outputs=outputs,
        metrics={str(n): _number(v) for n, v in ({} if metrics is None else metrics).items()},
    )


def decode_tensor(body: Any) -> TensorData:
    """Read one tensor; a lie about dtype or shape is a ValueError."""
    dtype = body["dtype"]
    if dtype not in tensors.DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}")
    array = _array(body["data"], dtype)
    shape = _shape(body.get("shape"))
    if body.get("sparse_crow_indices") is not None:
        return TensorData(
            array, dtype, shape, body["sparse_crow_indices"], body["sparse_col_indices"]
        )
    return TensorData.adopt(array, shape)


def decode_sample(body: Any) -> SampleResponse:
    """Read a sample result of either era."""
    prompt = body.get("prompt_logprobs")
    alternatives = body.get("prompt_alt_tokens")
    target = body.get("target_prompt_logprobs")
    hits = body.get("prompt_cache_hit_tokens") or 0
    return decoded_response(
        [_sequence(sequence) for sequence in _list(body["sequences"])],
        None if prompt is None else _array(prompt, "float32"),
        _topk(body.get("topk_prompt_logprobs")),
        None if target is None else decode_tensor(target),
        _count(hits),
        None
        if alternatives is None
        else PromptAltTokens(
            decode_tensor(alternatives["tokens"]), decode_tensor(alternatives["logprobs"])
        ),
    )


def _sequence(body: Any) -> Decoded:
    logprobs = body.get("logprobs")
    tokens = _array(body["tokens"], "int64")
    values = None if logprobs is None else _array(logprobs, "float32")
    if values is not None and len(values) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens with {len(values)} logprobs")
    return (
        _text(body["stop_reason"]),
        _text(body.get("sequence_id") or ""),
        tokens,
        values,
        _topk(body.get("topk_logprobs") or body.get("topk_sampled_logprobs"), len(tokens)),
    )


def _topk(rows: Any, positions: int | None = None) -> TopkLogprobs | None:
    """Per position null or a list of [token id, logprob] → two (n, k) tables."""
    if not rows:
        return None
    if not isinstance(rows, list) or positions not in (None, len(rows)):
        raise ValueError(f"expected a list of {positions} rows of top-k logprobs")
    k = max((len(row) for row in rows if row), default=0)
    if k == 0:
        return None
    ids = np.zeros((len(rows), k), np.int64)
    values = np.full((len(rows), k), EMPTY_CELL, np.float32)
    for i, row in enumerate(rows):
        for j, (token, logprob) in enumerate(row or ()):
            if type(token) is not int or type(logprob) not in _NUMBERS or abs(logprob) > _FLOAT32:
                raise ValueError(f"expected [token id, logprob], got {[token, logprob]!r:.100}")
            ids[i, j], values[i, j] = token, logprob
    return TopkLogprobs(ids, values)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, got {type(value).__name__}")
    return value


def _array(values: Any, dtype: TensorDtype) -> npt.NDArray[Any]:
    """A flat list of numbers as an array; null among floats becomes NaN."""
    array = tensors.pack(_list(values), dtype)
    if array is None:
        found = np.array(values)
        kind = found.dtype.kind
        fits = kind == "i" or not found.size
        if dtype == "float32":
            nulls = kind == "O" and all(v is None or type(v) in _NUMBERS for v in values)
            fits = fits or kind == "f" or nulls
        if found.ndim != 1 or not fits:
            raise ValueError(f"expected a flat list of {dtype}, got {found.dtype} {found.shape}")
        with np.errstate(over="ignore"):
            array = found.astype(dtype)
        if dtype == "float32" and np.isinf(array).any():
            raise ValueError("a number does not fit float32")
    # True and false are taken for numbers where real ones stand beside them, and only where a
    # number is 0 or 1 can it have been one of them.
    if ((array == 0) | (array == 1)).any() and bool in set(map(type, values)):
        raise ValueError("expected a list of numbers, got true or false among them")
    return array


def _fit(value: Any, fits: bool, what: str) -> Any:
    """The value of a reply; ValueError unless it fits."""
    if not fits:
        raise ValueError(f"expected {what}, got {value!r:.100}")
    return value


def _shape(value: Any) -> Any:
    sizes = isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
    return _fit(value, value is None or sizes, "a shape")


def _count(value: Any) -> Any:
    return _fit(value, type(value) is int and value >= 0, "a count")


def _number(value: Any) -> float:
    return math.nan if value is None else _fit(value, type(value) in _NUMBERS, "a number")


def _text(value: Any) -> Any:
    return _fit(value, isinstance(value, str), "a string")
