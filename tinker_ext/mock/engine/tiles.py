"""Matrix products whose bits depend on the operands alone.

OpenBLAS splits a product over threads once ``M * N * K`` exceeds 2**18
(``SMP_THRESHOLD_MIN * GEMM_MULTITHREAD_THRESHOLD`` in its ``interface/gemm.c``), and a split
product rounds differently. Every product of the engine is therefore cut into tiles below that
limit, with a tile shape fixed by the weights and never by the batch. So a datum gives the same
bits alone, in a batch, in another chunk and under any number of BLAS threads. (It is faster as
well: small threaded products spend their time waking threads.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinker_ext.mock.engine.scratch import SCRATCH

Array = npt.NDArray[Any]

ROWS = 32
"""Tokens per tile; every sequence is padded to a multiple of it."""

LIMIT = 1 << 18
"""Largest ``M * N * K`` of one BLAS call."""


def padded_length(length: int) -> int:
    """Length of a sequence of ``length`` tokens after padding (at least one tile)."""
    return max(1, -(-length // ROWS)) * ROWS


def linear(x: Array, weight: Array) -> Array:
    """``x @ weight`` for x (batch, tokens, K), tokens a multiple of ROWS."""
    batch, tokens, width = x.shape
    rows = _rows(tokens, width * weight.shape[1])
    out = SCRATCH.empty((batch * tokens // rows, rows, weight.shape[1]), x.dtype)
    np.matmul(x.reshape(-1, rows, width), weight, out=out)
    return out.reshape(batch, tokens, weight.shape[1])


def _rows(tokens: int, weight_size: int) -> int:
    """Rows per BLAS call: as many as divide the sequence and stay below the limit."""
    rows = ROWS
    while tokens % (2 * rows) == 0 and 2 * rows * weight_size <= LIMIT:
        rows *= 2
    return rows


def matmul(a: Array, b: Array) -> Array:
    """``a @ b`` of stacks of tiles with equal leading axes, in scratch memory."""
    out = SCRATCH.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    return np.matmul(a, b, out=out)


def weight_gradient(x: Array, dy: Array) -> Array:
    """Per-datum gradient of ``linear``: (batch, K, N), summed over tiles in order."""
    batch, tokens, k = x.shape
    rows = _rows(tokens, k * dy.shape[2])
    xt = x.reshape(batch, -1, rows, k).swapaxes(-1, -2)
    parts = matmul(xt, dy.reshape(batch, -1, rows, dy.shape[2]))
    return ordered_sum(parts, axis=1)


def ordered_sum(parts: Array, axis: int) -> Array:
    """Sum along an axis, first to last; numpy's own order may depend on the other axes."""
    moved = np.moveaxis(parts, axis, 0)
    total: Array = moved[0].copy()
    for part in moved[1:]:
        total += part
    return total


def product(a: Array, b: Array) -> Array:
    """``a @ b`` of two matrices of any size, cut into tiles by their shapes."""
    m, k = a.shape
    n = b.shape[1]
    if m * n * k <= LIMIT:
        out: Array = a @ b
        return out
    depth = min(k, 1024)
    columns = max(1, min(n, LIMIT // (depth * min(m, ROWS))))
    rows = max(1, min(m, LIMIT // (depth * columns)))
    result = np.zeros((m, n), dtype=np.result_type(a, b))
    for j in range(0, n, columns):
        for i in range(0, m, rows):
            for p in range(0, k, depth):
                result[i : i + rows, j : j + columns] += (
                    a[i : i + rows, p : p + depth] @ b[p : p + depth, j : j + columns]
                )
    return result
