"""Reduction of the metrics of several chunks to the metrics of the whole call.

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

logger = logging.getLogger(__name__)

Reducer: TypeAlias = Callable[[Sequence[float], Sequence[int]], float]

_64_BITS = 0xFFFF_FFFF_FFFF_FFFF


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    total = sum(weights)
    if total == 0:  # no outputs anywhere: all chunks count the same
        return sum(values) / len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total


def _sum(values: Sequence[float], _: Sequence[int]) -> float:
    return sum(values)


def _min(values: Sequence[float], _: Sequence[int]) -> float:
    return min(values)


def _max(values: Sequence[float], _: Sequence[int]) -> float:
    return max(values)


def _slack(values: Sequence[float], weights: Sequence[int]) -> float:
    return max(values) - _mean(values, weights)


def _hash_unordered(values: Sequence[float], _: Sequence[int]) -> float:
    # The hash of a tuple of ints does not depend on the process.
    return hash(tuple(sorted(int(value) for value in values)))


def _hash2(values: Sequence[float], _: Sequence[int]) -> float:
    return sum(int(value) & _64_BITS for value in values) & _64_BITS


REDUCERS: Mapping[str, Reducer] = {
    "mean": _mean,
    "sum": _sum,
    "min": _min,
    "max": _max,
    "slack": _slack,
    "hash_unordered": _hash_unordered,
    "hash2": _hash2,
}
"""Suffix → function of the values and the number of outputs of every chunk."""


def reduce_metrics(
    chunks: Sequence[Mapping[str, float]], weights: Sequence[int]
) -> dict[str, float]:
    """Reduce the metrics of all chunks.

    Args:
        chunks: Metrics of every chunk, in order.
        weights: Number of outputs of every chunk.

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
