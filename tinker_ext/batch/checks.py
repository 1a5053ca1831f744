"""Argument checks made at the call, before a byte is sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tinker_api.arguments import nearest

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.chunks import EncodedTextChunk
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import LOSS_FN_TYPES
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.records import check_type
from tinker_ext.types.tensor_data import TensorData

if TYPE_CHECKING:
    from tinker_ext._wire.json_codec import SampleOptions

_RL = ("target_tokens", "logprobs", "advantages")

REQUIRED_INPUTS: Mapping[str, tuple[str, ...]] = {
    "cross_entropy": ("target_tokens",),
    "importance_sampling": _RL,
    "ppo": _RL,
    "cispo": _RL,
    "dro": _RL,
    "gspo": _RL,
    "stable_reinforce": _RL,
    "custom": (),
}
"""Loss → inputs without which it cannot be computed (`weights` may always be absent)."""

_CLIPPING = ("clip_low_threshold", "clip_high_threshold")

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "cross_entropy": (),
    "importance_sampling": (),
    "ppo": _CLIPPING,
    "cispo": _CLIPPING,
    "dro": ("beta",),
    "gspo": _CLIPPING,
}
"""Loss → settings it reads, as far as they are published; others are passed on unchecked."""

# Loss inputs with one entry, or one row, per position of the model input.
_PER_POSITION = frozenset(tensors.LIST_DTYPES)

_UINT64 = np.dtype(np.uint64)  # made once: numpy takes longer to find it than to look for an id
_LARGEST_TOKEN = np.iinfo(np.int32).max  # tokens are int32 on the protobuf wire
_LARGEST_COUNT = np.iinfo(np.int64).max
_FEW = 1024  # values of which numpy finds the place of the maximum sooner than the maximum


def check_batch(
    data: Sequence[Datum],
    loss_fn: str,
    loss_fn_config: Mapping[str, float | str] | None = None,
    *,
    finite: bool = False,
) -> None:
    """Check the arguments of forward and forward_backward.

    Arrays that are still the caller's are copied first: what was checked is what is sent. NaN is
    refused; infinity, which JSON cannot carry, where all must be `finite`.
    """
    if not isinstance(loss_fn, str) or loss_fn not in LOSS_FN_TYPES:
        _check_unlisted(loss_fn)
    if loss_fn_config is not None:
        _check_config(loss_fn, loss_fn_config)
    if not isinstance(data, (list, tuple)):
        _check_list(data)
    if len(data) == 0:
        raise InvalidInputError("The batch is empty; pass at least one Datum.")
    required = REQUIRED_INPUTS.get(loss_fn, ())
    for index, datum in enumerate(data):
        if not isinstance(datum, Datum):
            raise InvalidInputError(f"data[{index}] is a {type(datum).__name__}, not a Datum.")
        inputs = datum.settle()
        for name in required:
            if name not in inputs:
                missing = [n for n in required if n not in inputs]
                raise InvalidInputError(
                    f"data[{index}]: {loss_fn} needs {', '.join(missing)} in loss_fn_inputs; "
                    f"given: {', '.join(sorted(inputs)) or 'nothing'}."
                )
        _check_datum(index, datum.model_input, inputs, finite)


def _check_unlisted(loss_fn: object) -> None:
    """Refuse a misspelt loss; other names are the server's matter, which may have its own."""
    near = nearest(str(loss_fn).lower(), LOSS_FN_TYPES)
    if near or not (isinstance(loss_fn, str) and loss_fn.isidentifier()):
        raise InvalidInputError(
            f"Unknown loss_fn {loss_fn!r}{near} Known: {', '.join(LOSS_FN_TYPES)}."
        )


def _check_list(data: Any) -> None:
    """Refuse what has no length and no order; a batch is read more than once."""
    kind = type(data).__name__
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        try:
            len(data)
        except TypeError:  # numpy's array of one number
            raise InvalidInputError(f"data must be a list of Datum, not {data!r:.50}.") from None
        return
    if isinstance(data, Datum):
        raise InvalidInputError("data must be a list of Datum, not one Datum; pass [datum].")
    if isinstance(data, Iterable):
        raise InvalidInputError(f"data must be a list of Datum, not a {kind}; pass list(data).")
    raise InvalidInputError(f"data must be a list of Datum, not {kind}.")


