"""The shape of a base model, and the seeds that belong to its name."""

from __future__ import annotations

import hashlib

import attrs


@attrs.frozen
class ModelConfig:
    """Shape of one decoder-only transformer.

    The width keeps a step of 8 x 128 tokens near 15 ms, and a vocabulary of 150,000 affordable.
    ``window`` is the furthest a token looks back, in tokens, counted from the end of its tile:
    attention is full up to that length and local beyond it, so cost grows linearly.
    """

    name: str
    vocab_size: int
    seed: int = 0
    d_model: int = 32
    n_layers: int = 2
    n_heads: int = 2
    d_ff: int = 64
    window: int = 256

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.d_model // self.n_heads

    @property
    def vocab_blocks(self) -> tuple[int, int]:
        """(blocks, columns per block) of the unembedding; blocks * columns >= vocab_size."""
        limit = 8192 // self.d_model
        blocks = -(-self.vocab_size // limit)
        columns = -(-self.vocab_size // blocks)
        return blocks, min(limit, -(-columns // 8) * 8)


def config_for(name: str, vocab_size: int, seed: int = 0) -> ModelConfig:
    """Shape for a model name: the same name, vocabulary and seed give the same model.

    Raises:
        ValueError: the vocabulary has fewer than two tokens.
    """
    if vocab_size < 2:
        raise ValueError(f"model {name!r}: vocab_size must be at least 2, got {vocab_size}")
    return ModelConfig(name, vocab_size, seed)


def stream_seed(*parts: object) -> int:
    """A 64-bit seed from any parts, the same on every machine and in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
