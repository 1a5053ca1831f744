"""The last layer: hidden states to log-probabilities of target tokens, and back.

Logits of a large vocabulary never exist for more than a few tiles at a time; the backward pass
computes them again, only for tiles that carry gradient.
"""

from __future__ import annotations

import contextlib

import attrs
import numpy as np

from tinker_ext.mock.engine.scratch import SCRATCH
from tinker_ext.mock.engine.tiles import ROWS, Array, ordered_sum

CHUNK_FLOATS = 1 << 22
"""Floats of logits (or of weight gradients) held at once: 16 MB."""

KEPT_VOCABULARY = 1024
"""Up to this size the probabilities of the forward pass are kept for the backward pass. It must
not depend on the batch: kept and recomputed probabilities differ in their last bits."""


def block_logits(hidden: Array, weight: Array, bias: Array) -> Array:
    """Logits (tiles, blocks, ROWS, columns) of hidden (tiles, ROWS, d_model)."""
    blocks, _, columns = weight.shape
    logits = SCRATCH.empty((len(hidden), blocks, ROWS, columns), hidden.dtype)
    np.matmul(hidden[:, None], weight, out=logits)
    logits += bias
    return logits


def full_logits(hidden: Array, weight: Array, bias: Array, vocab_size: int) -> Array:
    """Logits (rows, vocab_size) of hidden (rows, d_model), any number of rows."""
    rows = hidden.shape[0]
    tiles = -(-rows // ROWS)
    padded = np.zeros((tiles * ROWS, hidden.shape[1]), dtype=hidden.dtype)
    padded[:rows] = hidden
    logits = block_logits(padded.reshape(tiles, ROWS, -1), weight, bias)
    flat = logits.transpose(0, 2, 1, 3).reshape(tiles * ROWS, -1)
    return flat[:rows, :vocab_size]


@attrs.frozen(eq=False)
class HeadTrace:
    """Result of `forward`: ``logprobs`` like the targets, and what `backward` needs.

    ``normalizer`` is log sum exp of the logits, (tiles, ROWS); ``probs`` are kept only for a
    small vocabulary.
    """

    hidden: Array
    targets: Array
    logprobs: Array
    normalizer: Array
    probs: Array | None


def forward(hidden: Array, targets: Array, weight: Array, bias: Array) -> HeadTrace:
    """Log-probabilities of the targets.

    Args:
        hidden: (tiles, ROWS, d_model).
        targets: (tiles, ROWS, k) token ids.
        weight: (blocks, d_model, columns).
        bias: (blocks, 1, columns).
    """
    blocks, _, columns = weight.shape
    keep = blocks * columns <= KEPT_VOCABULARY
    step = len(hidden) if keep else max(1, CHUNK_FLOATS // (ROWS * blocks * columns))
    logprobs = np.empty(targets.shape, dtype=hidden.dtype)
    normalizer = np.empty(targets.shape[:2], dtype=hidden.dtype)
    probs = None
    rows = np.arange(ROWS)[None, :, None]
    for start in range(0, len(hidden), step):
        part = slice(start, start + step)
        with contextlib.nullcontext() if keep else SCRATCH:
            logits = block_logits(hidden[part], weight, bias)
            block, column = np.divmod(targets[part], columns)
            tile = np.arange(len(logits))[:, None, None]
            picked = logits[tile, block, rows, column]
            peak = logits.max(axis=-1).max(axis=1)
            logits -= peak[:, None, :, None]
            np.exp(logits, out=logits)
            sums = ordered_sum(logits.sum(axis=-1), axis=1)
            normalizer[part] = peak + np.log(sums)
            logprobs[part] = picked - normalizer[part][..., None]
            if keep:
                logits *= (1 / sums)[:, None, :, None]
                probs = logits
    return HeadTrace(hidden, targets, logprobs, normalizer, probs)


def backward(
    trace: HeadTrace, slopes: Array, weight: Array, bias: Array, datums: int, want_weight: bool
) -> tuple[Array, Array | None]:
    """Gradients for the hidden states and, per datum, for the unembedding.

    Args:
        trace: of the forward pass; its kept probabilities are used up.
        slopes: d loss / d logprob, shaped like the targets.
        weight, bias: as in `forward`.
        datums: how many equal runs of tiles the first axis holds.
        want_weight: whether to compute the second result.

    Returns:
        (like hidden, (datums, blocks, d_model, columns) or None).
    """
    blocks, width, columns = weight.shape
    dhidden = np.zeros_like(trace.hidden)
    dweight = np.zeros((datums, *weight.shape), dtype=dhidden.dtype) if want_weight else None
    per_datum = len(dhidden) // datums
    active = np.flatnonzero(slopes.any(axis=(1, 2)))
    step = max(1, CHUNK_FLOATS // (max(ROWS, width) * blocks * columns))
    for start in range(0, len(active), step):
        part = active[start : start + step]
        with SCRATCH:
            dlogits = _dlogits(trace, part, slopes[part], weight, bias)
            dh = SCRATCH.empty((len(part), blocks, ROWS, width), dlogits.dtype)
            np.matmul(dlogits, weight.swapaxes(-1, -2), out=dh)
            dhidden[part] = ordered_sum(dh, axis=1)
            if dweight is not None:
                products = SCRATCH.empty((len(part), blocks, width, columns), dlogits.dtype)
                np.matmul(trace.hidden[part].swapaxes(-1, -2)[:, None], dlogits, out=products)
                for index, gradient in zip(part, products, strict=True):
                    dweight[index // per_datum] += gradient
    return dhidden, dweight


def _dlogits(trace: HeadTrace, part: Array, slope: Array, weight: Array, bias: Array) -> Array:
    dlogits = _probabilities(trace, part, weight, bias)
    dlogits *= -ordered_sum(slope, axis=2)[:, None, :, None]
    block, column = np.divmod(trace.targets[part], weight.shape[2])
    tile, rows = np.arange(len(part))[:, None], np.arange(ROWS)[None, :]
    for j in range(slope.shape[2]):
        dlogits[tile, block[..., j], rows, column[..., j]] += slope[..., j]
    return dlogits


def _probabilities(trace: HeadTrace, part: Array, weight: Array, bias: Array) -> Array:
    if trace.probs is not None:
        whole = len(part) == len(trace.probs)
        return trace.probs if whole else trace.probs[part]
    logits = block_logits(trace.hidden[part], weight, bias)
    logits -= trace.normalizer[part][:, None, :, None]
    return np.exp(logits, out=logits)