def _check_config(loss_fn: str, config: Mapping[str, float | str]) -> None:
    check_type("loss_fn_config", config, Mapping, "a dict of settings")
    for name, value in config.items():
        if not (isinstance(name, str) and name.isprintable()):
            raise InvalidInputError(f"loss_fn_config: a name is printable text, not {name!r}.")
        known = SETTINGS.get(loss_fn)
        if known is not None and name not in known:
            hint = f"Known: {', '.join(known)}." if known else f"{loss_fn} has no settings."
            raise InvalidInputError(
                f"loss_fn_config: {loss_fn} has no setting {name!r}, and servers train on with the "
                f"default. {hint}"
            )
        if isinstance(value, str):
            continue
        if not isinstance(value, (int, float, np.number)):
            raise InvalidInputError(
                f"loss_fn_config[{name!r}] must be a number or text, not {value!r}."
            )
        if not np.isfinite(value):
            raise InvalidInputError(f"loss_fn_config[{name!r}] is {value}; it must be finite.")


def _check_datum(
    index: int, model_input: ModelInput, inputs: Mapping[str, TensorData], finite: bool
) -> None:
    # Runs for every datum of every batch: names are put into words only for an error.
    length = check_tokens("data[{}].model_input", model_input, index)
    if length == 0:
        raise InvalidInputError(f"data[{index}].model_input is empty; there is nothing to train.")
    for name, value in inputs.items():
        if not (isinstance(name, str) and name.isprintable()):
            raise InvalidInputError(
                f"data[{index}].loss_fn_inputs: a name is printable text, not {name!r}."
            )
        if not isinstance(value, TensorData):
            raise InvalidInputError(
                f"data[{index}].loss_fn_inputs[{name!r}] is a {type(value).__name__}; "
                "assign a TensorData."
            )
        _check_tensor(index, name, value, length, finite)
    targets, weights = inputs.get("target_tokens"), inputs.get("weights")
    if targets is not None:
        _check_targets(index, targets, inputs)
        if weights is None or (
            targets.array.shape == weights.array.shape and targets.crow is weights.crow is None
        ):
            return
        if targets.full_shape != weights.full_shape:
            raise InvalidInputError(
                f"data[{index}]: weights have shape {list(weights.full_shape)}, "
                f"target_tokens have {list(targets.full_shape)}."
            )


def _check_tensor(
    index: int, name: str, tensor: TensorData, length: int | None, finite: bool
) -> None:
    values = tensor.array
    dims = values.shape if tensor.crow is None else tensor.full_shape
    if name in _PER_POSITION and length is not None and (not dims or dims[0] != length):
        raise InvalidInputError(
            f"{_place(index, name)} has shape {list(dims)} but model_input has {length} "
            "positions; there must be one entry for each."
        )
    if tensor.dtype == "float32" and values.size:
        if values.size <= _FEW:
            highest = values.item(values.argmax())  # a NaN if there is one
        else:  # to find its place numpy copies what is read-only
            highest = np.maximum.reduce(values, axis=None)
        if math.isnan(highest):
            at = int(values.argmax())
            raise InvalidInputError(f"{_place(index, name)} is NaN at position {at}.")
    if finite:
        tensors.check_finite(values, what=_place(index, name))


def _place(index: int, name: str) -> str:
    return f"data[{index}].loss_fn_inputs[{name!r}]"


