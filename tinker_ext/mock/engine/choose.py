"""Choosing the next token: temperature, top-k, top-p and the draw."""

from __future__ import annotations

import numpy as np

from tinker_ext.mock.engine.tiles import Array


def log_softmax(logits: Array) -> Array:
    """Log-probabilities of logits (rows, vocabulary)."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    out: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return out


def top(logprobs: Array, k: int) -> tuple[Array, Array]:
    """The k best (ids int64, logprobs float32) of each row, best first."""
    k = min(k, logprobs.shape[-1])
    # Twice as many candidates as asked for: an argsort of a whole large vocabulary is slow.
    some = min(2 * k, logprobs.shape[-1])
    candidates = np.sort(np.argpartition(-logprobs, some - 1, axis=-1)[..., :some], axis=-1)
    values = np.take_along_axis(logprobs, candidates, axis=-1)
    order = np.argsort(-values, axis=-1, kind="stable")[..., :k]
    best = np.take_along_axis(candidates, order, axis=-1)
    return best, np.take_along_axis(values, order, axis=-1).astype(np.float32)


def choose(logits: Array, draws: Array, temperature: float, top_k: int, top_p: float) -> Array:
    """One token id per row.

    Args:
        logits: (rows, vocabulary).
        draws: (rows,) uniform numbers in [0, 1); the only randomness.
        temperature: 0 takes the best token (the lowest id on a tie).
        top_k: keep this many best tokens; below 1 keeps all.
        top_p: keep the fewest best tokens that reach this probability; 1 keeps all.
    """
    if temperature <= 0 or top_k == 1:
        best: Array = np.argmax(logits, axis=-1)
        return best
    scaled = logits.astype(np.float64) / temperature
    filtered = 0 < top_k < logits.shape[-1] or top_p < 1
    order = np.argsort(-scaled, axis=-1, kind="stable") if filtered else None
    if order is not None:
        scaled = np.take_along_axis(scaled, order, axis=-1)
        if top_k > 0:
            scaled = scaled[:, :top_k]
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    if top_p < 1:
        before = np.cumsum(weights, axis=-1) - weights
        kept = before < top_p * weights.sum(axis=-1, keepdims=True)
        kept[:, 0] = True
        weights = np.where(kept, weights, 0)
    totals = np.cumsum(weights, axis=-1)
    picked: Array = (totals <= draws[:, None] * totals[:, -1:]).sum(axis=-1)
    # Rounding may carry a draw just below 1 past the last token that has any weight.
    last = weights.shape[-1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=-1)
    picked = np.minimum(picked, last)
    if order is None:
        return picked
    chosen: Array = np.take_along_axis(order, picked[:, None], axis=-1)[:, 0]
    return chosen
