"""The transformer body: token ids to final hidden states, and gradients back to the weights.

Pre-norm decoder blocks with a squared-ReLU MLP (So et al. 2021, arXiv:2109.08668). The backward
pass yields one gradient per datum, so that the caller can add them in a fixed order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from tinker_ext.mock.engine.config import ModelConfig
from tinker_ext.mock.engine.layers import (
    AttentionTrace,
    attention,
    attention_backward,
    rms_norm,
    rms_norm_backward,
)
from tinker_ext.mock.engine.scratch import SCRATCH
from tinker_ext.mock.engine.tiles import Array, linear, weight_gradient

Weights = Mapping[str, Array]


@attrs.frozen(eq=False)
class LayerTrace:
    """Intermediate values of one block, kept for its backward pass."""

    normed: Array
    inverse: Array
    attended: Array
    attention: AttentionTrace
    normed_mlp: Array
    inverse_mlp: Array
    rectified: Array
    squared: Array


@attrs.frozen(eq=False)
class BodyTrace:
    """Result of `forward`: ``hidden`` (batch, tokens, d_model) and what `backward` needs."""

    hidden: Array
    inverse: Array
    layers: tuple[LayerTrace, ...]


def forward(
    config: ModelConfig,
    weights: Weights,
    embedded: Array,
    cache: list[tuple[Array, Array]] | None = None,
) -> BodyTrace:
    """Runs the blocks over embedded tokens (batch, tokens, d_model), tokens padded to tiles.

    Args:
        config: shape of the model.
        weights: linear layers by name.
        embedded: embeddings; rows beyond a sequence's end may hold anything finite.
        cache: receives the keys and the values of each layer when given.
    """
    x = embedded
    layers = []
    for layer in range(config.n_layers):
        x, trace = _block(config, weights, layer, x, cache)
        layers.append(trace)
    hidden, inverse = rms_norm(x)
    return BodyTrace(hidden, inverse, tuple(layers))


def backward(
    config: ModelConfig,
    weights: Weights,
    trace: BodyTrace,
    dhidden: Array,
    wanted: Collection[str],
) -> dict[str, Array]:
    """Per-datum gradients (batch, inputs, outputs) of the wanted linear layers."""
    gradients: dict[str, Array] = {}
    dx = rms_norm_backward(dhidden, trace.hidden, trace.inverse)
    for layer in reversed(range(config.n_layers)):
        dx = _block_backward(config, weights, layer, trace.layers[layer], dx, wanted, gradients)
    return gradients


def _heads(config: ModelConfig, x: Array) -> Array:
    return x.reshape(*x.shape[:2], config.n_heads, config.head_dim)


def _square(x: Array) -> Array:
    return np.multiply(x, x, out=SCRATCH.empty(x.shape, x.dtype))


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:2], -1)


def _block(
    config: ModelConfig,
    weights: Weights,
    layer: int,
    x: Array,
    cache: list[tuple[Array, Array]] | None,
) -> tuple[Array, LayerTrace]:
    attn, mlp = f"layers.{layer}.self_attn.", f"layers.{layer}.mlp."
    normed, inverse = rms_norm(x)
    q = _heads(config, linear(normed, weights[attn + "q_proj"]))
    q *= x.dtype.type(config.head_dim**-0.5)
    k = _heads(config, linear(normed, weights[attn + "k_proj"]))
    v = _heads(config, linear(normed, weights[attn + "v_proj"]))
    if cache is not None:
        cache.append((k, v))
    out, attention_trace = attention(q, k, v, config.window)
    attended = _flat(out)
    middle = linear(attended, weights[attn + "o_proj"])
    middle += x
    normed_mlp, inverse_mlp = rms_norm(middle)
    rectified = linear(normed_mlp, weights[mlp + "up_proj"])
    np.maximum(rectified, 0, out=rectified)
    squared = _square(rectified)
    out_x = linear(squared, weights[mlp + "down_proj"])
    out_x += middle
    trace = LayerTrace(
        normed, inverse, attended, attention_trace, normed_mlp, inverse_mlp, rectified, squared
    )
    return out_x, trace


def _block_backward(
    config: ModelConfig,
    weights: Weights,
    layer: int,
    trace: LayerTrace,
    dx: Array,
    wanted: Collection[str],
    gradients: dict[str, Array],
) -> Array:
    attn, mlp = f"layers.{layer}.self_attn.", f"layers.{layer}.mlp."

    def through(name: str, source: Array, dy: Array) -> Array:
        if name in wanted:
            gradients[name] = weight_gradient(source, dy)
        return linear(dy, weights[name].T)

    dr = through(mlp + "down_proj", trace.squared, dx)
    dr *= trace.rectified
    dr *= 2
    dnormed = through(mlp + "up_proj", trace.normed_mlp, dr)
    dmiddle = rms_norm_backward(dnormed, trace.normed_mlp, trace.inverse_mlp)
    dmiddle += dx

    dattended = through(attn + "o_proj", trace.attended, dmiddle)
    dq, dk, dv = attention_backward(_heads(config, dattended), trace.attention)
    dq *= dq.dtype.type(config.head_dim**-0.5)
    dnormed = through(attn + "q_proj", trace.normed, _flat(dq))
    dnormed += through(attn + "k_proj", trace.normed, _flat(dk))
    dnormed += through(attn + "v_proj", trace.normed, _flat(dv))
    din = rms_norm_backward(dnormed, trace.normed, trace.inverse)
    din += dmiddle
    return din
