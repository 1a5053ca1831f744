"""`Datum`: one training example, and the spans that say where its tokens came from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Union

import attrs
import numpy as np

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError, WrongTypeError
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.tensor_data import TensorData

LossFnInputs: TypeAlias = dict[str, TensorData]

# Looked up once: batches have thousands of datums.
_ndarray, _INT64, _FLOAT32 = np.ndarray, np.dtype(np.int64), np.dtype(np.float32)

# Two-dimensional torch tensors under these names are mostly padding, so they are compressed.
_COMPRESSED = frozenset({"target_tokens", "weights"})


@attrs.frozen(kw_only=True)
class _Span:
    sequence_id: str
    offset: int = 0
    length: int

    def __attrs_post_init__(self) -> None:
        try:
            good = self.offset >= 0 and self.length >= 0 and isinstance(self.sequence_id, str)
            good = good and self.sequence_id != ""
        except TypeError:
            good = False
        if not good:
            raise InvalidInputError(
                f"a span needs the id of a sequence, and two numbers from 0 on: {self!r}."
            )


@attrs.frozen(kw_only=True)
class PromptProvenanceSpan(_Span):
    """`length` positions that were part of the prompt of a sampled sequence."""


@attrs.frozen(kw_only=True)
class SampledProvenanceSpan(_Span):
    """`length` positions that were sampled in sequence `sequence_id`."""


ProvenanceSpans: TypeAlias = list[Union[PromptProvenanceSpan, SampledProvenanceSpan]]  # noqa: UP007


def to_tensor(key: str, value: object) -> TensorData:
    """A loss input as TensorData; its name decides the dtype of a plain list."""
    if isinstance(value, TensorData):
        return value
    what = f"loss_fn_inputs[{key!r}]"
    if isinstance(value, ModelInput):
        value = np.array(value.to_ints(), dtype=np.int64)
    if tensors.is_torch(value):
        array = tensors.to_array(value, what=what, keep=True)
        if key in _COMPRESSED:
            return TensorData.compressed(array)
    elif isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        array = tensors.to_array(value, what=what, keep=True)
    else:
        array = tensors.to_array(value, tensors.list_dtype(key), what=what)
    return TensorData.adopt(array, array.shape)


def _spans(value: Any) -> ProvenanceSpans:
    try:
        spans = list(value)
    except TypeError:
        raise InvalidInputError(f"expected a list of spans, got {type(value).__name__}.") from None
    for span in spans:
        if not isinstance(span, (PromptProvenanceSpan, SampledProvenanceSpan)):
            raise WrongTypeError(
                "a span is a PromptProvenanceSpan or a SampledProvenanceSpan, not a "
                f"{type(span).__name__}."
            )
    return spans


class _Given:
    """The loss inputs of a datum as they were given, until somebody wants the tensors.

    Most datums are made, sent once and forgotten: `settle` then copies straight from the caller's
    arrays, and nothing is made that nobody reads.
    """

    __slots__ = ("_given",)
    _given: dict[Any, Any] | None


@attrs.frozen(init=False)
class Datum(_Given):
    """One training example: what the model reads and what the loss needs.

    `loss_fn_inputs` is copied, then stays a plain dict that may be assigned into. The arrays in it
    are kept until they are sent, see `TensorData`.

    Args:
        model_input: The input.
        loss_fn_inputs: Loss inputs by name: TensorData, torch tensor, numpy array or list. The
            dtype of a list comes from its name.
        model_input_spans: Where the input tokens came from; together with the next or not at all.
        loss_fn_input_spans: Where the target tokens came from.

    Raises:
        InvalidInputError: A value cannot be a tensor, or only one span list is given.

    Example:
        >>> datum = Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3]})
        >>> datum.loss_fn_inputs["target_tokens"].dtype
        'int64'
    """

    model_input: ModelInput
    loss_fn_inputs: LossFnInputs
    model_input_spans: ProvenanceSpans | None
    loss_fn_input_spans: ProvenanceSpans | None

    def __init__(
        self,
        model_input: ModelInput,
        loss_fn_inputs: Mapping[str, Any] = MappingProxyType({}),
        model_input_spans: ProvenanceSpans | None = None,
        loss_fn_input_spans: ProvenanceSpans | None = None,
    ) -> None:
        # By hand and through the slots: in half the time, and batches have thousands of them.
        if not isinstance(model_input, ModelInput):
            raise InvalidInputError(
                f"model_input: expected a ModelInput, got {type(model_input).__name__}; "
                "use ModelInput.from_ints(tokens)."
            )
        if type(loss_fn_inputs) is not dict and not isinstance(loss_fn_inputs, Mapping):
            raise InvalidInputError(
                f"loss_fn_inputs: expected a dict, got {type(loss_fn_inputs).__name__}."
            )
        inputs: dict[Any, Any] = {}
        kept = False
        for key, item in loss_fn_inputs.items():
            kind = type(item)
            if kind is TensorData:
                inputs[key] = item
            elif kind is _ndarray and (
                ((dtype := item.dtype) is _INT64 or dtype is _FLOAT32) and item.flags.carray
            ):
                inputs[key] = item  # it travels as it is: a tensor is made when one is wanted
                kept = True
            else:
                inputs[key] = to_tensor(key, item)
        _put_input(self, model_input)
        if kept:
            _put_given(self, inputs)
        else:
            _put_given(self, None)
            _put_inputs(self, inputs)
        _put_spans(self, None if model_input_spans is None else _spans(model_input_spans))
        _put_input_spans(self, None if loss_fn_input_spans is None else _spans(loss_fn_input_spans))
        if (model_input_spans is None) != (loss_fn_input_spans is None):
            raise InvalidInputError("Give both span lists or neither.")

    if not TYPE_CHECKING:  # a checker that saw this would let every attribute pass

        def __getattr__(self, name: str) -> Any:
            if name == "_given":  # pickled without it
                return None
            if name == "loss_fn_inputs":
                given = self._given
                if given is not None:
                    self._make(given)
                return _get_inputs(self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _make(self, given: dict[Any, Any], *, settled: bool = False) -> bool:
        """Make tensors of what was given; False when another thread was quicker."""
        take = TensorData.copied if settled else TensorData.keep
        made: LossFnInputs = {}
        for key, item in given.copy().items():
            if type(item) is _ndarray and (tensor := take(item)) is not None:
                made[key] = tensor
            elif key is not _MADE:
                made[key] = tensor = to_tensor(key, item)
                if settled:
                    tensor.settle()
        # Two threads may come here at once, and both are to have the same dict.
        inputs = given.setdefault(_MADE, made)
        _put_inputs(self, inputs)
        _put_given(self, None)
        return inputs is made

    def settle(self) -> LossFnInputs:
        """The loss inputs, once what is still the caller's memory is copied."""
        given = self._given
        if given is not None and self._make(given, settled=True):
            return self.loss_fn_inputs
        for tensor in self.loss_fn_inputs.values():
            if isinstance(tensor, TensorData):  # users assign what they like
                tensor.settle()
        return self.loss_fn_inputs

    def with_provenance(
        self, model_input: ProvenanceSpans, loss_fn_inputs: ProvenanceSpans
    ) -> Self:
        """A copy that says where its tokens came from.

        Args:
            model_input: Spans that cover the model input exactly.
            loss_fn_inputs: Spans that cover the one-dimensional `target_tokens` exactly.

        Raises:
            InvalidInputError: The lengths do not add up.
        """
        targets = self.loss_fn_inputs.get("target_tokens")
        if targets is None or targets.is_sparse or targets.array.ndim != 1:
            raise InvalidInputError("with_provenance needs one-dimensional target_tokens.")
        _check_cover("model_input", model_input, self.model_input.length)
        _check_cover("loss_fn_inputs", loss_fn_inputs, targets.array.size)
        return attrs.evolve(self, model_input_spans=model_input, loss_fn_input_spans=loss_fn_inputs)


_put_input, _put_inputs, _put_spans, _put_input_spans = (
    Datum.__dict__[field.name].__set__ for field in attrs.fields(Datum)
)
_get_inputs = Datum.__dict__["loss_fn_inputs"].__get__
_put_given = _Given.__dict__["_given"].__set__
_MADE = object()
"""Where a dict of given inputs has the tensors that were made of them."""


def _check_cover(what: str, spans: ProvenanceSpans, length: int) -> None:
    covered = sum(span.length for span in spans)
    if covered != length:
        raise InvalidInputError(
            f"with_provenance: the {what} spans cover {covered} of {length} positions."
        )
