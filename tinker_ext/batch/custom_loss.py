"""Custom losses: the steps between the forward and the backward request, without the requests.

A loss is a function of per-token log-probabilities. Its gradient g with respect to them is
computed here; the backward request then asks the server for the linear loss −Σ weight · logprob
with weight = −g, which has the same gradient with respect to the model.

The caller runs: `forward_data` → forward request → `evaluate` → `backward_data` →
forward_backward request with cross_entropy → `with_custom_loss`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.datum import Datum
from tinker_ext.types.outputs import ForwardBackwardOutput
from tinker_ext.types.tensor_data import TensorData

Backend: TypeAlias = Literal["auto", "torch", "numpy"]
CustomLossFn: TypeAlias = Callable[[list[Datum], list[Any]], tuple[Any, ...]]
"""(data, logprobs per datum) → (loss, metrics) with torch, (loss, metrics, gradients) without."""

LOSS = "loss:sum"
SURROGATE = "surrogate_loss:sum"


@attrs.frozen
class Evaluation:
    """What a custom loss gave: its value, and its derivative by the logprobs of every datum."""

    loss: float
    metrics: dict[str, float]
    gradients: list[npt.NDArray[np.float32]]


def forward_data(data: Sequence[Datum]) -> list[Datum]:
    """The batch for the forward request: targets and weights only.

    Other inputs mean nothing to the linear loss, and a server may refuse names it does not know.
    """
    return [_linear(datum, datum.loss_fn_inputs.get("weights"), i) for i, datum in enumerate(data)]


def backward_data(
    data: Sequence[Datum], gradients: Sequence[npt.NDArray[np.float32]]
) -> list[Datum]:
    """The batch for the backward request: the original targets with weights = −gradient."""
    pairs = zip(data, gradients, strict=True)
    return [
        _linear(datum, TensorData.adopt(-gradient, gradient.shape), i)
        for i, (datum, gradient) in enumerate(pairs)
    ]


def _linear(datum: Datum, weights: TensorData | None, index: int) -> Datum:
    targets = datum.loss_fn_inputs.get("target_tokens")
    if targets is None:
        raise InvalidInputError(f"A custom loss needs target_tokens; datum {index} lacks them.")
    if weights is None:
        zeros = np.zeros(targets.full_shape, dtype=np.float32)
        weights = TensorData.adopt(zeros, zeros.shape)
    return attrs.evolve(datum, loss_fn_inputs={"target_tokens": targets, "weights": weights})


def evaluate(
    loss_fn: CustomLossFn,
    data: Sequence[Datum],
    forward: ForwardBackwardOutput,
    *,
    backend: Backend = "auto",
) -> Evaluation:
    """Call the user's function on the logprobs of a forward result and get its gradient.

    With torch it gets tensors that require a gradient and returns (loss, metrics). With numpy it
    gets arrays and returns (loss, metrics, gradients), one gradient per datum in the shape of its
    logprobs. Three values are understood with torch too.
    """
    logprobs = _logprobs(data, forward)
    if backend == "auto":
        spec = importlib.util.find_spec("torch")
        # A bare directory of that name (a namespace package) is not the library.
        backend = "torch" if spec is not None and spec.origin is not None else "numpy"
    if backend == "torch":
        return _with_torch(loss_fn, list(data), logprobs)
    returned = loss_fn(list(data), [values.copy() for values in logprobs])
    if not isinstance(returned, tuple) or len(returned) != 3:
        raise InvalidInputError(
            "Without torch a custom loss must return (loss, metrics, gradients): one gradient "
            "array per datum. Install tinker-ext[torch] to have gradients computed for you."
        )
    return _with_gradients(returned, logprobs)


def _logprobs(
    data: Sequence[Datum], forward: ForwardBackwardOutput
) -> list[npt.NDArray[np.float32]]:
    if len(forward.loss_fn_outputs) != len(data):
        raise InvalidInputError(
            f"The forward result has {len(forward.loss_fn_outputs)} outputs for {len(data)} datums."
        )
    arrays = []
    for index, (datum, output) in enumerate(zip(data, forward.loss_fn_outputs, strict=True)):
        if "logprobs" not in output:
            raise InvalidInputError(f"The forward result of datum {index} has no logprobs.")
        values = tensors.to_array(output["logprobs"].to_numpy(), "float32", what="logprobs")
        targets = datum.loss_fn_inputs.get("target_tokens")
        shape = values.shape if targets is None else targets.full_shape
        if values.size != int(np.prod(shape)):
            raise InvalidInputError(
                f"The forward result of datum {index} has {values.size} logprobs "
                f"for target_tokens of shape {list(shape)}."
            )
        arrays.append(values.reshape(shape))
    return arrays


def _with_torch(
    loss_fn: CustomLossFn, data: list[Datum], logprobs: list[npt.NDArray[np.float32]]
) -> Evaluation:
    import torch

    leaves = [torch.from_numpy(values.copy()).requires_grad_(True) for values in logprobs]
    with torch.enable_grad():
        returned = loss_fn(data, leaves)
        if isinstance(returned, tuple) and len(returned) == 3:
            return _with_gradients(returned, logprobs)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise InvalidInputError("A custom loss must return (loss, metrics).")
        loss, metrics = returned
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise InvalidInputError(
                "A custom loss must return a torch scalar as its loss, got "
                f"{_describe(loss)}; sum it or take the mean."
            )
        if not loss.requires_grad:
            raise InvalidInputError(
                "The custom loss does not depend on the logprobs it was given (was a value "
                "detached or turned into a number?), so there is nothing to train."
            )
        found = torch.autograd.grad(loss.reshape(()), leaves, allow_unused=True)
    gradients = [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]
    return _with_gradients((loss, metrics, gradients), logprobs)


def _with_gradients(
    returned: tuple[Any, ...], logprobs: list[npt.NDArray[np.float32]]
) -> Evaluation:
    loss, metrics, gradients = returned
    value = _number("loss", loss)
    if not np.isfinite(value):
        raise InvalidInputError(f"The custom loss is {value}; nothing was sent.")
    gradients = list(gradients)
    if len(gradients) != len(logprobs):
        raise InvalidInputError(
            f"The custom loss returned {len(gradients)} gradients for {len(logprobs)} datums."
        )
    arrays = []
    for index, (gradient, values) in enumerate(zip(gradients, logprobs, strict=True)):
        array = tensors.to_array(gradient, "float32", what=f"gradient of datum {index}")
        if array.shape != values.shape:
            raise InvalidInputError(
                f"The gradient of datum {index} has shape {list(array.shape)}, "
                f"its logprobs have {list(values.shape)}."
            )
        if not np.isfinite(array).all():
            raise InvalidInputError(
                f"The gradient of datum {index} is not finite; nothing was sent."
            )
        arrays.append(array)
    told = {name: _number(f"metric {name!r}", each) for name, each in (metrics or {}).items()}
    return Evaluation(value, told, arrays)


def _number(what: str, value: Any) -> float:
    try:
        return float(value.detach() if tensors.is_torch(value) else value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInputError(
            f"The {what} of a custom loss must be one number, got {_describe(value)}."
        ) from None


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    return name if shape is None else f"{name} of shape {list(shape)}"


def with_custom_loss(
    output: ForwardBackwardOutput, evaluation: Evaluation
) -> ForwardBackwardOutput:
    """The result of the backward request with the metrics of the custom loss.

    `loss:sum` is the custom loss; what the server reported for the linear loss is kept as
    `surrogate_loss:sum`. A server that reports no metrics is fine.
    """
    metrics = dict(output.metrics)
    if LOSS in metrics:
        metrics[SURROGATE] = metrics[LOSS]
    metrics.update(evaluation.metrics)
    metrics[LOSS] = evaluation.loss
    return attrs.evolve(output, metrics=metrics)
