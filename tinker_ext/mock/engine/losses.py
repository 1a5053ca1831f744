r"""The loss functions: log-probabilities of one datum to loss and slope.

Each takes the log-probabilities p_t of the targets under the model being trained and returns
(loss per element, d loss / d p_t); the loss of a batch is the plain sum. With A_t the advantage,
q_t the log-probability at sampling time and r_t = exp(p_t - q_t):

- cross_entropy         -w_t p_t
- importance_sampling   -r_t A_t
- ppo                   -min(r_t A_t, clip(r_t, lo, hi) A_t)         Schulman 2017, 1707.06347
- cispo                 -sg[clip(r_t, lo, hi)] p_t A_t               MiniMax-M1 2025, 2506.13585
- dro                   -(p_t A_t - beta/2 (p_t - q_t)^2)            Richemond 2024, 2405.19107
- gspo                  ppo with r_t replaced by the sequence ratio  Zheng 2025, 2507.18071

sg stops the gradient. The formulas follow the "Loss Functions" pages of the Tinker documentation
(tinker-docs.thinkingmachines.ai/tinker/losses), with lo = 0.8 and hi = 1.2 unless
``loss_fn_config`` or per-token tensors give clip_low_threshold and clip_high_threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tinker_ext.mock.engine.tiles import Array

LossConfig = Mapping[str, float | str]
LossFunction = Callable[[Array, Mapping[str, Array], LossConfig], tuple[Array, Array]]

CLIP_LOW = 0.8
CLIP_HIGH = 1.2
DRO_BETA = 0.05


def cross_entropy(
    logprobs: Array, inputs: Mapping[str, Array], config: LossConfig
) -> tuple[Array, Array]:
    """Weighted negative log-likelihood; weights default to 1 and are used exactly as given."""
    weights = _input(inputs, "weights", logprobs) if "weights" in inputs else None
    slope = -np.ones_like(logprobs) if weights is None else -weights
    return slope * logprobs, slope


def importance_sampling(
    logprobs: Array, inputs: Mapping[str, Array], config: LossConfig
) -> tuple[Array, Array]:
    """REINFORCE with an importance ratio, no clipping."""
    ratio, advantages = _ratio(logprobs, inputs)
    loss = -ratio * advantages
    return loss, loss.copy()


def ppo(logprobs: Array, inputs: Mapping[str, Array], config: LossConfig) -> tuple[Array, Array]:
    """Clipped surrogate of PPO: no gradient where the clipped branch is the smaller one."""
    ratio, advantages = _ratio(logprobs, inputs)
    return _clipped(ratio, advantages, *_clip(logprobs, inputs, config))


def cispo(logprobs: Array, inputs: Mapping[str, Array], config: LossConfig) -> tuple[Array, Array]:
    """Clipped importance weight, not differentiated, times the log-probability."""
    ratio, advantages = _ratio(logprobs, inputs)
    low, high = _clip(logprobs, inputs, config)
    slope = -np.clip(ratio, low, high) * advantages
    return slope * logprobs, slope


def dro(logprobs: Array, inputs: Mapping[str, Array], config: LossConfig) -> tuple[Array, Array]:
    """Direct reward optimisation: policy gradient with a quadratic pull to the sampler."""
    sampled = _input(inputs, "logprobs", logprobs)
    advantages = _input(inputs, "advantages", logprobs)
    beta = logprobs.dtype.type(_number(config, "beta", DRO_BETA))
    distance = logprobs - sampled
    loss = -(logprobs * advantages - beta / 2 * distance * distance)
    return loss, -(advantages - beta * distance)


def gspo(logprobs: Array, inputs: Mapping[str, Array], config: LossConfig) -> tuple[Array, Array]:
    """GSPO-token: the geometric mean ratio of the sequence, with each token's own gradient.

    The mean runs over ``sequence_ratio_mask`` (default: tokens with a non-zero advantage).
    """
    sampled = _input(inputs, "logprobs", logprobs)
    advantages = _input(inputs, "advantages", logprobs)
    chosen = advantages != 0
    if "sequence_ratio_mask" in inputs:
        chosen = _input(inputs, "sequence_ratio_mask", logprobs) != 0
    mean = (logprobs - sampled)[chosen].mean() if chosen.any() else logprobs.dtype.type(0)
    ratio = np.full_like(logprobs, np.exp(mean))
    return _clipped(ratio, advantages, *_clip(logprobs, inputs, config))


def stable_reinforce(
    logprobs: Array, inputs: Mapping[str, Array], config: LossConfig
) -> tuple[Array, Array]:
    """REINFORCE with a truncated, undifferentiated importance weight.

    The hosted service has not published its formula; this is the standard truncated estimator
    (Ionides 2008): -sg[min(r_t, hi)] p_t A_t, and plain REINFORCE when no ``logprobs`` are given.
    """
    advantages = _input(inputs, "advantages", logprobs)
    weight = np.ones_like(logprobs)
    if "logprobs" in inputs:
        ratio, _ = _ratio(logprobs, inputs)
        weight = np.minimum(ratio, _clip(logprobs, inputs, config)[1])
    slope = -weight * advantages
    return slope * logprobs, slope


LOSSES: Mapping[str, LossFunction] = {
    "cross_entropy": cross_entropy,
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
    "dro": dro,
    "gspo": gspo,
    "stable_reinforce": stable_reinforce,
}


_CLIPPING = ("clip_low_threshold", "clip_high_threshold")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "cross_entropy": (),
    "importance_sampling": (),
    "ppo": _CLIPPING,
    "cispo": _CLIPPING,
    "dro": ("beta",),
    "gspo": _CLIPPING,
    "stable_reinforce": _CLIPPING,
}
"""Loss → names that its loss_fn_config may hold."""


def check_settings(name: str, config: LossConfig) -> None:
    """Refuse settings that the loss would not read.

    Raises:
        ValueError: A name is not one of the loss; the message lists those that are.
    """
    known = SETTINGS[name]
    unknown = sorted(set(config) - set(known))
    if unknown:
        hint = f"known: {', '.join(known)}" if known else "it takes no settings"
        raise ValueError(f"loss_fn_config of {name} has no {unknown[0]!r}; {hint}")


def measures(
    name: str, logprobs: Array, inputs: Mapping[str, Array], config: LossConfig
) -> dict[str, float]:
    """How far the policy has moved from the one that sampled, over the tokens that are scored.

    Returns:
        `ratio:mean` and `kl:mean` (the estimator q - p of the divergence from the sampler), and
        for clipping losses `clip_fraction:mean`, the part of tokens outside the bounds. Nothing
        for losses without sampled log-probabilities.
    """
    if name == "cross_entropy" or "logprobs" not in inputs:
        return {}
    scored = _input(inputs, "advantages", logprobs) != 0
    if not scored.any():
        return {"ratio:mean": 1.0, "kl:mean": 0.0}
    distance = (logprobs - _input(inputs, "logprobs", logprobs))[scored].astype(np.float64)
    with np.errstate(over="ignore"):
        ratio = np.exp(distance)
    found = {"ratio:mean": float(ratio.mean()), "kl:mean": float(-distance.mean())}
    if _CLIPPING[0] in SETTINGS[name]:
        low, high = (bound[scored] for bound in _clip(logprobs, inputs, config))
        if name == "gspo":
            ratio = np.full_like(ratio, np.exp(distance.mean()))
        found["clip_fraction:mean"] = float(((ratio < low) | (ratio > high)).mean())
    return found


def loss_named(name: str) -> LossFunction:
    """The loss of a name.

    Raises:
        ValueError: no such loss; the message lists the known ones.
    """
    if name not in LOSSES:
        raise ValueError(f"unknown loss_fn {name!r}; known: {', '.join(LOSSES)}")
    return LOSSES[name]


def _input(inputs: Mapping[str, Array], name: str, like: Array) -> Array:
    if name not in inputs:
        raise ValueError(f"loss_fn_inputs has no {name} (it has {', '.join(sorted(inputs))})")
    values = np.asarray(inputs[name], dtype=like.dtype)
    if values.size != like.size:
        raise ValueError(
            f"loss_fn_inputs.{name} has {values.size} values; target_tokens has {like.size}"
        )
    return values.reshape(like.shape)


def _ratio(logprobs: Array, inputs: Mapping[str, Array]) -> tuple[Array, Array]:
    sampled = _input(inputs, "logprobs", logprobs)
    advantages = _input(inputs, "advantages", logprobs)
    # A token that nobody scores may carry any sampled logprob, 0 included: its ratio is unused.
    distance = np.where(advantages == 0, 0, logprobs - sampled)
    with np.errstate(over="ignore"):  # an infinite ratio is reported by the optimizer step
        return np.exp(distance), advantages


def _number(config: LossConfig, name: str, default: float) -> float:
    value = config.get(name, default)
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"loss_fn_config.{name} must be a number, got {value!r}") from None


def _clip(logprobs: Array, inputs: Mapping[str, Array], config: LossConfig) -> tuple[Array, Array]:
    bounds = []
    for name, default in (("clip_low_threshold", CLIP_LOW), ("clip_high_threshold", CLIP_HIGH)):
        if name in inputs:
            bounds.append(_input(inputs, name, logprobs))
        else:
            bounds.append(np.full_like(logprobs, _number(config, name, default)))
    return bounds[0], bounds[1]


def _clipped(ratio: Array, advantages: Array, low: Array, high: Array) -> tuple[Array, Array]:
    plain = ratio * advantages
    clipped = np.clip(ratio, low, high) * advantages
    slope = np.where(plain <= clipped, -plain, 0).astype(ratio.dtype)
    return -np.minimum(plain, clipped), slope
