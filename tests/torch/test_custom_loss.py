"""Custom losses with torch."""

import pytest
import torch

from tinker_ext.batch import custom_loss
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import Datum, ForwardBackwardOutput, ModelInput, TensorData

pytestmark = pytest.mark.torch

DATA = [
    Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3], "advantages": [1.0, 3.0]}),
    Datum(ModelInput.from_ints([1]), {"target_tokens": [2]}),
]
ROWS = ([-1.0, -2.0], [-3.0])
FORWARD = ForwardBackwardOutput(
    "x", [{"logprobs": TensorData(data=row, dtype="float32")} for row in ROWS]
)


def test_gradients_by_autograd():
    """M15: the function gets tensors that require a gradient and returns (loss, metrics)."""

    def loss(data, logprobs):
        advantages = data[0].loss_fn_inputs["advantages"].to_torch()
        value = -(logprobs[0] * advantages).sum()
        return value, {"n": torch.tensor(2.0)}

    found = custom_loss.evaluate(loss, DATA, FORWARD)
    assert found.loss == 7.0
    assert found.metrics == {"n": 2.0}
    assert [g.tolist() for g in found.gradients] == [[-1.0, -3.0], [0.0]]
    back = custom_loss.backward_data(DATA, found.gradients)
    assert back[0].loss_fn_inputs["weights"].data == [1.0, 3.0]


def test_works_under_no_grad():
    """M15: a caller inside torch.no_grad still gets gradients."""
    with torch.no_grad():
        found = custom_loss.evaluate(lambda d, lp: (lp[0].exp().sum(), {}), DATA, FORWARD)
    assert found.gradients[0].tolist() == pytest.approx(torch.tensor(ROWS[0]).exp().tolist())


def test_own_gradients_are_taken():
    """M15: three return values bring their own gradients."""
    found = custom_loss.evaluate(
        lambda d, lp: (1.0, {}, [torch.ones_like(x) for x in lp]), DATA, FORWARD
    )
    assert [g.tolist() for g in found.gradients] == [[1.0, 1.0], [1.0]]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda d, lp: (lp[0], {}), "scalar"),
        (lambda d, lp: (1.0, {}), "scalar"),
        (lambda d, lp: lp[0].sum(), r"\(loss, metrics\)"),
        (lambda d, lp: (lp[0].detach().sum(), {}), "does not depend"),
        (lambda d, lp: (lp[0].sum() * float("nan"), {}), "nan"),
        (lambda d, lp: ((lp[0] + 1).sqrt().sum(), {}), "nan|not finite"),
    ],
)
def test_bad_losses(loss, message):
    """M15: what cannot be trained on is named before anything is sent."""
    with pytest.raises(InvalidInputError, match=message):
        custom_loss.evaluate(loss, DATA, FORWARD)
