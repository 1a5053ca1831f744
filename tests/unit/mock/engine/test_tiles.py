"""Tiled products and reused memory: the same numbers as plain numpy, and no surprises."""

import numpy as np
import pytest

from tinker_ext.mock.engine.config import config_for
from tinker_ext.mock.engine.scratch import SCRATCH, SCRATCH_BYTES
from tinker_ext.mock.engine.tiles import (
    LIMIT,
    ROWS,
    linear,
    padded_length,
    product,
    weight_gradient,
)

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("shape", [(3, 4, 5), (200, 64, 200), (1, 5000, 300), (70, 3000, 2)])
def test_product_is_the_matrix_product(shape):
    """M40: sizes below and above the limit of one BLAS call."""
    m, k, n = shape
    a, b = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("tokens", [32, 64, 96, 256])
def test_linear_and_its_gradient(tokens):
    """M40: batched rows times weights, and the per-datum gradient of the weights."""
    x, w = RNG.standard_normal((3, tokens, 32)), RNG.standard_normal((32, 64))
    dy = RNG.standard_normal((3, tokens, 64))
    np.testing.assert_allclose(linear(x, w), x @ w, rtol=1e-9, atol=1e-9)
    expected = np.einsum("btk,btn->bkn", x, dy)
    np.testing.assert_allclose(weight_gradient(x, dy), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("vocabulary", [2, 100, 256, 259, 5000, 151_936])
def test_vocabulary_blocks_cover_it_below_the_limit(vocabulary):
    """M40: every block of the unembedding stays within one single-threaded BLAS call."""
    config = config_for("any", vocabulary)
    blocks, columns = config.vocab_blocks
    assert blocks * columns >= vocabulary
    assert (blocks - 1) * columns < vocabulary
    assert ROWS * config.d_model * columns <= LIMIT
    assert ROWS * config.d_model * config.d_ff <= LIMIT
    assert ROWS * config.head_dim * config.window <= LIMIT


def test_padded_length():
    """M40: whole tiles, at least one."""
    assert [padded_length(n) for n in (0, 1, 32, 33)] == [32, 32, 32, 64]


def test_scratch_pieces_are_apart_and_return_with_their_block():
    """M40: memory is shared only between blocks, never within one."""
    kind = np.dtype(np.float32)
    with SCRATCH:
        first = SCRATCH.empty((1000,), kind)
        with SCRATCH:
            second = SCRATCH.empty((10, 10), kind)
            assert not np.shares_memory(first, second)
        third = SCRATCH.empty((10, 10), kind)
        assert np.shares_memory(second, third)
        large = SCRATCH.empty((SCRATCH_BYTES,), kind)
        assert not np.shares_memory(first, large)
    outside = SCRATCH.empty((1000,), kind)
    assert not np.shares_memory(first, outside)
