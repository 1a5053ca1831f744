"""The records that go into and come out of the engine, and the checks on what goes in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from tinker_ext.mock.engine.tiles import Array


def _tokens(value: Any) -> Array:
    return np.ascontiguousarray(value, dtype=np.int64).reshape(-1)


@attrs.frozen(eq=False)
class Datum:
    """One training sequence.

    ``tokens`` are the input ids (use `media_tokens` for images and audio); ``inputs`` maps the
    names of loss_fn_inputs to arrays. ``target_tokens`` is (n,) or (n, k), the rest follows it.
    """

    tokens: Array = attrs.field(converter=_tokens)
    inputs: Mapping[str, Array] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Outputs:
    """Result of a forward pass: one map per datum (logprobs, elementwise_loss) and metrics."""

    loss_fn_outputs: list[dict[str, Array]]
    metrics: dict[str, float]

    @property
    def loss(self) -> float:
        """The summed loss, ``metrics["loss:sum"]``."""
        return self.metrics["loss:sum"]


def check_tokens(tokens: Array, vocab_size: int, what: str) -> None:
    """Raises ValueError unless every id lies in the vocabulary."""
    if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size):
        bad = tokens[(tokens < 0) | (tokens >= vocab_size)][0]
        raise ValueError(f"{what}: token {int(bad)} is outside the vocabulary of {vocab_size}")


def targets_of(datum: Datum, index: int, vocab_size: int) -> Array:
    """The checked target ids of a datum, as (n, k).

    Raises:
        ValueError: no targets, a length that differs from the input, or an unknown id.
    """
    if datum.tokens.size == 0:
        raise ValueError(f"data[{index}].model_input has no tokens")
    check_tokens(datum.tokens, vocab_size, f"data[{index}].model_input")
    if "target_tokens" not in datum.inputs:
        known = ", ".join(sorted(datum.inputs)) or "nothing"
        raise ValueError(f"data[{index}].loss_fn_inputs has no target_tokens (it has {known})")
    targets = np.asarray(datum.inputs["target_tokens"], dtype=np.int64)
    if targets.ndim not in (1, 2) or len(targets) != len(datum.tokens):
        raise ValueError(
            f"data[{index}].loss_fn_inputs.target_tokens has shape {tuple(targets.shape)}; "
            f"the input has {len(datum.tokens)} tokens"
        )
    check_tokens(targets, vocab_size, f"data[{index}].loss_fn_inputs.target_tokens")
    return targets.reshape(len(targets), -1)


def media_tokens(content: bytes, count: int, vocab_size: int) -> Array:
    """Stand-in ids for an image or audio chunk: equal content, equal ids."""
    seed = int.from_bytes(hashlib.sha256(content).digest()[:8], "little")
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.integers(0, vocab_size, size=max(0, count), dtype=np.int64)


def csr_to_dense(
    values: Array, crow_indices: Array, col_indices: Array, shape: tuple[int, int], fill: float = 0
) -> Array:
    """A sparse CSR matrix as a dense one; cells not listed hold ``fill``."""
    crow = np.asarray(crow_indices, dtype=np.int64)
    counts: Array = crow[1:] - crow[:-1]
    dense = np.full(shape, fill, dtype=np.asarray(values).dtype)
    rows = np.repeat(np.arange(shape[0]), counts)
    dense[rows, np.asarray(col_indices, dtype=np.int64)] = values
    return dense
