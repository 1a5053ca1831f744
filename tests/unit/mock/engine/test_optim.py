"""AdamW, clipping and orthogonalised momentum against plain arithmetic."""

import numpy as np
import pytest

from tinker_ext.mock.engine.optim import AdamW, Dimuon, OptimizerState, orthogonalised


def textbook_adamw(values, gradients, p):
    """AdamW as printed in the paper, one float64 vector at a time."""
    m = np.zeros_like(values)
    v = np.zeros_like(values)
    for t, gradient in enumerate(gradients, start=1):
        m = p.beta1 * m + (1 - p.beta1) * gradient
        v = p.beta2 * v + (1 - p.beta2) * gradient**2
        m_hat, v_hat = m / (1 - p.beta1**t), v / (1 - p.beta2**t)
        values = values - p.learning_rate * (
            m_hat / (np.sqrt(v_hat) + p.eps) + p.weight_decay * values
        )
    return values


@pytest.mark.parametrize(
    "params",
    [
        AdamW(),
        AdamW(learning_rate=0.1, weight_decay=0.3),
        AdamW(learning_rate=0.01, beta1=0.5, beta2=0.999, eps=1e-3),
    ],
)
def test_adamw_matches_the_textbook(params):
    """M14, M40: defaults, decay and other betas over three steps."""
    rng = np.random.default_rng(0)
    start = rng.standard_normal(50)
    gradients = [rng.standard_normal(50) for _ in range(3)]
    state = OptimizerState(50, start.dtype)
    values = start.copy()
    for gradient in gradients:
        state.apply(values, gradient.copy(), params, {}, {})
    np.testing.assert_allclose(values, textbook_adamw(start, gradients, params), rtol=1e-12)
    assert state.step == 3


def test_clipping_scales_to_the_norm_and_zero_means_off():
    """M40: a gradient of norm 10 is cut to 1; 0 and a larger bound leave it."""
    for bound, expected in ((1.0, 1.0), (0.0, 10.0), (20.0, 10.0)):
        gradient = np.array([6.0, 8.0])
        params = AdamW(grad_clip_norm=bound)
        metrics = OptimizerState(2, gradient.dtype).apply(np.zeros(2), gradient, params, {}, {})
        assert np.linalg.norm(gradient) == pytest.approx(expected)
        assert metrics["grad_norm:mean"] == pytest.approx(10.0)
        assert metrics["clipped:mean"] == float(expected == 1.0)


def test_a_gradient_that_is_not_finite_changes_nothing():
    """M40: refused with the weights and moments as they were."""
    state = OptimizerState(2, np.dtype(np.float32))
    values = np.ones(2, dtype=np.float32)
    with pytest.raises(ValueError, match="not finite"):
        state.apply(values, np.array([np.nan, 1], dtype=np.float32), AdamW(), {}, {})
    assert state.step == 0
    assert values.tolist() == [1, 1]
    assert not state.exp_avg.any()


@pytest.mark.parametrize(
    ("gradient", "params"),
    [
        (1.0, AdamW(learning_rate=1e39)),
        (1e30, AdamW()),
        (1e30, Dimuon(learning_rate=1e39)),
    ],
)
def test_a_step_out_of_range_is_not_taken(gradient, params):
    """M40: huge rates and squares that overflow leave weights, moments and count alone."""
    state = OptimizerState(4, np.dtype(np.float32))
    values = np.ones(4, dtype=np.float32)
    matrices, momenta = {"w": values.reshape(2, 2)}, {"w": state.exp_avg.reshape(2, 2)}
    state.apply(values, np.ones(4, np.float32), AdamW(), matrices, momenta)
    before = [v.copy() for v in (values, state.exp_avg, state.exp_avg_sq)]
    with pytest.raises(ValueError, match="was not taken"):
        state.apply(values, np.full(4, gradient, np.float32), params, matrices, momenta)
    assert state.step == 1
    for now, then in zip((values, state.exp_avg, state.exp_avg_sq), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_metric_names_have_one_suffix():
    """M12: every metric can be reduced over chunks by its suffix."""
    metrics = OptimizerState(1, np.dtype(float)).apply(np.ones(1), np.ones(1), AdamW(), {}, {})
    assert all(name.count(":") == 1 for name in metrics)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (8, 8)])
def test_orthogonalised_singular_values_are_near_one(shape):
    """M14: five Newton-Schulz rounds bring every direction to about the same size."""
    matrix = np.random.default_rng(1).standard_normal(shape)
    values = np.linalg.svd(orthogonalised(matrix), compute_uv=False)
    assert values.min() > 0.3
    assert values.max() < 1.3
    assert not orthogonalised(np.zeros(shape)).any()
