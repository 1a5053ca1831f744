"""Conversion of lists, numpy arrays and torch tensors to the two wire dtypes, and back.

The wire knows int64 and float32 only. One table (`_KINDS`) says what becomes of every numpy
kind; torch is looked at only when the caller's process has imported it already.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
from tinker_api.arguments import nearest

from tinker_ext.errors import InvalidInputError, UnknownKeyError

Dtype = Literal["int64", "float32"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

LIST_DTYPES: Mapping[str, Dtype] = {
    "target_tokens": "int64",
    "weights": "float32",
    "advantages": "float32",
    "logprobs": "float32",
    "clip_low_threshold": "float32",
    "clip_high_threshold": "float32",
    "sequence_ratio_mask": "float32",
}
"""The dtype a plain list gets under each loss-input name (a list carries none of its own)."""

_INT64_DTYPE = np.dtype(np.int64)
_FLOAT32_DTYPE = np.dtype(np.float32)
WIRE_NAMES: Mapping[np.dtype[Any], Dtype] = {_INT64_DTYPE: "int64", _FLOAT32_DTYPE: "float32"}
"""The numpy dtypes that travel as they are, and their names."""

# numpy kind → wire dtype; a kind that is missing here is refused.
_KINDS: Mapping[str, Dtype] = {"i": "int64", "f": "float32"}

_FIXES: Mapping[str, str] = {
    "b": "convert it first, for example `array.astype(np.float32)` for a mask",
    "u": "convert it first, for example `array.astype(np.int64)`",
    "c": "pass the real part",
    "O": "make every row equally long and every value a number",
}

_INT64 = np.iinfo(np.int64)
_PLAIN = (int, float)


def wire_name(dtype: np.dtype[Any]) -> Dtype | None:
    """How the wire calls a dtype; None when no tensor may have it."""
    # Hashing a dtype takes longer than copying a short array, so the usual ones are compared.
    if dtype is _INT64_DTYPE:
        return "int64"
    if dtype is _FLOAT32_DTYPE:
        return "float32"
    return WIRE_NAMES.get(dtype)


def is_torch(value: object) -> bool:
    """Whether `value` is a torch tensor; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def list_dtype(key: str) -> Dtype:
    """The dtype of a plain list under the loss-input name `key`."""
    try:
        return LIST_DTYPES[key]
    except KeyError:
        known = ", ".join(sorted(LIST_DTYPES))
        hint = nearest(str(key), LIST_DTYPES) or "."
        raise UnknownKeyError(
            f"A plain list under {key!r} has no known dtype{hint} Known names: {known}. "
            "For another name pass a numpy array or a TensorData."
        ) from None


def to_array(
    value: object, dtype: Dtype | None = None, *, what: str = "tensor", keep: bool = False
) -> npt.NDArray[Any]:
    """Copy `value` into a C-contiguous array of int64 or float32.

    Args:
        value: List (nested lists included), tuple, range, numpy array or scalar, torch tensor,
            or anything with `__array__`; bool and unsigned values are refused.
        dtype: Wanted dtype; by default the one that fits the kind of `value`.
        what: How to call the value in an error.
        keep: Whether an array that can travel as it is may be viewed instead of copied; one that
            nobody can write to is never copied.

    Example:
        >>> to_array([1, 2]).dtype, to_array([0.5], "float32").dtype
        (dtype('int64'), dtype('float32'))
    """
    if dtype is not None and dtype not in DTYPES:
        raise InvalidInputError(f"{what}: dtype must be one of {', '.join(DTYPES)}, not {dtype!r}.")
    if dtype is not None and type(value) in (list, tuple):
        packed = pack(cast("Sequence[Any]", value), dtype)
        if packed is not None:
            return packed
    source = _source(value, what)
    own = wire_name(source.dtype)
    if own is not None and own == (dtype or own):
        if keep:
            return kept(source)
        # Nothing to convert, nothing can be out of range.
        return source if is_constant(source) else np.array(source, order="C")
    kind = source.dtype.kind
    if kind == "V" and source.dtype.name == "bfloat16":  # registered by ml_dtypes
        source, kind = source.astype(np.float32), "f"
    if source.size == 0 and not isinstance(value, np.ndarray) and not is_torch(value):
        kind = "f" if dtype == "float32" else "i"  # numpy calls an empty list float64
        source = source.astype(np.int64 if kind == "i" else np.float32)
    natural = _KINDS.get(kind)
    if natural is None:
        raise InvalidInputError(_refusal(source, kind, what))
    target = dtype or natural
    if target == "int64":
        return _to_int64(source, kind, what)
    with np.errstate(over="raise"):
        try:
            return np.array(source, dtype=np.float32, order="C")
        except FloatingPointError:
            wide = source[np.isfinite(source) & (np.abs(source) > np.finfo(np.float32).max)].flat[0]
            raise InvalidInputError(f"{what}: {wide} is outside the range of float32.") from None


