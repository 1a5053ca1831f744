"""The positions that take part in a loss, and the loss per token that follows from them."""

import numpy as np
import pytest
from in_process import MODEL, client, datum, run, server

from tinker_ext import Datum, ForwardBackwardOutput, ModelInput
from tinker_ext.batch.merge import trained_positions
from tinker_ext.errors import InvalidInputError

FIVE = ModelInput.from_ints([1, 2, 3, 4, 5])
TARGETS = [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("inputs", "count"),
    [
        ({}, 5),
        ({"weights": [0.0, 0.0, 1.0, 1.0, 1.0]}, 3),
        ({"weights": [0.0] * 5}, 0),
        ({"logprobs": [-1.0] * 5, "advantages": [0.0, 0.0, -1.5, 0.5, 0.5]}, 3),
        ({"weights": np.array([[0, 0], [0, 1], [1, 1], [0, 0], [0.5, 0.5]], np.float32)}, 3),
    ],
)
def test_positions_with_a_weight_or_an_advantage_count(inputs, count):
    """M13: zeros leave a position out; several targets of a position count once."""
    targets = TARGETS if np.ndim(inputs.get("weights")) < 2 else [[t, t] for t in TARGETS]
    one = Datum(FIVE, {"target_tokens": targets, **inputs})
    assert trained_positions([one, one]) == 2 * count


def test_loss_per_token_does_not_depend_on_the_size_of_the_batch():
    """M13: `loss:sum` grows with the batch, the loss per token does not, however it is cut."""

    async def scenario():
        async with client(server(client_config={"fwdbwd_max_chunk_len": 2})) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            results = []
            for count in (1, 5):
                batch = [datum(6)] * count
                results.append(await (await training.forward_async(batch, "cross_entropy")))
            return results

    one, five = run(scenario)
    assert five.loss == pytest.approx(5 * one.loss)
    assert five.loss_per_token == pytest.approx(one.loss_per_token) == one.loss / 6


def test_what_nobody_counted_is_told():
    """M13: no number is made up."""
    with pytest.raises(InvalidInputError, match="nobody counted"):
        _ = ForwardBackwardOutput("x", [], {"loss:sum": 2.0}).loss_per_token
    assert ForwardBackwardOutput("x", [], {"loss:mean": 2.0}).loss_per_token == 2.0


def test_a_mean_beside_a_sum_is_not_taken_for_the_loss_per_token():
    """M34: nobody says over what it is the mean; the positions of the sum are counted."""
    metrics = {"loss:sum": 6.0, "loss:mean": 9.0}
    assert ForwardBackwardOutput("x", [], metrics, trained=4).loss_per_token == 1.5
