"""Joining the results of the chunks of one call, and reducing their metrics.

A metric is called `name:suffix` and the suffix says how it is reduced; `REDUCERS` is the table.
Two cases are not in it:

- A suffix that is not in the table is dropped: without its rule any number would be a guess.
- A name without a suffix is kept like `unique`: the first chunk keeps the name, later chunks add
  `name_1`, `name_2` …, so that nothing is lost, nothing is made up and the run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tinker_ext.errors import APIResponseValidationError, ReplyParts
from tinker_ext.types.datum import Datum
from tinker_ext.types.outputs import ForwardBackwardOutput

logger = logging.getLogger(__name__)

Reducer: TypeAlias = Callable[[Sequence[float], Sequence[int]], float]

_64_BITS = 0xFFFF_FFFF_FFFF_FFFF


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    total = sum(weights)
    if total == 0:  # no outputs anywhere: all chunks count the same
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total


REDUCERS: Mapping[str, Reducer] = {
    "mean": _mean,
    "sum": lambda values, _: sum(values[1:], values[0]),  # from 0 on, -0.0 would lose its sign
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "slack": lambda values, weights: max(values) - _mean(values, weights),
    # The hash of a tuple of ints does not depend on the process.
    "hash_unordered": lambda values, _: hash(tuple(sorted(map(int, values)))),
    "hash2": lambda values, _: sum(int(value) & _64_BITS for value in values) & _64_BITS,
}
"""Suffix → function of the values and the number of outputs of every chunk."""


def reduce_metrics(
    chunks: Sequence[Mapping[str, float]], weights: Sequence[int]
) -> dict[str, float]:
    """Reduce the metrics of all chunks.

    Returns:
        Metrics under the names of the first chunk; a name that another chunk lacks is left out.

    Example:
        >>> reduce_metrics([{"loss:sum": 1.0}, {"loss:sum": 2.0}], [1, 3])
        {'loss:sum': 3.0}
    """
    if not chunks:
        return {}
    reduced: dict[str, float] = {}
    for key in chunks[0]:
        if not all(key in chunk for chunk in chunks):
            continue
        values = [chunk[key] for chunk in chunks]
        _, colon, suffix = key.rpartition(":")
        if not colon or suffix == "unique":
            reduced[key] = values[0]
            reduced.update({f"{key}_{i}": value for i, value in enumerate(values[1:], start=1)})
            continue
        reducer = REDUCERS.get(suffix)
        if reducer is None:
            logger.debug("metric %s has an unknown suffix and is dropped", key)
            continue
        try:
            reduced[key] = reducer(values, weights)
        except (ValueError, OverflowError):  # a hash of a NaN or an infinity
            logger.debug("metric %s has no integer value and is dropped", key)
    return reduced


SELECTORS = ("weights", "mask", "advantages")
"""Loss inputs that leave a position out where they are 0, in the order they are looked for."""


def trained_positions(data: Sequence[Datum]) -> int:
    """How many positions of a batch take part in its loss."""
    total = 0
    for datum in data:
        inputs = datum.loss_fn_inputs
        for name in SELECTORS:
            if name in inputs:
                tensor = inputs[name]
                values = tensor.array if tensor.crow is None else tensor.to_numpy()
                # Several targets a position (distillation): it counts once.
                rows = values if values.ndim < 2 else values.reshape(len(values), -1).any(axis=1)
                total += int(np.count_nonzero(rows))
                break
        else:
            total += datum.model_input.length
    return total


def merge(
    outputs: Sequence[ForwardBackwardOutput],
    counts: Sequence[int] | None = None,
    trained: int | None = None,
) -> ForwardBackwardOutput:
    """One result for the whole call, as if the batch had not been cut.

    A single chunk goes the same way as many, so that metrics do not change their names with the
    size of the batch. No results make an empty one, as in the official SDK. With `counts`, a
    result for more or fewer datums than a chunk had is an error.
    """
    if not outputs:
        return ForwardBackwardOutput(loss_fn_output_type="", loss_fn_outputs=[])
    for output, count in zip(outputs, counts or (), strict=counts is not None):
        if len(output.loss_fn_outputs) != count:
            raise APIResponseValidationError(
                ReplyParts(200, {}, b"", None),
                None,
                f"The server gave {len(output.loss_fn_outputs)} outputs for {count} datums.",
            )
    return ForwardBackwardOutput(
        loss_fn_output_type=outputs[0].loss_fn_output_type,
        loss_fn_outputs=[item for output in outputs for item in output.loss_fn_outputs],
        metrics=reduce_metrics(
            [output.metrics for output in outputs],
            [len(output.loss_fn_outputs) for output in outputs],
        ),
        trained=trained,
    )