def kept(source: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of an array that can travel as it is; a copy when its memory is in pieces.

    `frozen_copy` makes it independent of the caller's array, once it is to be sent.
    """
    if source.flags.carray:  # in one piece, aligned and writable: nearly every array
        view = source[...]
        view.setflags(False)  # type: ignore[call-arg]  # a name takes longer than the rest
        return view
    return frozen_copy(source)


def frozen_copy(source: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only copy of an array that can travel as it is; itself when nobody can write to it."""
    base = source.base
    # A view of an array that can be written to is what a datum keeps: nothing more to look at.
    if not (type(base) is np.ndarray and base.flags.writeable) and is_constant(source):
        return source
    made = source.copy() if type(source) is np.ndarray else np.array(source, order="C")
    made.setflags(False)  # type: ignore[call-arg]  # a name takes as long as the copy
    return made


def is_constant(source: npt.NDArray[Any]) -> bool:
    """Whether an array is read-only down to its memory: parts of replies are, for example."""
    flags = source.flags
    if flags.writeable or not (flags.c_contiguous and flags.aligned):
        return False
    if type(source) is not np.ndarray:
        return False
    base: object = source.base  # numpy's stubs know arrays only
    if isinstance(base, memoryview):
        base = base.obj
    if base is None or isinstance(base, bytes):
        return True
    return isinstance(base, np.ndarray) and is_constant(base)


def pack(values: Sequence[Any], dtype: Dtype) -> npt.NDArray[Any] | None:
    """A flat list of plain numbers, in half the time numpy takes.

    None when anything about the list is unusual: a look by numpy then decides, and finds the words
    for what is wrong.
    """
    if not values or type(values[0]) not in _PLAIN:  # a list of nothing but booleans is refused
        return None
    try:
        if dtype == "float32":
            packed = np.frombuffer(struct.pack(f"{len(values)}f", *values), np.float32)
            # struct makes what is too large infinite without a word.
            return packed if np.isfinite(packed).all() else None
        try:
            # Without a sign the array module reads numbers directly; a negative one overflows.
            unsigned = array("Q")
            unsigned.fromlist(values if type(values) is list else list(values))
            integers = np.frombuffer(unsigned, np.int64)
        except OverflowError:
            return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
    except (struct.error, OverflowError, TypeError, ValueError):
        return None
    return integers if integers.min() >= 0 else None  # 2**63 and more


def _source(value: object, what: str) -> npt.NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value
    if is_torch(value):
        return _torch_to_numpy(value)
    if isinstance(value, (str, bytes)) or value is None:
        raise InvalidInputError(f"{what}: expected numbers, got {type(value).__name__}.")
    try:
        made = np.array(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(f"{what}: {error}") from None
    if made.dtype.kind == "u" and not hasattr(value, "dtype"):
        # numpy reads a list of ints of 2**63 and above as uint64.
        most = int(made.max(initial=0))
        if most > _INT64.max:
            raise InvalidInputError(f"{what}: {most} is outside the range of int64.")
    return made


def _torch_to_numpy(tensor: Any) -> npt.NDArray[Any]:
    tensor = tensor.detach()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    tensor = tensor.cpu()
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4:
        tensor = tensor.float()  # numpy has no bfloat16 nor float8
    return cast("npt.NDArray[Any]", tensor.resolve_conj().resolve_neg().numpy())


def _to_int64(source: npt.NDArray[Any], kind: str, what: str) -> npt.NDArray[np.int64]:
    if kind == "f":
        whole = np.isfinite(source) & (np.floor(source) == source)
        fits = whole & (source >= float(_INT64.min)) & (source < -float(_INT64.min))
        if not fits.all():
            raise InvalidInputError(
                f"{what}: {source[~fits].flat[0]} is not a whole number that fits int64."
            )
    return np.array(source, dtype=np.int64, order="C")


def _refusal(source: npt.NDArray[Any], kind: str, what: str) -> str:
    if kind == "O" and all(isinstance(item, int) for item in source.flat):
        for number in source.flat:
            if not _INT64.min <= number <= _INT64.max:
                return f"{what}: {number} is outside the range of int64."
        kind = "u"  # all of them fit: what helps is the same
    fix = _FIXES.get(kind, "pass numbers")
    return f"{what}: {source.dtype} values cannot travel (only int64 and float32 can); {fix}."


def check_finite(array: npt.NDArray[Any], *, what: str = "tensor") -> None:
    """Refuse NaN and infinity, which JSON cannot carry (protobuf can)."""
    if array.dtype.kind != "f":
        return
    # A sum is finite only if all terms are; one pass without a mask covers the usual case.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):
            return
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InvalidInputError(
            f"{what}: value {array.flat[bad[0]]} at position {bad[0]} cannot travel as JSON."
        )


def to_torch(array: npt.NDArray[Any]) -> Any:
    """A torch tensor that owns a copy of `array`."""
    import torch

    return torch.from_numpy(np.array(array))
