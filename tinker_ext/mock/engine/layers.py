"""RMS norm and windowed causal attention, each with its backward pass.

Sources: RMS norm, Zhang and Sennrich 2019 (arXiv:1910.07467), without gain; positions as linear
biases on the attention scores, Press et al. 2021 (arXiv:2108.12409).
"""

from __future__ import annotations

import functools

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinker_ext.mock.engine.scratch import SCRATCH
from tinker_ext.mock.engine.tiles import ROWS, Array, matmul

NORM_EPS = 1e-6


def rms_norm(x: Array) -> tuple[Array, Array]:
    """(x / rms(x), 1 / rms(x)) over the last axis."""
    y = SCRATCH.empty(x.shape, x.dtype)
    mean = np.multiply(x, x, out=y).sum(axis=-1, keepdims=True) / x.dtype.type(x.shape[-1])
    inverse = 1 / np.sqrt(mean + x.dtype.type(NORM_EPS))
    return np.multiply(x, inverse, out=y), inverse


def rms_norm_backward(dy: Array, y: Array, inverse: Array) -> Array:
    """Gradient of `rms_norm` from its two results."""
    out = SCRATCH.empty(y.shape, y.dtype)
    mean = np.multiply(dy, y, out=out).sum(axis=-1, keepdims=True) / y.dtype.type(y.shape[-1])
    np.multiply(y, mean, out=out)
    np.subtract(dy, out, out=out)
    out *= inverse
    return out


NEAREST = 0.7
FARTHEST = 0.05
"""Slopes of the position biases, in nats per token, of the first and the last head."""


FAINTEST = -40.0
"""A key whose bias is below this is hidden: its weight is far below the precision of float32, and
the subnormal numbers it would cause slow a matrix product down several times."""

HIDDEN = -1e30


def distance_bias(heads: int, distance: Array) -> Array:
    """Bias of keys at the given distances: (heads, *distance.shape); HIDDEN ahead or too far."""
    slopes = np.geomspace(NEAREST, FARTHEST, heads).reshape(-1, *[1] * distance.ndim)
    bias = -slopes * distance
    return np.where((distance >= 0) & (bias >= FAINTEST), bias, HIDDEN)


@functools.lru_cache(maxsize=64)
def window_bias(heads: int, tiles: int, width: int, dtype: str) -> Array:
    """(heads, tiles, ROWS, width): bias of each key of its window for each query."""
    tile = np.arange(tiles)[:, None, None]
    query = tile * ROWS + np.arange(ROWS)[None, :, None]
    key = (tile + 1) * ROWS - width + np.arange(width)[None, None, :]
    bias = distance_bias(heads, query - key)
    return np.where(key >= 0, bias, HIDDEN).astype(dtype)


@functools.lru_cache(maxsize=1024)
def recent_bias(heads: int, count: int, dtype: str) -> Array:
    """(heads, 1, count): bias of the last ``count`` keys for the newest query."""
    return distance_bias(heads, np.arange(count - 1, -1, -1)[None]).astype(dtype)


@attrs.frozen(eq=False)
class AttentionTrace:
    """What the backward pass of `attention` needs; ``weights`` are not normalized."""

    q: Array
    keys: Array
    values: Array
    weights: Array
    inverse: Array
    out: Array


def attention(q: Array, k: Array, v: Array, window: int) -> tuple[Array, AttentionTrace]:
    """Causal attention of (batch, tokens, heads, head_dim) inputs within a window.

    A query of tile j sees the keys from ``(j + 1) * ROWS - window`` up to itself.
    ``q`` is expected to be scaled by ``head_dim ** -0.5`` already.
    """
    tokens, heads = q.shape[1:3]
    tiles, width = tokens // ROWS, min(window, tokens)
    keys, values = _windows(k, width), _windows(v, width)
    queries = _tiles(q)
    scores = matmul(queries, keys.swapaxes(-1, -2))
    scores += window_bias(heads, tiles, width, q.dtype.name)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    inverse = 1 / scores.sum(axis=-1, keepdims=True)
    out = matmul(scores, values)
    out *= inverse
    return _untile(out), AttentionTrace(queries, keys, values, scores, inverse, out)


def attention_backward(dout: Array, trace: AttentionTrace) -> tuple[Array, Array, Array]:
    """Gradients for q, k and v of `attention`.

    The row sums of probability times gradient are those of output times gradient
    (Dao et al. 2022, arXiv:2205.14135, appendix B), which are cheaper to take.
    """
    do = _tiles(dout) * trace.inverse
    row = (do * trace.out).sum(axis=-1, keepdims=True)
    dscores = matmul(do, trace.values.swapaxes(-1, -2))
    dscores -= row
    dscores *= trace.weights
    dq = _untile(matmul(dscores, trace.keys))
    dk = _unwindow(matmul(dscores.swapaxes(-1, -2), trace.q))
    dv = _unwindow(matmul(trace.weights.swapaxes(-1, -2), do))
    return dq, dk, dv


def _tiles(x: Array) -> Array:
    batch, tokens, heads, dim = x.shape
    return x.reshape(batch, tokens // ROWS, ROWS, heads, dim).transpose(0, 3, 1, 2, 4)


def _untile(x: Array) -> Array:
    batch, heads, tiles, _, dim = x.shape
    return x.transpose(0, 2, 3, 1, 4).reshape(batch, tiles * ROWS, heads, dim)


def _windows(x: Array, width: int) -> Array:
    """Overlapping views (batch, heads, tiles, width, dim) of keys padded with zeros in front."""
    batch, tokens, heads, dim = x.shape
    front = width - ROWS
    padded = SCRATCH.empty((batch, heads, front + tokens, dim), x.dtype)
    padded[:, :, :front] = 0
    padded[:, :, front:] = x.transpose(0, 2, 1, 3)
    sb, sh, st, sd = padded.strides
    shape = (batch, heads, tokens // ROWS, width, dim)
    return as_strided(padded, shape, (sb, sh, ROWS * st, st, sd), writeable=False)


def _unwindow(dwindows: Array) -> Array:
    """Adds the overlapping windows back up: the transpose of `_windows`."""
    batch, heads, tiles, width, dim = dwindows.shape
    offsets = width // ROWS
    blocks = SCRATCH.empty((batch, heads, tiles + offsets - 1, ROWS, dim), dwindows.dtype)
    blocks[...] = 0
    for offset in range(offsets):
        blocks[:, :, offset : offset + tiles] += dwindows[
            :, :, :, offset * ROWS : (offset + 1) * ROWS
        ]
    return _untile(blocks[:, :, offsets - 1 :])
