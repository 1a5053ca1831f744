"""What a right server computes, in numpy: Adam's factor, the losses, and how to compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinker_ext.conform.registry import fail

Floats = npt.NDArray[np.float64]

RELATIVE = 0.03
"""Steps may differ by this part of their length: servers add up in different orders."""
ABSOLUTE = 2e-4
"""Log-probabilities of the same weights may differ by this much."""
SCORE = 0.02
"""Sampler and trainer may differ by this much, on average: they run different kernels."""


def adam_factor(
    gradients: Sequence[float], beta1: float = 0.9, beta2: float = 0.95, eps: float = 0.0
) -> float:
    """How far Adam's last step moves a parameter, in units of learning rate × sign.

    Args:
        gradients: Gradient of each step as a multiple of one and the same gradient.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        eps: Added to the root of the second moment.

    Example:
        >>> round(adam_factor([1.0]), 6), round(adam_factor([1.0, 0.0]), 3)
        (1.0, 0.679)
    """
    mean = square = 0.0
    for gradient in gradients:
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
    steps = len(gradients)
    corrected = square / (1 - beta2**steps)
    return mean / (1 - beta1**steps) / (math.sqrt(corrected) + eps)


def _importance(p: Floats, q: Floats, a: Floats) -> Floats:
    return -np.exp(p - q) * a


def _ppo(p: Floats, q: Floats, a: Floats) -> Floats:
    ratio = np.exp(p - q)
    return -np.minimum(ratio * a, np.clip(ratio, 0.8, 1.2) * a)


def _cispo(p: Floats, q: Floats, a: Floats) -> Floats:
    return -np.clip(np.exp(p - q), 0.8, 1.2) * p * a


def _dro(p: Floats, q: Floats, a: Floats) -> Floats:
    return -(p * a - 0.05 / 2 * (p - q) ** 2)


LOSSES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "importance_sampling": _importance,
    "ppo": _ppo,
    "cispo": _cispo,
    "dro": _dro,
}
"""Loss per token from log-probability, sampled log-probability and advantage.

Clip bounds 0.8 and 1.2, beta 0.05: sent along by the checks, so no default is relied on.
"""

LOSS_CONFIG: Mapping[str, Mapping[str, float]] = {
    "ppo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "cispo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "dro": {"beta": 0.05},
}


def flat(values: Any) -> Floats:
    """Any numbers as one flat float64 array."""
    return np.asarray(values, dtype=np.float64).reshape(-1)


def same(what: str, got: Any, wanted: Any, tolerance: float = ABSOLUTE) -> None:
    """Fail unless two lists of numbers are equal but for rounding."""
    ours, theirs = flat(got), flat(wanted)
    if ours.shape != theirs.shape:
        fail(f"{what}: {ours.size} values instead of {theirs.size}")
    if not ours.size:
        fail(f"{what}: no values at all")
    if not np.isfinite(ours).all():
        fail(f"{what}: {show(ours)} is not finite")
    bound = tolerance * np.maximum(1.0, np.abs(theirs))
    worst = int(np.argmax(np.abs(ours - theirs) / bound))
    if abs(ours[worst] - theirs[worst]) > bound[worst]:
        fail(
            f"{what}: value {worst} is {ours[worst]:.6g} and should be {theirs[worst]:.6g} "
            f"(within {bound[worst]:.2g})"
        )


def same_step(what: str, start: Any, got: Any, wanted: Any) -> None:
    """Fail unless two training runs from one start ended at the same place."""
    origin, ours, theirs = flat(start), flat(got), flat(wanted)
    moved, target = ours - origin, theirs - origin
    length = float(np.abs(target).max())
    if length < 10 * ABSOLUTE:
        fail(f"{what}: the step to compare with moved log-probabilities by only {length:.2g}")
    if not np.isfinite(ours).all():
        fail(f"{what}: log-probabilities are not finite any more: {show(ours)}")
    apart = float(np.abs(moved - target).max())
    if apart > RELATIVE * length + ABSOLUTE:
        factor = float(moved @ target / (target @ target))
        fail(
            f"{what}: log-probabilities moved {factor:.3f} times as far as they should, up to "
            f"{apart:.2g} off (the step itself is {length:.2g} long)"
        )


def unmoved(what: str, start: Any, got: Any, wanted: Any) -> None:
    """Fail unless `got` is still at the start, where a working step would be at `wanted`."""
    length = float(np.abs(flat(wanted) - flat(start)).max())
    if length < 10 * ABSOLUTE:
        fail(f"{what}: the step to compare with moved log-probabilities by only {length:.2g}")
    moved = float(np.abs(flat(got) - flat(start)).max())
    if not moved <= RELATIVE * length + ABSOLUTE:
        fail(f"{what}: log-probabilities moved by {moved:.2g} and should stay")


def show(values: Any, most: int = 8) -> str:
    """The first numbers of a list, short."""
    numbers = flat(values)
    text = ", ".join(f"{value:.6g}" for value in numbers[:most])
    return f"[{text}{', …' if numbers.size > most else ''}]"
