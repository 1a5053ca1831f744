"""Step-by-step decoding of several continuations of one prompt, with a key-value cache."""

from __future__ import annotations

import numpy as np

import tinker_ext.mock.engine.model as model
from tinker_ext.mock.engine.base import UNEMBED, BaseModel
from tinker_ext.mock.engine.layers import recent_bias, rms_norm
from tinker_ext.mock.engine.tiles import ROWS, Array, padded_length


class Decoder:
    """The cache of ``copies`` continuations of a prompt.

    ``logits`` are those of the next token, (copies, vocabulary). A continuation's numbers do not
    depend on how many others there are.
    """

    def __init__(
        self, base: BaseModel, weights: model.Weights, prompt: Array, copies: int, room: int
    ) -> None:
        self._base = base
        self._weights = weights
        self._copies = copies
        config = base.config
        length = len(prompt)
        padded = np.zeros((1, padded_length(length)), dtype=np.int64)
        padded[0, :length] = prompt
        cache: list[tuple[Array, Array]] = []
        trace = model.forward(config, weights, base.embedding[padded], cache)
        self._first = max(0, (length // ROWS + 1) * ROWS - config.window)
        self._position = length
        shape = (copies, config.n_heads, length - self._first + room, config.head_dim)
        self._keys = [np.zeros(shape, dtype=base.embedding.dtype) for _ in cache]
        self._values = [np.zeros(shape, dtype=base.embedding.dtype) for _ in cache]
        for layer, (k, v) in enumerate(cache):
            kept = slice(self._first, length)
            self._keys[layer][:, :, : length - self._first] = k[:, kept].transpose(0, 2, 1, 3)
            self._values[layer][:, :, : length - self._first] = v[:, kept].transpose(0, 2, 1, 3)
        row = self._logits(trace.hidden[:, length - 1 : length])
        self.logits = np.repeat(row, copies, axis=0)

    def step(self, tokens: Array) -> None:
        """Appends one token to each continuation and updates ``logits``."""
        config, weights = self._base.config, self._weights
        # One row per product: its bits cannot depend on the other continuations.
        x = self._base.embedding[tokens][:, None]
        for layer in range(config.n_layers):
            attn, mlp = f"layers.{layer}.self_attn.", f"layers.{layer}.mlp."
            x = x + self._attend(layer, attn, rms_norm(x)[0]) @ weights[attn + "o_proj"]
            rectified = np.maximum(rms_norm(x)[0] @ weights[mlp + "up_proj"], 0)
            x = x + (rectified * rectified) @ weights[mlp + "down_proj"]
        self._position += 1
        self.logits = self._logits(rms_norm(x)[0])

    def _attend(self, layer: int, attn: str, normed: Array) -> Array:
        config, weights = self._base.config, self._weights
        shape = (self._copies, config.n_heads, 1, config.head_dim)
        q, k, v = (
            (normed @ weights[attn + name]).reshape(shape)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        q *= normed.dtype.type(config.head_dim**-0.5)
        here = self._position - self._first
        self._keys[layer][:, :, here : here + 1] = k
        self._values[layer][:, :, here : here + 1] = v
        start = max(0, (self._position // ROWS + 1) * ROWS - config.window - self._first)
        keys = self._keys[layer][:, :, start : here + 1]
        scores = q @ keys.swapaxes(-1, -2)
        scores += recent_bias(config.n_heads, keys.shape[2], scores.dtype.name)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        out: Array = scores @ self._values[layer][:, :, start : here + 1]
        return out.reshape(self._copies, 1, config.d_model)

    def _logits(self, hidden: Array) -> Array:
        base = self._base
        blocks = hidden[:, None] @ self._weights[UNEMBED]
        blocks += base.bias
        return blocks.reshape(len(hidden), -1)[:, : base.vocab_size]
