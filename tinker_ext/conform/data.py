"""The little data the checks train on: token ids below 256, which every vocabulary has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinker_ext.types.datum import Datum
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.tensor_data import TensorData

LENGTH = 12
"""Positions of every datum: one shape, since some engines compile each shape for seconds."""

PROMPT = [33, 101, 58, 77, 120, 46]
"""Token ids every sampling check starts from."""


def tokens(number: int, count: int = LENGTH + 1) -> list[int]:
    """A fixed sequence of ids in 20…219, another one for each number."""
    return [20 + (37 * number + 53 * i + 11 * i * i * (number % 5 + 1)) % 200 for i in range(count)]


def datum(
    number: int,
    weights: Sequence[float] | float | None = 1.0,
    **inputs: Sequence[float],
) -> Datum:
    """Next-token data of one sequence.

    Args:
        number: Which sequence.
        weights: One weight per position, one for all, or None to send none.
        **inputs: Other loss inputs, one number per position.
    """
    ids = tokens(number)
    fields: dict[str, Any] = {"target_tokens": TensorData.from_numpy(np.asarray(ids[1:], np.int64))}
    if weights is not None:
        values = np.broadcast_to(np.asarray(weights, np.float32), (LENGTH,)).copy()
        fields["weights"] = TensorData.from_numpy(values)
    for name, given in inputs.items():
        fields[name] = TensorData.from_numpy(np.asarray(given, np.float32))
    return Datum(ModelInput.from_ints(ids[:-1]), fields)


def scored(prompt: Sequence[int], continuation: Sequence[int]) -> Datum:
    """Data whose forward pass gives the log-probability of every token after the first."""
    ids = [*prompt, *continuation]
    return Datum(
        ModelInput.from_ints(ids[:-1]),
        {
            "target_tokens": TensorData.from_numpy(np.asarray(ids[1:], np.int64)),
            "weights": TensorData.from_numpy(np.ones(len(ids) - 1, np.float32)),
        },
    )


def datum_json(number: int, *, tagged: bool) -> dict[str, Any]:
    """The same data as JSON: with every tag and shape, or with none as first-era clients do."""
    ids = tokens(number)
    chunk: dict[str, Any] = {"tokens": ids[:-1]}
    targets: dict[str, Any] = {"data": ids[1:], "dtype": "int64"}
    weights: dict[str, Any] = {"data": [1.0] * LENGTH, "dtype": "float32"}
    if tagged:
        chunk["type"] = "encoded_text"
        targets["shape"] = weights["shape"] = [LENGTH]
    return {
        "model_input": {"chunks": [chunk]},
        "loss_fn_inputs": {"target_tokens": targets, "weights": weights},
    }
