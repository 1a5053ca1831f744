"""The frozen base model: deterministic weights made from (name, vocabulary, seed).

The weights are random but well conditioned: residual stream of unit size, small attention and
MLP branches, logits of standard deviation ``LOGIT_STD``. A byte-level vocabulary also gets a
unigram prior, so that samples are mostly printable and the first loss on English text is near
3.5 nats instead of 5.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from tinker_ext.mock.engine.config import ModelConfig, config_for, stream_seed
from tinker_ext.mock.engine.tiles import Array

LOGIT_STD = 0.5
"""Spread of the base logits in nats; ln(V) + LOGIT_STD**2 / 2 is the loss without a prior."""

MASKED = -1e30
"""Bias of the columns that pad the vocabulary to whole blocks: their probability is exactly 0."""

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("up_proj", "down_proj")
UNEMBED = "lm_head"


def linear_shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of every linear layer by name, in the order of the forward pass."""
    d, f = config.d_model, config.d_ff
    shapes: dict[str, tuple[int, int]] = {}
    for layer in range(config.n_layers):
        for name in ATTENTION:
            shapes[f"layers.{layer}.self_attn.{name}"] = (d, d)
        shapes[f"layers.{layer}.mlp.up_proj"] = (d, f)
        shapes[f"layers.{layer}.mlp.down_proj"] = (f, d)
    shapes[UNEMBED] = (d, config.vocab_size)
    return shapes


@attrs.frozen(eq=False)
class BaseModel:
    """Frozen weights shared by every adapter on one base model.

    ``weights`` maps names of ``linear_shapes`` to arrays (inputs, outputs); the unembedding is
    kept as (blocks, d_model, columns), see `ModelConfig.vocab_blocks`. All arrays are read-only.

    Example:
        >>> base = BaseModel.create("tiny", vocab_size=259, seed=0)
        >>> base.embedding.shape
        (259, 32)
    """

    config: ModelConfig
    embedding: Array = attrs.field(repr=False)
    bias: Array = attrs.field(repr=False)
    weights: Mapping[str, Array] = attrs.field(repr=False)

    @property
    def vocab_size(self) -> int:
        """Number of token ids, specials included."""
        return self.config.vocab_size

    @classmethod
    def create(
        cls,
        name: str,
        vocab_size: int,
        seed: int = 0,
        *,
        log_prior: Array | None = None,
        dtype: Any = np.float32,
    ) -> BaseModel:
        """Makes the base model of a name.

        Args:
            name: any base model name.
            vocab_size: number of token ids of the tokenizer, specials included.
            seed: seed of the server.
            log_prior: (vocab_size,) log-probabilities added to the logits; see `byte_log_prior`.
            dtype: float32; float64 is for checking gradients.

        Returns:
            The model; equal arguments give equal bytes.
        """
        config = config_for(name, vocab_size, seed)
        d = config.d_model

        def normal(label: str, shape: tuple[int, ...], std: float) -> Array:
            rng = np.random.Generator(np.random.PCG64(stream_seed(name, vocab_size, seed, label)))
            values = rng.standard_normal(shape, dtype=np.float32)
            values *= np.float32(std)
            return _frozen(values.astype(dtype, copy=False))

        weights: dict[str, Array] = {}
        for label, (rows, columns) in linear_shapes(config).items():
            if label != UNEMBED:
                branch_end = label.endswith(("o_proj", "down_proj"))
                std = (0.3 if branch_end else 1.0) / rows**0.5
                weights[label] = normal(label, (rows, columns), std)
        blocks, columns = config.vocab_blocks
        weights[UNEMBED] = normal(UNEMBED, (blocks, d, columns), LOGIT_STD / d**0.5)
        bias = np.full(blocks * columns, MASKED, dtype=dtype)
        bias[:vocab_size] = 0.0 if log_prior is None else log_prior
        return cls(
            config=config,
            embedding=normal("embed_tokens", (vocab_size, d), 1.0),
            bias=_frozen(bias.reshape(blocks, 1, columns)),
            weights=weights,
        )


def byte_log_prior(vocab_size: int) -> Array:
    """Unigram prior of a byte-level vocabulary: ids 0-255 are bytes, the rest specials.

    Letters follow the usual order of English letter frequencies ("etaoin shrdlu"); every other
    printable byte is rarer, every remaining id rarer still, and none is impossible.
    """
    odds = np.full(vocab_size, 0.02)
    bytes_known = min(vocab_size, 256)
    printable = np.arange(32, min(127, bytes_known))
    odds[printable] = 1.0
    for rank, letter in enumerate("etaoinshrdlucmfwygpbvkxqjz"):
        if ord(letter) < bytes_known:
            odds[ord(letter)] = 24.0 / (1.0 + 0.35 * rank)
    for letter, weight in ((" ", 36.0), ("\n", 2.0)):
        if ord(letter) < bytes_known:
            odds[ord(letter)] = weight
    log_prior: Array = np.log(odds / odds.sum())
    return log_prior


def _frozen(values: Array) -> Array:
    values.setflags(write=False)
    return values
