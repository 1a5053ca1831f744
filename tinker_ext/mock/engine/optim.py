"""The optimizers: AdamW and an orthogonalised-momentum step, on one flat parameter vector.

AdamW: Loshchilov and Hutter 2017 (arXiv:1711.05101), decoupled weight decay, bias correction.
Dimuon: momentum orthogonalised by the quintic Newton-Schulz iteration of Muon (Jordan 2024,
kellerjordan.github.io/posts/muon); the hosted service has not published its own variant.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from tinker_ext.mock.engine.tiles import Array, product

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration, from the Muon write-up."""


@attrs.frozen
class AdamW:
    """Parameters of one AdamW step; the defaults are those of the service.

    ``grad_clip_norm`` scales the whole gradient down to that Euclidean norm; 0 switches it off.
    """

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@attrs.frozen
class Dimuon:
    """Parameters of one step with orthogonalised momentum."""

    learning_rate: float
    grad_clip_norm: float = 0.0
    beta1: float = 0.9


OptimParams = AdamW | Dimuon


class OptimizerState:
    """Moments and step count of one adapter."""

    def __init__(self, size: int, dtype: np.dtype[np.generic]) -> None:
        self.step = 0
        self.exp_avg: Array = np.zeros(size, dtype=dtype)
        self.exp_avg_sq: Array = np.zeros(size, dtype=dtype)

    def apply(
        self,
        values: Array,
        gradient: Array,
        params: OptimParams,
        matrices: Mapping[str, Array],
        momenta: Mapping[str, Array],
    ) -> dict[str, float]:
        """Updates ``values`` in place and returns the metrics of the step.

        Args:
            values: flat parameters.
            gradient: flat gradient; scaled in place when clipped.
            params: which optimizer, with what settings.
            matrices: ``values`` cut into named matrices (used by Dimuon).
            momenta: ``exp_avg`` cut the same way.

        Raises:
            ValueError: the gradient, or what the step would lead to, is not finite; values and
                moments are as they were.
        """
        norm = float(np.sqrt(np.square(gradient, dtype=np.float64).sum()))
        if not np.isfinite(norm):
            raise ValueError("the accumulated gradient is not finite; lower the learning rate")
        clipped = 0 < params.grad_clip_norm < norm
        if clipped:
            gradient *= gradient.dtype.type(params.grad_clip_norm / norm)
        changed = (values, self.exp_avg, self.exp_avg_sq)
        earlier = [vector.copy() for vector in changed]
        before = earlier[0]
        self.step += 1
        with np.errstate(over="ignore", invalid="ignore"):  # looked for below
            if isinstance(params, AdamW):
                self._adamw(values, gradient, params)
            else:
                self._dimuon(gradient, params, matrices, momenta)
        # One infinite number would stay in the model for ever, so such a step is not taken.
        if not all(np.isfinite(vector).all() for vector in changed):
            self.step -= 1
            for vector, old in zip(changed, earlier, strict=True):
                vector[:] = old
            raise ValueError(
                f"a step with learning rate {params.learning_rate:g} and gradient norm {norm:g} "
                "leaves the range of float32, so it was not taken; lower the learning rate or set "
                "grad_clip_norm"
            )
        moved = np.square(values - before, dtype=np.float64).sum()
        return {
            "grad_norm:mean": norm,
            "update_norm:mean": float(np.sqrt(moved)),
            "learning_rate:mean": params.learning_rate,
            "clipped:mean": float(clipped),
        }

    def _adamw(self, values: Array, gradient: Array, params: AdamW) -> None:
        number = values.dtype.type
        beta1, beta2 = number(params.beta1), number(params.beta2)
        self.exp_avg *= beta1
        self.exp_avg += (1 - beta1) * gradient
        self.exp_avg_sq *= beta2
        self.exp_avg_sq += (1 - beta2) * gradient * gradient
        if params.weight_decay:
            values *= number(1.0 - params.learning_rate * params.weight_decay)
        root = np.sqrt(self.exp_avg_sq / number(1.0 - params.beta2**self.step))
        root += number(params.eps)
        mean = self.exp_avg * number(params.learning_rate / (1.0 - params.beta1**self.step))
        # 0/0 with eps = 0: a parameter that never had a gradient stays where it is.
        values -= np.divide(mean, root, out=np.zeros_like(mean), where=root != 0)

    def _dimuon(
        self,
        gradient: Array,
        params: Dimuon,
        matrices: Mapping[str, Array],
        momenta: Mapping[str, Array],
    ) -> None:
        number = gradient.dtype.type
        self.exp_avg *= number(params.beta1)
        self.exp_avg += gradient
        rate = number(params.learning_rate)
        for name, momentum in momenta.items():
            target = matrices[name]
            if momentum.ndim == 3:
                flat = momentum.transpose(1, 0, 2).reshape(momentum.shape[1], -1)
                step = orthogonalised(flat).reshape(momentum.shape[1], momentum.shape[0], -1)
                target -= rate * step.transpose(1, 0, 2)
            else:
                target -= rate * orthogonalised(momentum)


def orthogonalised(matrix: Array) -> Array:
    """The matrix with its singular values pushed towards 1; a zero matrix stays zero."""
    norm = float(np.sqrt(np.square(matrix, dtype=np.float64).sum()))
    if norm == 0:
        return np.zeros_like(matrix)
    number = matrix.dtype.type
    x = matrix * number(1.0 / norm)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = np.ascontiguousarray(x.T)
    a, b, c = (number(value) for value in NEWTON_SCHULZ)
    for _ in range(5):
        gram = product(x, np.ascontiguousarray(x.T))
        x = a * x + product(b * gram + c * product(gram, gram), x)
    return np.ascontiguousarray(x.T) if tall else x
