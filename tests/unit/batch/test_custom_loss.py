"""Custom losses with numpy (the torch path is in tests/torch)."""

import numpy as np
import pytest

from tinker_ext.batch import custom_loss
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import (
    Datum,
    ForwardBackwardOutput,
    ModelInput,
    PromptProvenanceSpan,
    TensorData,
)


def datum(n=2, **inputs):
    inputs = {"target_tokens": list(range(n)), **inputs}
    return Datum(ModelInput.from_ints([1] * n), inputs)


def forward(*rows, **metrics):
    outputs = [{"logprobs": TensorData(data=row, dtype="float32")} for row in rows]
    return ForwardBackwardOutput("x", outputs, metrics)


def squares(data, logprobs):
    loss = sum((lp**2).sum() for lp in logprobs)
    return loss, {"n": len(data)}, [2 * lp for lp in logprobs]


def test_gradient_becomes_negative_weight():
    """M15: the backward batch has weights = −gradient and the original targets."""
    data = [datum(), datum(1)]
    found = custom_loss.evaluate(squares, data, forward([-1, -2], [-3]), backend="numpy")
    assert found.loss == 14
    assert found.metrics == {"n": 2.0}
    back = custom_loss.backward_data(data, found.gradients)
    assert [d.loss_fn_inputs["weights"].data for d in back] == [[2.0, 4.0], [6.0]]
    assert back[0].loss_fn_inputs["target_tokens"].data == [0, 1]
    assert sorted(back[0].loss_fn_inputs) == ["target_tokens", "weights"]


def test_linear_loss_has_the_same_gradient():
    """M15: −Σ w·lp with w = −g changes with lp exactly as the custom loss does."""
    lp = np.array([-1.0, -2.0])
    found = custom_loss.evaluate(squares, [datum()], forward(lp), backend="numpy")
    weights = custom_loss.backward_data([datum()], found.gradients)[0].loss_fn_inputs["weights"]
    step = 1e-4
    for i in range(2):
        moved = lp + step * np.eye(2)[i]
        linear = -(weights.to_numpy() * (moved - lp)).sum()
        real = squares([], [moved])[0] - squares([], [lp])[0]
        assert linear == pytest.approx(real, rel=1e-3)


def test_the_function_sees_every_loss_input():
    """M15: inputs that are not sent are visible to the function."""
    seen = []

    def loss(data, logprobs):
        seen.extend(sorted(d.loss_fn_inputs) for d in data)
        return 0.0, None, [np.zeros_like(lp) for lp in logprobs]

    data = [datum(advantages=[1.0, 2.0])]
    assert custom_loss.evaluate(loss, data, forward([0, 0]), backend="numpy").metrics == {}
    assert seen == [["advantages", "target_tokens"]]


def test_forward_batch_has_targets_and_weights_only():
    """M15: absent weights are zeros; other inputs stay at home; spans are kept."""
    span = [PromptProvenanceSpan(sequence_id="s", length=2)]
    first = datum(advantages=[1.0, 2.0]).with_provenance(span, span)
    second = datum(weights=[1.0, 0.5])
    sent = custom_loss.forward_data([first, second])
    assert [sorted(d.loss_fn_inputs) for d in sent] == [["target_tokens", "weights"]] * 2
    assert sent[0].loss_fn_inputs["weights"].data == [0.0, 0.0]
    assert sent[1].loss_fn_inputs["weights"].data == [1.0, 0.5]
    assert sent[0].model_input_spans == span
    with pytest.raises(InvalidInputError, match="datum 0"):
        custom_loss.forward_data([Datum(ModelInput.from_ints([1]))])


def test_logprobs_take_the_shape_of_the_targets():
    """M15: flat logprobs of two-dimensional targets are laid out like them."""
    data = [Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [[1, 2], [3, 4]]})]
    found = custom_loss.evaluate(squares, data, forward([-1, -2, -3, -4]), backend="numpy")
    assert found.gradients[0].shape == (2, 2)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (
            {"loss:sum": 9.0, "kl:mean": 1.0},
            {"loss:sum": 5.0, "surrogate_loss:sum": 9.0, "kl:mean": 1.0, "mine": 2.0},
        ),
        ({}, {"loss:sum": 5.0, "mine": 2.0}),
    ],
)
def test_metrics(server, expected):
    """M15: `loss:sum` is the custom loss, the server's is kept; no metrics at all is fine."""
    evaluation = custom_loss.Evaluation(5.0, {"mine": 2.0}, [])
    result = custom_loss.with_custom_loss(ForwardBackwardOutput("x", [], server), evaluation)
    assert result.metrics == expected
    assert result.loss == 5.0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((1.0, {}), "gradients"),
        (1.0, "gradients"),
        ((1.0, {}, []), "0 gradients for 1"),
        ((1.0, {}, [np.zeros(3)]), "shape"),
        ((1.0, {}, [np.array([np.nan, 0])]), "not finite"),
        ((np.nan, {}, [np.zeros(2)]), "is nan"),
        ((np.ones(2), {}, [np.zeros(2)]), "one number"),
        ((1.0, {"m": "x"}, [np.zeros(2)]), "metric 'm'"),
    ],
)
def test_bad_returns(returned, message):
    """M15: a wrong return value is named before anything is sent."""
    with pytest.raises(InvalidInputError, match=message):
        custom_loss.evaluate(lambda *_: returned, [datum()], forward([0, 0]), backend="numpy")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (forward(), "0 outputs for 1"),
        (ForwardBackwardOutput("x", [{}]), "no logprobs"),
        (forward([1, 2, 3]), "3 logprobs"),
    ],
)
def test_bad_forward_results(result, message):
    """M15: a forward result that does not fit the batch is named."""
    with pytest.raises(InvalidInputError, match=message):
        custom_loss.evaluate(squares, [datum()], result, backend="numpy")


def test_auto_without_torch(monkeypatch):
    """M15: without torch the numpy form is used."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert custom_loss.evaluate(squares, [datum()], forward([-1, 0])).loss == 1
