"""`Datum`: one training example, and the spans that say where its tokens came from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self, TypeAlias, Union

import attrs
import numpy as np

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError, WrongTypeError
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.tensor_data import TensorData

LossFnInputs: TypeAlias = dict[str, TensorData]

_keep, _ndarray = TensorData.keep, np.ndarray  # looked up once: batches have thousands of datums

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
    """A loss input as TensorData.

    Args:
        key: Name of the loss input; decides the dtype of a plain list.
        value: TensorData, torch tensor, numpy array, nested list, or ModelInput.

    Raises:
        UnknownKeyError: A plain list under a name that is not known.
        InvalidInputError: The values cannot travel.
    """
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


def _inputs(value: Mapping[str, Any]) -> LossFnInputs:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidInputError(f"loss_fn_inputs: expected a dict, got {type(value).__name__}.")
    made: LossFnInputs = {}
    for key, item in value.items():  # a comprehension would be one more call for each datum
        kind = type(item)
        if kind is TensorData:
            made[key] = item
        else:
            made[key] = (_keep(item) if kind is _ndarray else None) or to_tensor(key, item)
    return made


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


@attrs.frozen(init=False)
class Datum:
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
        _put_input(self, model_input)
        _put_inputs(self, _inputs(loss_fn_inputs))
        _put_spans(self, None if model_input_spans is None else _spans(model_input_spans))
        _put_input_spans(self, None if loss_fn_input_spans is None else _spans(loss_fn_input_spans))
        if (model_input_spans is None) != (loss_fn_input_spans is None):
            raise InvalidInputError("Give both span lists or neither.")

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


def _check_cover(what: str, spans: ProvenanceSpans, length: int) -> None:
    covered = sum(span.length for span in spans)
    if covered != length:
        raise InvalidInputError(
            f"with_provenance: the {what} spans cover {covered} of {length} positions."
        )
