"""The hand-written backward pass against finite differences, in double precision."""

import numpy as np
import pytest

from tinker_ext.mock.engine import AdamW, Adapter, Datum

STEP = 1e-5


def perturbed(base, rank=3, **flags):
    """An adapter away from its starting point, where the gradients of A vanish."""
    adapter = Adapter(base, rank, seed=1, **flags)
    rng = np.random.default_rng(0)
    state = adapter.state_dict()
    noisy = {k: v + 0.1 * rng.standard_normal(v.shape) for k, v in state.items()}
    adapter.load_state_dict(noisy)
    return adapter


def slope_by_differences(adapter, data, loss, name, cell, config=None):
    """The slope of the loss along one parameter, from two forward passes."""
    losses = []
    state = {k: v.astype(np.float64) for k, v in adapter.state_dict().items()}
    here = state[name][cell]
    moved = Adapter(adapter.base, adapter.spec.rank, seed=1)
    for sign in (1, -1):
        state[name][cell] = here + sign * STEP
        moved.load_state_dict(state)
        losses.append(moved.forward(data, loss, config).loss)
    # state_dict is float32: the points are rounded, but by the same amount on both sides.
    return (losses[0] - losses[1]) / (2 * STEP)


def analytic(adapter, data, loss, config=None):
    """Gradients by parameter, read from the first moment after one step with beta1 = 0."""
    adapter.forward_backward(data, loss, config)
    before = adapter.state_dict()
    adapter.optim_step(AdamW(learning_rate=0.0, beta1=0.0))
    after = adapter.state_dict(optimizer=True)
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])
    prefix = "optimizer.exp_avg."
    return {k[len(prefix) :]: v for k, v in after.items() if k.startswith(prefix)}


@pytest.mark.parametrize(
    ("loss", "length"),
    [("cross_entropy", 300), ("importance_sampling", 5), ("ppo", 33), ("dro", 40)],
)
def test_gradients_match_finite_differences(exact_base, rl_datum, loss, length):
    """M40: every adapted layer, short sequences and ones longer than the attention window."""
    adapter = perturbed(exact_base)
    data = [rl_datum(length, seed=length, vocabulary=70), rl_datum(7, seed=1, vocabulary=70)]
    gradients = analytic(adapter, data, loss)
    rng = np.random.default_rng(length)
    each = 1 if length < 100 else 4  # the short ones look at every parameter
    for name, gradient in list(gradients.items())[::each]:
        scale = float(np.abs(gradient).max())
        assert scale > 0, name
        cell = tuple(int(rng.integers(0, size)) for size in gradient.shape)
        expected = slope_by_differences(adapter, data, loss, name, cell)
        assert gradient[cell] == pytest.approx(expected, abs=2e-4 * scale), name


def test_gradients_of_several_targets_per_position(exact_base):
    """M40: targets n x k with weights n x k, repeated ids and zero weights included."""
    rng = np.random.default_rng(4)
    targets = rng.integers(0, 70, (33, 4))
    targets[3] = targets[3, 0]
    weights = rng.random((33, 4))
    weights[5] = 0
    data = [Datum(rng.integers(0, 70, 33), {"target_tokens": targets, "weights": weights})]
    adapter = perturbed(exact_base)
    gradients = analytic(adapter, data, "cross_entropy")
    for name in ("lm_head.lora_B", "model.layers.0.self_attn.k_proj.lora_A"):
        gradient = gradients[f"base_model.model.{name}.weight"]
        strongest = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        cell = tuple(int(i) for i in strongest)
        expected = slope_by_differences(
            adapter, data, "cross_entropy", f"base_model.model.{name}.weight", cell
        )
        assert gradient[cell] == pytest.approx(expected, rel=2e-4)
    assert adapter.forward(data, "cross_entropy").loss_fn_outputs[0]["logprobs"].shape == (33, 4)


def test_stopped_gradients_follow_the_frozen_coefficient(exact_base, rl_datum):
    """M40: cispo and gspo do not differentiate their ratio; a linear loss with it agrees."""
    datum = rl_datum(20, seed=9, vocabulary=70)
    adapter = perturbed(exact_base)
    logprobs = adapter.forward([datum], "cross_entropy").loss_fn_outputs[0]["logprobs"]
    distance = logprobs - datum.inputs["logprobs"]
    advantages = datum.inputs["advantages"].astype(np.float64)
    for loss, ratio in (
        ("cispo", np.clip(np.exp(distance), 0.8, 1.2)),
        ("gspo", np.full(20, np.exp(distance.mean()))),
    ):
        config = {} if loss == "cispo" else {"clip_low_threshold": 0, "clip_high_threshold": 99}
        linear = Datum(
            datum.tokens,
            {"target_tokens": datum.inputs["target_tokens"], "weights": ratio * advantages},
        )
        got = analytic(perturbed(exact_base), [datum], loss, config)
        want = analytic(perturbed(exact_base), [linear], "cross_entropy")
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-7)