def _check_targets(index: int, targets: TensorData, inputs: Mapping[str, TensorData]) -> None:
    values = targets.array
    if targets.dtype != "int64":
        raise InvalidInputError(f"data[{index}]: target_tokens must be int64, not {targets.dtype}.")
    if _is_within(values):
        return
    if values.max() > _LARGEST_TOKEN:
        raise InvalidInputError(
            f"data[{index}]: target token {values.max()} is above {_LARGEST_TOKEN}."
        )
    # A negative id is padding where its weight is 0; two-dimensional targets pad with it too.
    if values.ndim != 1 or values.min() >= 0:
        return
    scale = inputs.get("weights") or inputs.get("advantages")
    used = values < 0
    if scale is not None and not scale.is_sparse and scale.array.shape == values.shape:
        used &= scale.array != 0
    if used.any():
        at = int(np.flatnonzero(used)[0])
        raise InvalidInputError(
            f"data[{index}]: target token {values[at]} at position {at} is negative; "
            "give positions that do not count weight 0."
        )


def _is_within(values: npt.NDArray[np.int64]) -> bool:
    """Whether the wire carries all ids; read without a sign, a negative one is a large one."""
    values = values.view(_UINT64)
    # Its place, and from there a Python number: a quarter of the time of numpy's maximum.
    return not values.size or values.item(values.argmax()) <= _LARGEST_TOKEN


def check_tokens(where: str, model_input: ModelInput, *details: int) -> int | None:
    """Check that every text token is an id the wire can carry.

    Returns:
        Number of positions; None with an image whose length only the server knows.
    """
    length: int | None = 0
    for chunk in model_input.chunks:
        try:
            length = None if length is None else length + chunk.length
        except InvalidInputError:
            length = None
        if not isinstance(chunk, EncodedTextChunk) or chunk.is_small:
            continue
        low, high = int(chunk.ids.min()), int(chunk.ids.max())
        bad, name = low if low < 0 else high, where.format(*details)
        raise InvalidInputError(f"{name}: token {bad} is outside 0 … {_LARGEST_TOKEN}.")
    return length


def check_sample(prompt: ModelInput, num_samples: int, options: SampleOptions | None) -> None:
    """Check the arguments of sample.

    Called for every one of very many samples: each check costs the same for any prompt, but for
    the one pass over its tokens.
    """
    if not isinstance(prompt, ModelInput):
        raise InvalidInputError(
            f"prompt must be a ModelInput, not {type(prompt).__name__}; "
            "use ModelInput.from_ints(tokens)."
        )
    length = check_tokens("prompt", prompt)
    if length == 0:
        raise InvalidInputError("prompt is empty; pass at least one token.")
    check_count("num_samples", num_samples, least=1)
    if options is None:
        return
    for name in ("topk_prompt_logprobs", "topk_sample_logprobs", "prompt_alt_tokens_k"):
        check_count(name, getattr(options, name))
    if options.target_prompt_logprobs is not None:
        _check_target_rows(options.target_prompt_logprobs, length)
    if options.prompt_logprobs_last_n is not None:
        check_count("prompt_logprobs_last_n", options.prompt_logprobs_last_n, least=1)
        if not options.prompt_logprobs:
            raise InvalidInputError("prompt_logprobs_last_n needs include_prompt_logprobs=True.")


def _check_target_rows(targets: TensorData, length: int | None) -> None:
    check_type("target_prompt_logprobs", targets, TensorData, "a TensorData")
    targets.settle()
    dims = targets.full_shape
    if targets.dtype != "int64" or len(dims) != 2:
        raise InvalidInputError("target_prompt_logprobs must be int64 with two dimensions.")
    # Row i is about position i + 1: nothing comes before the first token that could predict it.
    if length is not None and dims[0] != length - 1:
        raise InvalidInputError(
            f"target_prompt_logprobs has {dims[0]} rows; a prompt of {length} positions needs "
            f"{length - 1}, one for every position after the first."
        )


def check_count(name: str, value: int, *, least: int = 0) -> None:
    """Check a number of things: an integer (numpy's too) from `least` to what 64 bits hold."""
    # A bool is an int to Python, but nobody means one sample by True.
    if type(value) is not int and (
        isinstance(value, bool) or not isinstance(value, (int, np.integer))
    ):
        raise InvalidInputError(f"{name} must be an integer, not {value!r}.")
    if value < least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value}.")
    if value > _LARGEST_COUNT:
        raise InvalidInputError(f"{name} must be at most {_LARGEST_COUNT}, got {value}.")
