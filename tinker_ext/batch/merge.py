"""Joining the results of the chunks of one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinker_ext._reply_parts import ReplyParts
from tinker_ext.batch.metrics import reduce_metrics
from tinker_ext.errors import APIResponseValidationError
from tinker_ext.types.datum import Datum
from tinker_ext.types.outputs import ForwardBackwardOutput

SELECTORS = ("weights", "mask", "advantages")
"""Loss inputs that leave a position out where they are 0, in the order they are looked for."""


def trained_positions(data: Sequence[Datum]) -> int:
    """How many positions of a batch take part in its loss."""
    total = 0
    for datum in data:
        inputs = datum.loss_fn_inputs
        for name in SELECTORS:
            if name in inputs:
                tensor = inputs[name]
                values = tensor.to_numpy() if tensor.is_sparse else tensor.array
                # Several targets a position (distillation): it counts once.
                rows = values if values.ndim < 2 else values.reshape(len(values), -1).any(axis=1)
                total += int(np.count_nonzero(rows))
                break
        else:
            total += datum.model_input.length
    return total


def merge(
    outputs: Sequence[ForwardBackwardOutput],
    counts: Sequence[int] | None = None,
    trained: int | None = None,
) -> ForwardBackwardOutput:
    """One result for the whole call, as if the batch had not been cut.

    A single chunk goes the same way as many, so that metrics do not change their names with the
    size of the batch.

    Args:
        outputs: Results of the chunks, in the order of the data.
        counts: How many datums each chunk had; without it the numbers are not compared.
        trained: Positions of the whole batch that take part in the loss.

    Returns:
        The combined result; an empty one of no results, as the official SDK has it.

    Raises:
        APIResponseValidationError: The server answered for more or fewer datums than it got.
    """
    if not outputs:
        return ForwardBackwardOutput(loss_fn_output_type="", loss_fn_outputs=[])
    for output, count in zip(outputs, counts or (), strict=counts is not None):
        if len(output.loss_fn_outputs) != count:
            raise APIResponseValidationError(
                ReplyParts(200, {}, b"", None),
                None,
                f"The server gave {len(output.loss_fn_outputs)} outputs for {count} datums.",
            )
    return ForwardBackwardOutput(
        loss_fn_output_type=outputs[0].loss_fn_output_type,
        loss_fn_outputs=[item for output in outputs for item in output.loss_fn_outputs],
        metrics=reduce_metrics(
            [output.metrics for output in outputs],
            [len(output.loss_fn_outputs) for output in outputs],
        ),
        trained=trained,
    )
