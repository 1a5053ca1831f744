"""RMS norm, rotary positions and windowed causal attention, each with its backward pass.

Sources: RMS norm, Zhang and Sennrich 2019 (arXiv:1910.07467), without gain; rotary position
embedding, Su et al. 2021 (arXiv:2104.09864).
"""

from __future__ import annotations

import functools

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinker_ext.mock.engine.tiles import ROWS, Array

NORM_EPS = 1e-6


def rms_norm(x: Array) -> tuple[Array, Array]:
    """(x / rms(x), 1 / rms(x)) over the last axis."""
    mean = (x * x).sum(axis=-1, keepdims=True) / x.dtype.type(x.shape[-1])
    inverse = 1.0 / np.sqrt(mean + x.dtype.type(NORM_EPS))
    return x * inverse, inverse


def rms_norm_backward(dy: Array, y: Array, inverse: Array) -> Array:
    """Gradient of `rms_norm` from its two results."""
    mean = (dy * y).sum(axis=-1, keepdims=True) / y.dtype.type(y.shape[-1])
    out: Array = (dy - y * mean) * inverse
    return out


@functools.lru_cache(maxsize=64)
def rotary_table(start: int, tokens: int, head_dim: int, dtype: str) -> tuple[Array, Array]:
    """(cos, sin) of shape (tokens, 1, head_dim / 2) for positions start, start + 1, ..."""
    half = head_dim // 2
    rates = 10000.0 ** (-np.arange(half) / half)
    angles = (start + np.arange(tokens))[:, None, None] * rates
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotary embedding of x (batch, tokens, heads, head_dim); pass -sin for the inverse."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    out = np.empty_like(x)
    np.subtract(first * cos, second * sin, out=out[..., :half])
    np.add(first * sin, second * cos, out=out[..., half:])
    return out


@functools.lru_cache(maxsize=64)
def causal_mask(tiles: int, width: int, dtype: str) -> Array:
    """(tiles, ROWS, width) of 0 and -1e30: which key of its window each query may see."""
    tile = np.arange(tiles)[:, None, None]
    query = tile * ROWS + np.arange(ROWS)[None, :, None]
    key = (tile + 1) * ROWS - width + np.arange(width)[None, None, :]
    return np.where((key >= 0) & (key <= query), 0.0, -1e30).astype(dtype)


@attrs.frozen(eq=False)
class AttentionTrace:
    """What the backward pass of `attention` needs."""

    q: Array
    keys: Array
    values: Array
    probs: Array


def attention(q: Array, k: Array, v: Array, window: int) -> tuple[Array, AttentionTrace]:
    """Causal attention of (batch, tokens, heads, head_dim) inputs within a window.

    A query of tile j sees the keys from ``(j + 1) * ROWS - window`` up to itself.
    ``q`` is expected to be scaled by ``head_dim ** -0.5`` already.
    """
    tokens = q.shape[1]
    tiles, width = tokens // ROWS, min(window, tokens)
    keys, values = _windows(k, width), _windows(v, width)
    queries = _tiles(q)
    scores = queries @ keys.swapaxes(-1, -2)
    scores += causal_mask(tiles, width, q.dtype.name)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return _untile(scores @ values), AttentionTrace(queries, keys, values, scores)


def attention_backward(dout: Array, trace: AttentionTrace) -> tuple[Array, Array, Array]:
    """Gradients for q, k and v of `attention`."""
    do = _tiles(dout)
    dscores = do @ trace.values.swapaxes(-1, -2)
    dscores -= (dscores * trace.probs).sum(axis=-1, keepdims=True)
    dscores *= trace.probs
    dq = _untile(dscores @ trace.keys)
    dk = _unwindow(dscores.swapaxes(-1, -2) @ trace.q)
    dv = _unwindow(trace.probs.swapaxes(-1, -2) @ do)
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
    padded = np.zeros((batch, heads, front + tokens, dim), dtype=x.dtype)
    padded[:, :, front:] = x.transpose(0, 2, 1, 3)
    sb, sh, st, sd = padded.strides
    shape = (batch, heads, tokens // ROWS, width, dim)
    return as_strided(padded, shape, (sb, sh, ROWS * st, st, sd), writeable=False)


def _unwindow(dwindows: Array) -> Array:
    """Adds the overlapping windows back up: the transpose of `_windows`."""
    batch, heads, tiles, width, dim = dwindows.shape
    offsets = width // ROWS
    blocks = np.zeros((batch, heads, tiles + offsets - 1, ROWS, dim), dtype=dwindows.dtype)
    for offset in range(offsets):
        blocks[:, :, offset : offset + tiles] += dwindows[
            :, :, :, offset * ROWS : (offset + 1) * ROWS
        ]
    return _untile(blocks[:, :, offsets - 1 :])
