"""A model under test that our own client drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinker_ext.clients.training import TrainingClient
from tinker_ext.conform.data import datum
from tinker_ext.conform.reference import Floats, flat
from tinker_ext.conform.registry import fail
from tinker_ext.types.datum import Datum
from tinker_ext.types.enums import LossFnType
from tinker_ext.types.optimizer import AdamParams
from tinker_ext.types.outputs import ForwardBackwardOutput

RATE = 5e-3
"""Learning rate of the checks: far above rounding, far below nonsense."""

PROBES = (1, 2)
"""Sequences whose log-probabilities say where a model stands."""


class Trial:
    """Training calls that wait for their result, on one fresh model.

    Args:
        client: Client of the model.
    """

    def __init__(self, client: TrainingClient) -> None:
        self.client = client
        self.model_id = client.model_id

    def logprobs(self, data: Sequence[Datum] | None = None) -> Floats:
        """Log-probabilities of the targets, one flat array."""
        chosen = list(data) if data is not None else [datum(number) for number in PROBES]
        output = self.client.forward(chosen, "cross_entropy").result()
        return np.concatenate([logprobs_of(output, i) for i in range(len(chosen))])

    def forward(
        self,
        data: Sequence[Datum],
        loss_fn: LossFnType = "cross_entropy",
        config: Mapping[str, float | str] | None = None,
    ) -> ForwardBackwardOutput:
        """Loss without gradient."""
        return self.client.forward(list(data), loss_fn, config).result()

    def backward(
        self,
        *data: Datum,
        loss_fn: LossFnType = "cross_entropy",
        config: Mapping[str, float | str] | None = None,
    ) -> ForwardBackwardOutput:
        """Loss and gradient of one request."""
        return self.client.forward_backward(list(data), loss_fn, config).result()

    def step(self, learning_rate: float = RATE, **options: float) -> Any:
        """One optimizer step."""
        params = AdamParams(learning_rate=learning_rate, **options)
        return self.client.optim_step(params).result()


def logprobs_of(output: ForwardBackwardOutput, index: int) -> Floats:
    """The log-probabilities of one datum of a result."""
    outputs = output.loss_fn_outputs
    if index >= len(outputs):
        fail(f"{len(outputs)} loss_fn_outputs came back where more data was sent")
    found = outputs[index].get("logprobs")
    if found is None:
        fail(f"loss_fn_outputs[{index}] has no logprobs, only {sorted(outputs[index])}")
    return flat(found.to_numpy())
