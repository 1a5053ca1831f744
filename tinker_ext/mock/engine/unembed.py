"""The last layer: hidden states to log-probabilities of target tokens, and back.

Logits of a large vocabulary never exist for more than a few tiles at a time; the backward pass
computes them again, only for tiles that carry gradient.
"""

from __future__ import annotations

import numpy as np

from tinker_ext.mock.engine.tiles import ROWS, Array, ordered_sum

CHUNK_FLOATS = 1 << 22
"""Floats of logits (or of weight gradients) held at once: 16 MB."""


def block_logits(hidden: Array, weight: Array, bias: Array) -> Array:
    """Logits (tiles, blocks, ROWS, columns) of hidden (tiles, ROWS, d_model)."""
    logits: Array = hidden[:, None] @ weight
    logits += bias
    return logits


def log_normalizer(logits: Array) -> Array:
    """Logarithm of the sum of exponentials over the vocabulary: (tiles, ROWS)."""
    peak = logits.max(axis=(1, 3))
    sums = np.exp(logits - peak[:, None, :, None]).sum(axis=-1)
    out: Array = peak + np.log(ordered_sum(sums, axis=1))
    return out


def full_logits(hidden: Array, weight: Array, bias: Array, vocab_size: int) -> Array:
    """Logits (rows, vocab_size) of hidden (rows, d_model), any number of rows."""
    rows = hidden.shape[0]
    tiles = -(-rows // ROWS)
    padded = np.zeros((tiles * ROWS, hidden.shape[1]), dtype=hidden.dtype)
    padded[:rows] = hidden
    logits = block_logits(padded.reshape(tiles, ROWS, -1), weight, bias)
    flat = logits.transpose(0, 2, 1, 3).reshape(tiles * ROWS, -1)
    return flat[:rows, :vocab_size]


def target_logprobs(
    hidden: Array, targets: Array, weight: Array, bias: Array
) -> tuple[Array, Array]:
    """Log-probabilities of the targets.

    Args:
        hidden: (tiles, ROWS, d_model).
        targets: (tiles, ROWS, k) token ids.
        weight: (blocks, d_model, columns).
        bias: (blocks, 1, columns).

    Returns:
        (log-probabilities like targets, log normalizers (tiles, ROWS)).
    """
    blocks, _, columns = weight.shape
    step = max(1, CHUNK_FLOATS // (ROWS * blocks * columns))
    logprobs = np.empty(targets.shape, dtype=hidden.dtype)
    normalizer = np.empty(targets.shape[:2], dtype=hidden.dtype)
    rows = np.arange(ROWS)[None, :, None]
    for start in range(0, len(hidden), step):
        part = slice(start, start + step)
        logits = block_logits(hidden[part], weight, bias)
        normalizer[part] = log_normalizer(logits)
        block, column = np.divmod(targets[part], columns)
        tile = np.arange(len(logits))[:, None, None]
        picked = logits[tile, block, rows, column]
        logprobs[part] = picked - normalizer[part][..., None]
    return logprobs, normalizer


def backward(
    hidden: Array,
    targets: Array,
    normalizer: Array,
    slopes: Array,
    weight: Array,
    bias: Array,
    datums: int,
    want_weight: bool,
) -> tuple[Array, Array | None]:
    """Gradients for the hidden states and, per datum, for the unembedding.

    Args:
        hidden, targets, normalizer, weight, bias: as in and out of `target_logprobs`.
        slopes: d loss / d logprob, shaped like targets.
        datums: how many equal runs of tiles the first axis holds.
        want_weight: whether to compute the second result.

    Returns:
        (like hidden, (datums, blocks, d_model, columns) or None).
    """
    blocks, width, columns = weight.shape
    dhidden = np.zeros_like(hidden)
    dweight = np.zeros((datums, *weight.shape), dtype=hidden.dtype) if want_weight else None
    per_datum = len(hidden) // datums
    active = np.flatnonzero(slopes.any(axis=(1, 2)))
    step = max(1, CHUNK_FLOATS // (max(ROWS, width) * blocks * columns))
    rows = np.arange(ROWS)[None, :]
    for start in range(0, len(active), step):
        part = active[start : start + step]
        dlogits = block_logits(hidden[part], weight, bias)
        dlogits -= normalizer[part][:, None, :, None]
        np.exp(dlogits, out=dlogits)
        slope = slopes[part]
        dlogits *= -ordered_sum(slope, axis=2)[:, None, :, None]
        block, column = np.divmod(targets[part], columns)
        tile = np.arange(len(part))[:, None]
        for j in range(slope.shape[2]):
            dlogits[tile, block[..., j], rows, column[..., j]] += slope[..., j]
        dhidden[part] = ordered_sum(dlogits @ weight.swapaxes(-1, -2), axis=1)
        if dweight is not None:
            products = hidden[part].swapaxes(-1, -2)[:, None] @ dlogits
            for index, gradient in zip(part, products, strict=True):
                dweight[index // per_datum] += gradient
    return dhidden, dweight
