"""Scoring a prompt: log-probabilities of its tokens, of the best, of given and of drawn ones."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

import tinker_ext.mock.engine.model as model
import tinker_ext.mock.engine.unembed as unembed
from tinker_ext.mock.engine.base import UNEMBED, BaseModel
from tinker_ext.mock.engine.choose import choose, log_softmax, top
from tinker_ext.mock.engine.data import check_tokens
from tinker_ext.mock.engine.tiles import ROWS, Array, padded_length

EMPTY_LOGPROB = -99999.0
"""Marks an empty cell of a top-k table, together with token 0 (the service's convention)."""


@attrs.frozen(eq=False)
class PromptScores:
    """Log-probabilities over a prompt of n tokens.

    ``logprobs`` (n,), NaN at position 0 and before the last_n; ``topk_ids`` and
    ``topk_logprobs`` (n, k), with empty cells where there is no score; ``target_logprobs``
    like the targets asked for, 0 where the id was -1; ``alt_tokens`` and ``alt_logprobs``
    (n - 1, k): draws that could have stood in place of tokens 1 to n - 1.
    """

    logprobs: Array
    topk_ids: Array | None = None
    topk_logprobs: Array | None = None
    target_logprobs: Array | None = None
    alt_tokens: Array | None = None
    alt_logprobs: Array | None = None


def score(
    base: BaseModel,
    weights: Mapping[str, Array],
    ids: Array,
    *,
    topk: int = 0,
    targets: Array | None = None,
    alternatives: int = 0,
    temperature: float = 1.0,
    seed: int = 0,
    last_n: int | None = None,
) -> PromptScores:
    """Scores one prompt; see `PromptScores` for the results and `Sampler.score` for the use."""
    n = len(ids)
    wanted = _checked_targets(targets, n, base.vocab_size)
    padded = np.zeros((1, padded_length(n)), dtype=np.int64)
    padded[0, :n] = ids
    hidden = model.forward(base.config, weights, base.embedding[padded]).hidden[0]

    logprobs = np.full(n, np.nan, dtype=np.float32)
    k = min(topk, base.vocab_size)
    topk_ids = np.zeros((n, k), dtype=np.int64)
    topk_logprobs = np.full((n, k), EMPTY_LOGPROB, dtype=np.float32)
    target_logprobs = np.zeros(wanted.shape, dtype=np.float32)
    alt_tokens = np.zeros((n - 1, alternatives), dtype=np.int64)
    alt_logprobs = np.zeros((n - 1, alternatives), dtype=np.float32)
    rng = np.random.Generator(np.random.PCG64(seed % 2**64))

    for start in range(0, n - 1, ROWS):
        stop = min(start + ROWS, n - 1)
        logits = unembed.full_logits(
            hidden[start:stop], weights[UNEMBED], base.bias, base.vocab_size
        )
        table = log_softmax(logits)
        rows = np.arange(stop - start)
        logprobs[start + 1 : stop + 1] = table[rows, ids[start + 1 : stop + 1]]
        if k > 0:
            best, values = top(table, k)
            topk_ids[start + 1 : stop + 1], topk_logprobs[start + 1 : stop + 1] = best, values
        cells = wanted[start:stop]
        picked = table[rows[:, None], np.maximum(cells, 0)]
        target_logprobs[start:stop] = np.where(cells >= 0, picked, 0)
        for j in range(alternatives):
            drawn = choose(logits, rng.random(len(rows)), temperature, -1, 1.0)
            alt_tokens[start:stop, j] = drawn
            alt_logprobs[start:stop, j] = table[rows, drawn]

    if last_n is not None:
        skipped = max(0, n - last_n)
        logprobs[:skipped] = np.nan
        topk_ids[:skipped], topk_logprobs[:skipped] = 0, EMPTY_LOGPROB
    return PromptScores(
        logprobs=logprobs,
        topk_ids=topk_ids if topk > 0 else None,
        topk_logprobs=topk_logprobs if topk > 0 else None,
        target_logprobs=None if targets is None else target_logprobs,
        alt_tokens=alt_tokens if alternatives > 0 else None,
        alt_logprobs=alt_logprobs if alternatives > 0 else None,
    )


def _checked_targets(targets: Array | None, n: int, vocab_size: int) -> Array:
    if targets is None:
        return np.zeros((n - 1, 0), dtype=np.int64)
    cells = np.asarray(targets, dtype=np.int64)
    if cells.ndim != 2 or cells.shape[0] != n - 1:
        raise ValueError(
            f"target_prompt_logprobs has shape {tuple(cells.shape)}; the prompt of {n} tokens "
            f"needs [{n - 1}, K]"
        )
    check_tokens(cells[cells != -1], vocab_size, "target_prompt_logprobs")
    return cells
