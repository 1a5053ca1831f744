"""`ForwardBackwardOutput`: what a forward or forward_backward call returns."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.tensor_data import TensorData

LossFnOutput: TypeAlias = dict[str, TensorData]

# In the order in which they are looked for; both names occur on known servers.
_LOSS_METRICS = ("loss:sum", "loss:mean")


@attrs.frozen
class ForwardBackwardOutput:
    """Per-datum outputs and metrics of one call, all its chunks combined.

    Attributes:
        loss_fn_output_type: Name the server gives to the kind of output.
        loss_fn_outputs: For every datum a dict of tensors, usually with `logprobs`.
        metrics: Numbers named `name:reduction`, for example `loss:sum`.
    """

    loss_fn_output_type: str
    loss_fn_outputs: list[LossFnOutput]
    metrics: dict[str, float] = attrs.field(factory=dict)

    @property
    def loss(self) -> float:
        """The loss the server reports, read from the metrics.

        There is no such field on the wire; the metric `loss:sum` is used, else `loss:mean`,
        else a metric called `loss` if one chunk only reported it.

        Raises:
            InvalidInputError: The metrics hold no loss.

        Example:
            >>> ForwardBackwardOutput("x", [], {"loss:sum": 2.5}).loss
            2.5
        """
        for name in _LOSS_METRICS:
            if name in self.metrics:
                return self.metrics[name]
        if "loss" in self.metrics and "loss_1" not in self.metrics:
            return self.metrics["loss"]
        found = ", ".join(sorted(self.metrics)) or "none"
        raise InvalidInputError(
            f"This server reports no loss; metrics found: {found}. Compute it from "
            "loss_fn_outputs, for example −sum(weights · logprobs) for cross_entropy."
        )
