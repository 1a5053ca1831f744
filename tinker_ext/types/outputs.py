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
        metrics: Numbers named `name:reduction`. `loss:sum` is the loss added up over all
            positions of the batch, so it grows with the batch; see `loss_per_token`.
        trained: Positions that took part in the loss: those with a weight, mask or advantage
            other than 0. Counted by the client; None in a result that was made by hand.
    """

    loss_fn_output_type: str
    loss_fn_outputs: list[LossFnOutput]
    metrics: dict[str, float] = attrs.field(factory=dict)
    trained: int | None = attrs.field(default=None, kw_only=True, eq=False, repr=False)

    @property
    def loss(self) -> float:
        """The loss the server reports, read from the metrics: usually a sum over all positions.

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

    @property
    def loss_per_token(self) -> float:
        """The loss divided by the positions that took part in it: comparable between batches.

        For `cross_entropy` with weights of 0 and 1 this is the mean negative log-likelihood, in
        nats. Where a server reports only `loss:mean`, that is returned as it is.

        Raises:
            InvalidInputError: The metrics hold no loss, or nobody counted the positions.

        Example:
            >>> ForwardBackwardOutput("x", [], {"loss:sum": 6.0}, trained=4).loss_per_token
            1.5
        """
        loss = self.loss
        if "loss:sum" not in self.metrics and "loss:mean" in self.metrics:
            return loss
        if self.trained is None:
            raise InvalidInputError(
                "This result does not come from a training client, so nobody counted its "
                "positions; divide .loss by the number of target tokens with a weight."
            )
        return loss / self.trained if self.trained else 0.0
