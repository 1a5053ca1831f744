"""Low-rank adapters: their parameters, the merged weights and the gradients they receive.

Each adapted layer computes ``x @ (W + alpha / rank * A @ B)`` (Hu et al. 2021, arXiv:2106.09685)
with alpha = 32. B starts at zero, so a new adapter is exactly the base model. All parameters are
views of one flat vector, which is what the optimizer works on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from tinker_ext.mock.engine.base import UNEMBED, BaseModel, linear_shapes
from tinker_ext.mock.engine.config import ModelConfig, stream_seed
from tinker_ext.mock.engine.tiles import Array, ordered_sum, product

ALPHA = 32.0

A_GAIN = 1.4
"""Size of A relative to the usual 1/sqrt(inputs). The model is far narrower than a real one, so
each step at a customary learning rate would move it far less; the gain makes up for it."""


@attrs.frozen
class LoraSpec:
    """Which layers an adapter trains, and how."""

    rank: int = 32
    seed: int = 0
    train_mlp: bool = True
    train_attn: bool = True
    train_unembed: bool = True

    def __attrs_post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"LoRA rank must be at least 1, got {self.rank}")
        if not (self.train_mlp or self.train_attn or self.train_unembed):
            raise ValueError("train at least one of train_mlp, train_attn, train_unembed")

    def trains(self, layer: str) -> bool:
        """Whether a linear layer of that name is adapted."""
        if layer == UNEMBED:
            return self.train_unembed
        return self.train_attn if ".self_attn." in layer else self.train_mlp


class LoraParameters:
    """The A and B matrices of one adapter in one flat vector, ``values``."""

    def __init__(self, base: BaseModel, spec: LoraSpec) -> None:
        self.base = base
        self.spec = spec
        self.scale = ALPHA / spec.rank
        layers, self._places, size = _layout(base.config, spec)
        self.layers = list(layers)
        self.values = np.zeros(size, dtype=base.embedding.dtype)
        views = self.views(self.values)
        for name, first in _first_values(base.config, spec).items():
            views[name][...] = first

    def views(self, vector: Array) -> dict[str, Array]:
        """A vector as long as ``values``, cut into named matrices that share its memory."""
        return {name: vector[part].reshape(shape) for name, (part, shape) in self._places.items()}

    def merged(self) -> dict[str, Array]:
        """Weights of the adapted model by layer; layers not trained are the base's own."""
        weights = dict(self.base.weights)
        views = self.views(self.values)
        for name in self.layers:
            a, b = views[name + ".lora_A"], views[name + ".lora_B"]
            if name == UNEMBED:
                delta = np.stack([product(a, block) for block in b])
            else:
                delta = product(a, b)
            weights[name] = weights[name] + delta * a.dtype.type(self.scale)
        return weights

    def project(self, gradients: Mapping[str, Array]) -> Array:
        """Gradient of ``values`` from gradients of the merged weights."""
        flat = np.empty_like(self.values)  # every part is written below
        out, views = self.views(flat), self.views(self.values)
        for name in self.layers:
            a, b, g = views[name + ".lora_A"], views[name + ".lora_B"], gradients[name]
            if name == UNEMBED:
                parts = np.stack([product(x, y.T) for x, y in zip(g, b, strict=True)])
                out[name + ".lora_A"][...] = ordered_sum(parts, axis=0)
                for target, x in zip(out[name + ".lora_B"], g, strict=True):
                    target[...] = product(a.T, x)
            else:
                out[name + ".lora_A"][...] = product(g, b.T)
                out[name + ".lora_B"][...] = product(a.T, g)
        flat *= flat.dtype.type(self.scale)
        return flat

    def export(self, vector: Array) -> dict[str, Array]:
        """A vector as float32 matrices under PEFT names: A (rank, inputs), B (outputs, rank)."""
        result = {}
        for name, view in self.views(vector).items():
            matrix = view
            if view.ndim == 3:
                matrix = view.transpose(1, 0, 2).reshape(view.shape[1], -1)
                matrix = matrix[:, : self.base.vocab_size]
            result[peft_name(name)] = np.ascontiguousarray(matrix.T, dtype=np.float32)
        return result

    def restore(self, vector: Array, tensors: Mapping[str, Array]) -> None:
        """Fills a vector from the result of `export`.

        Raises:
            ValueError: a matrix is missing, or has the shape of another rank or model.
        """
        names = self.views(vector)
        found = {name: _find(tensors, peft_name(name)) for name in names}
        for name, view in names.items():
            matrix = found[name].T
            if view.ndim == 3:
                padded = np.zeros((view.shape[1], view.shape[0] * view.shape[2]), view.dtype)
                if matrix.shape != (view.shape[1], self.base.vocab_size):
                    raise _mismatch(name, matrix.shape, (view.shape[1], self.base.vocab_size))
                padded[:, : self.base.vocab_size] = matrix
                matrix = padded.reshape(view.shape[1], view.shape[0], -1).transpose(1, 0, 2)
            if matrix.shape != view.shape:
                raise _mismatch(name, matrix.shape, view.shape)
            view[...] = matrix


Places = Mapping[str, tuple[slice, tuple[int, ...]]]


# What two adapters of one kind have in common is worked out once: servers of tests come and go.
@functools.lru_cache(maxsize=64)
def _layout(config: ModelConfig, spec: LoraSpec) -> tuple[Sequence[str], Places, int]:
    """Return the adapted layers, where each matrix stands in the flat vector, and its length."""
    shapes: dict[str, tuple[int, ...]] = {}
    every = linear_shapes(config)
    layers = tuple(name for name in every if spec.trains(name))
    for name in layers:
        inputs, outputs = every[name]
        shapes[name + ".lora_A"] = (inputs, spec.rank)
        shapes[name + ".lora_B"] = (spec.rank, outputs)
        if name == UNEMBED:
            blocks, columns = config.vocab_blocks
            shapes[name + ".lora_B"] = (blocks, spec.rank, columns)
    places: dict[str, tuple[slice, tuple[int, ...]]] = {}
    size = 0
    for name, shape in shapes.items():
        places[name] = slice(size, size + math.prod(shape)), shape
        size += math.prod(shape)
    return layers, places, size


@functools.lru_cache(maxsize=16)
def _first_values(config: ModelConfig, spec: LoraSpec) -> Mapping[str, Array]:
    """Return what every A starts as."""
    layers, places, _ = _layout(config, spec)
    first: dict[str, Array] = {}
    for name in layers:
        shape = places[name + ".lora_A"][1]
        rng = np.random.Generator(np.random.PCG64(stream_seed("lora", spec.seed, name)))
        first[name + ".lora_A"] = (
            rng.standard_normal(shape, dtype=np.float32) * A_GAIN / shape[0] ** 0.5
        )
    return first


def peft_name(name: str) -> str:
    """Checkpoint name of a parameter, as PEFT writes it."""
    prefix = "base_model.model." if name.startswith(UNEMBED) else "base_model.model.model."
    return f"{prefix}{name}.weight"


def target_modules(layers: Iterable[str]) -> list[str]:
    """Short module names for adapter_config.json, sorted."""
    return sorted({layer.rsplit(".", 1)[-1] for layer in layers})


def _find(tensors: Mapping[str, Array], name: str) -> Array:
    if name not in tensors:
        raise ValueError(f"checkpoint has no {name}: it was saved with other train_* flags")
    return tensors[name]


def _mismatch(name: str, got: tuple[int, ...], want: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"checkpoint {name} has shape {got}, the adapter needs {want}: "
        "it was saved with another rank or base model"
    )
