"""Each loss against its formula written out token by token."""

import math

import numpy as np
import pytest

from tinker_ext.mock.engine.losses import LOSSES, SETTINGS, check_settings, loss_named, measures

RNG = np.random.default_rng(11)
N = 9
LOGPROBS = RNG.normal(-2, 0.6, N)
SAMPLED = RNG.normal(-2, 0.6, N)
ADVANTAGES = RNG.standard_normal(N)
INPUTS = {"logprobs": SAMPLED, "advantages": ADVANTAGES, "target_tokens": np.zeros(N, int)}


def clip(value, low, high):
    return min(max(value, low), high)


def reference(name, p, q, a, config):
    """The loss of one token, from the definition."""
    low = config.get("clip_low_threshold", 0.8)
    high = config.get("clip_high_threshold", 1.2)
    ratio = math.exp(p - q)
    if name == "importance_sampling":
        return -ratio * a
    if name == "ppo":
        return -min(ratio * a, clip(ratio, low, high) * a)
    if name == "cispo":
        return -clip(ratio, low, high) * p * a
    if name == "stable_reinforce":
        return -min(ratio, high) * p * a
    beta = config.get("beta", 0.05)
    return -(p * a - 0.5 * beta * (p - q) ** 2)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo", "dro", "stable_reinforce"])
@pytest.mark.parametrize(
    "config", [{}, {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05, "beta": 0.7}]
)
def test_loss_matches_its_formula(name, config):
    """M40: importance_sampling, ppo, cispo, dro with and without loss_fn_config."""
    loss, _ = LOSSES[name](LOGPROBS, INPUTS, config)
    expected = [
        reference(name, p, q, a, config)
        for p, q, a in zip(LOGPROBS, SAMPLED, ADVANTAGES, strict=True)
    ]
    np.testing.assert_allclose(loss, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "dro", "cross_entropy"])
def test_slope_is_the_derivative(name):
    """M40: the slope of the differentiable losses, by central differences."""
    inputs = {**INPUTS, "weights": ADVANTAGES}
    _, slope = LOSSES[name](LOGPROBS, inputs, {})
    step = 1e-6
    up, _ = LOSSES[name](LOGPROBS + step, inputs, {})
    down, _ = LOSSES[name](LOGPROBS - step, inputs, {})
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


def test_cross_entropy_uses_weights_as_given():
    """M40: negative, fractional and zero weights; 1 when absent."""
    weights = np.array([1, 0, -2, 0.25, 3, 0, 1, 1, 1.0])
    loss, slope = LOSSES["cross_entropy"](LOGPROBS, {"weights": weights}, {})
    np.testing.assert_array_equal(loss, -weights * LOGPROBS)
    np.testing.assert_array_equal(slope, -weights)
    plain, _ = LOSSES["cross_entropy"](LOGPROBS, {}, {})
    np.testing.assert_array_equal(plain, -LOGPROBS)


def test_ppo_stops_the_gradient_of_clipped_tokens():
    """M40: no slope where the clipped branch is smaller, full slope elsewhere."""
    q = np.zeros(4)
    p = np.log([1.5, 1.5, 0.5, 0.5])
    a = np.array([1.0, -1.0, 1.0, -1.0])
    _, slope = LOSSES["ppo"](p, {"logprobs": q, "advantages": a}, {})
    np.testing.assert_allclose(slope, [0, 1.5, -0.5, 0])


def test_per_token_clip_thresholds_win_over_the_config():
    """M40: clip thresholds may be tensors of the datum."""
    inputs = {
        "logprobs": np.zeros(2),
        "advantages": np.ones(2),
        "clip_low_threshold": np.array([0.0, 0.0]),
        "clip_high_threshold": np.array([1.1, 9.0]),
    }
    loss, _ = LOSSES["ppo"](np.log([2.0, 2.0]), inputs, {"clip_high_threshold": 1.5})
    np.testing.assert_allclose(loss, [-1.1, -2.0])


def test_gspo_uses_one_ratio_per_sequence():
    """M40: the geometric mean of the ratios over the mask."""
    mask = np.array([0, 0, 1, 1, 1, 0, 1, 1, 0.0])
    wide = {"clip_low_threshold": 0.0, "clip_high_threshold": 100.0}
    loss, slope = LOSSES["gspo"](LOGPROBS, {**INPUTS, "sequence_ratio_mask": mask}, wide)
    ratio = math.exp((LOGPROBS - SAMPLED)[mask != 0].mean())
    np.testing.assert_allclose(loss, -ratio * ADVANTAGES, rtol=1e-12)
    np.testing.assert_allclose(slope, loss, rtol=1e-12)


def test_tokens_without_advantage_never_overflow():
    """M40: prompt tokens usually carry logprob 0 and advantage 0."""
    inputs = {"logprobs": np.array([-500.0, -1.0]), "advantages": np.array([0.0, 1.0])}
    for name in ("importance_sampling", "ppo", "cispo"):
        loss, slope = LOSSES[name](np.array([-1.0, -1.0]), inputs, {})
        assert loss[0] == slope[0] == 0
        assert np.isfinite(loss).all()


def test_missing_and_misshaped_inputs_are_named():
    """M40: the message names the input that is wrong."""
    with pytest.raises(ValueError, match="no advantages"):
        LOSSES["ppo"](LOGPROBS, {"logprobs": SAMPLED}, {})
    with pytest.raises(ValueError, match="logprobs has 3 values"):
        LOSSES["dro"](LOGPROBS, {**INPUTS, "logprobs": np.zeros(3)}, {})
    with pytest.raises(ValueError, match="beta must be a number"):
        LOSSES["dro"](LOGPROBS, INPUTS, {"beta": "much"})
    with pytest.raises(ValueError, match="known: cross_entropy"):
        loss_named("l2")


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_setting_the_loss_does_not_read_is_refused(name):
    """F41: with the known names; `clip` for ppo trained with the defaults before."""
    with pytest.raises(ValueError, match=f"loss_fn_config of {name} has no 'clip'"):
        check_settings(name, {"clip": 0.2})
    check_settings(name, dict.fromkeys(SETTINGS[name], 0.5))


def test_policy_losses_measure_how_far_they_moved():
    """M13, M40: ratio, divergence and clipped part over the scored tokens, from the definition."""
    advantages = ADVANTAGES.copy()
    advantages[:3] = 0
    inputs = {**INPUTS, "advantages": advantages}
    distance = (LOGPROBS - SAMPLED)[3:]
    ratio = np.exp(distance)
    found = measures("ppo", LOGPROBS, inputs, {})
    assert found["ratio:mean"] == pytest.approx(ratio.mean())
    assert found["kl:mean"] == pytest.approx(-distance.mean())
    outside = sum(1 for r in ratio if not 0.8 <= r <= 1.2)
    assert 0 < outside < len(ratio)
    assert found["clip_fraction:mean"] == pytest.approx(outside / len(ratio))
    wide = {"clip_low_threshold": 0.0, "clip_high_threshold": 100.0}
    assert measures("ppo", LOGPROBS, inputs, wide)["clip_fraction:mean"] == 0.0
    assert "clip_fraction:mean" not in measures("importance_sampling", LOGPROBS, inputs, {})
    assert measures("cross_entropy", LOGPROBS, INPUTS, {}) == {}
    same = measures("ppo", SAMPLED, inputs, {})
    assert same == {"ratio:mean": 1.0, "kl:mean": 0.0, "clip_fraction:mean": 0.0}
