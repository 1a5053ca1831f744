"""Step-by-step decoding of several continuations of one prompt, with a key-value cache."""

from __future__ import annotations

import numpy as np

from tinker_ext.mock.engine import model, unembed
from tinker_ext.mock.engine.base import UNEMBED, BaseModel
from tinker_ext.mock.engine.layers import distance_bias, rms_norm
from tinker_ext.mock.engine.tiles import ROWS, Array, linear, padded_length


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
        row = self._logits(trace.hidden[0, length - 1 : length])
        self.logits = np.repeat(row, copies, axis=0)

    def step(self, tokens: Array) -> None:
        """Appends one token to each continuation and updates ``logits``."""
        config, weights = self._base.config, self._weights
        # One tile per ROWS continuations, so that a tile's shape does not depend on their number.
        shape = (padded_length(self._copies) // ROWS, ROWS, config.d_model)
        x = np.zeros(shape, dtype=self._base.embedding.dtype)
        self._rows(x)[...] = self._base.embedding[tokens]
        for layer in range(config.n_layers):
            attn, mlp = f"layers.{layer}.self_attn.", f"layers.{layer}.mlp."
            normed, _ = rms_norm(x)
            attended = np.zeros_like(x)
            self._rows(attended)[...] = self._attend(layer, attn, normed)
            x = x + linear(attended, weights[attn + "o_proj"])
            normed, _ = rms_norm(x)
            rectified = np.maximum(linear(normed, weights[mlp + "up_proj"]), 0)
            x = x + linear(rectified * rectified, weights[mlp + "down_proj"])
        self._position += 1
        hidden, _ = rms_norm(self._rows(x))
        self.logits = self._logits(hidden)

    def _rows(self, x: Array) -> Array:
        return x.reshape(-1, x.shape[-1])[: self._copies]

    def _attend(self, layer: int, attn: str, normed: Array) -> Array:
        config, weights = self._base.config, self._weights

        def project(name: str) -> Array:
            y = self._rows(linear(normed, weights[attn + name]))
            return y.reshape(self._copies, 1, config.n_heads, config.head_dim)

        q = project("q_proj").transpose(0, 2, 1, 3)
        q *= normed.dtype.type(config.head_dim**-0.5)
        here = self._position - self._first
        self._keys[layer][:, :, here] = project("k_proj")[:, 0]
        self._values[layer][:, :, here] = project("v_proj")[:, 0]
        start = max(0, (self._position // ROWS + 1) * ROWS - config.window - self._first)
        keys = self._keys[layer][:, :, start : here + 1]
        values = self._values[layer][:, :, start : here + 1]
        scores = q @ keys.swapaxes(-1, -2)
        distance = np.arange(keys.shape[2] - 1, -1, -1)
        scores += distance_bias(config.n_heads, distance[None]).astype(scores.dtype)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        out: Array = scores @ values
        return out.reshape(self._copies, config.d_model)

    def _logits(self, hidden: Array) -> Array:
        base = self._base
        return unembed.full_logits(hidden, self._weights[UNEMBED], base.bias, base.vocab_size)
