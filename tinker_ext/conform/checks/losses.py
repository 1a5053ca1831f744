"""Checks of loss values: each is recomputed in numpy from the log-probabilities it came with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tinker_ext.conform.data import LENGTH, datum
from tinker_ext.conform.reference import LOSS_CONFIG, LOSSES, Floats, flat, same
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import Trial, logprobs_of
from tinker_ext.errors import APIStatusError, RequestFailedError
from tinker_ext.types.enums import LossFnType
from tinker_ext.types.outputs import ForwardBackwardOutput

_POSITIVE = [0.0, 0.5, 1.0, 2.0, 0.25, 3.0, 1.0, 0.0, 1.5, 1.0, 0.75, 1.0]
_SIGNED = [1.0, -0.5, 2.0, 1.0, -1.0, 1.5, 0.0, 1.0, 1.0, -0.25, 1.0, 2.0]
_OFFSETS = [0.0, 0.5, -0.5, 0.1, -0.1, 0.3, -0.3, 0.0, 0.7, -0.7, 0.2, -0.2]
_ADVANTAGES = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 0.5, 0.0, -0.5, 2.0, 0.25, -2.0]


@check("loss.sum", "reports the plain sum of weighted losses as metric loss:sum")
def loss_sum(subject: Subject) -> None:
    """Every training loop plots this number."""
    with subject.trial() as trial:
        data = [datum(3, _POSITIVE), datum(4, _POSITIVE[::-1])]
        output = trial.forward(data)
    wanted = -sum(
        float(logprobs_of(output, i) @ np.asarray(weights))
        for i, weights in enumerate((_POSITIVE, _POSITIVE[::-1]))
    )
    metrics = dict(output.metrics)
    if "loss:sum" not in metrics:
        fail(f"forward over two datums: metrics is {metrics}; loss:sum is missing")
    same("loss:sum of two weighted datums", metrics["loss:sum"], wanted)


@check("loss.weights", "weighs every token's loss as told, negative weights included")
def loss_weights(subject: Subject) -> str:
    """Weights mask prompts and carry the gradient of custom losses."""
    with subject.trial() as trial:
        output = trial.forward([datum(3, _SIGNED)])
        wanted = -logprobs_of(output, 0) * np.asarray(_SIGNED)
        return _compare("cross_entropy with weights of both signs", output, wanted)


@check("loss.logprobs", "gives log-probabilities that are negative and the same every time")
def loss_logprobs(subject: Subject) -> None:
    """Everything else is computed from them."""
    with subject.trial() as trial:
        first, second = trial.logprobs(), trial.logprobs()
    expect(bool((first < 0).all()), f"log-probabilities are not negative: {first}")
    same("the same forward pass twice", second, first)


@check("loss.order", "returns one output per datum, in the order they were sent")
def loss_order(subject: Subject) -> None:
    """Outputs are matched to data by position only."""
    with subject.trial() as trial:
        numbers = (3, 4, 5)
        output = trial.forward([datum(number) for number in numbers])
        count = len(output.loss_fn_outputs)
        expect(count == 3, f"{count} outputs came back for 3 datums")
        for index, number in enumerate(numbers):
            alone = trial.logprobs([datum(number)])
            same(
                f"datum {index} of 3, compared with itself alone", logprobs_of(output, index), alone
            )


def _loss_check(name: str) -> None:
    title = f"computes {name} as documented"

    @check(f"loss.{name}", title)
    def loss(subject: Subject) -> str:
        with subject.trial() as trial:
            now = trial.logprobs([datum(6)])
            sampled = now - np.asarray(_OFFSETS)
            output = _scored(trial, name, sampled)
            used = logprobs_of(output, 0)
            same("log-probabilities of the same forward pass", used, now)
            # What travels is float32, so the reference starts from that as well.
            q = flat(sampled.astype(np.float32))
            wanted = LOSSES[name](used, q, flat(_ADVANTAGES))
            return _compare(f"{name}", output, wanted)


def _scored(trial: Trial, name: str, sampled: Floats) -> ForwardBackwardOutput:
    data = [datum(6, None, logprobs=list(sampled), advantages=_ADVANTAGES)]
    try:
        return trial.forward(data, cast(LossFnType, name), LOSS_CONFIG.get(name))
    except (APIStatusError, RequestFailedError) as error:
        absent(f"forward with loss_fn {name!r} was refused: {error}")


for _name in LOSSES:
    _loss_check(_name)


def _compare(what: str, output: ForwardBackwardOutput, wanted: Sequence[float] | Floats) -> str:
    """Compare by loss:sum, or by the elementwise losses some servers send instead."""
    total = output.metrics.get("loss:sum")
    elementwise = output.loss_fn_outputs[0].get("elementwise_loss")
    if total is None and elementwise is None:
        absent(f"{what}: no loss came back, neither loss:sum nor elementwise_loss")
    if elementwise is not None:
        same(f"{what}, elementwise_loss", elementwise.to_numpy(), wanted)
    if total is not None:
        same(f"{what}, loss:sum", total, flat(wanted).sum(), 5e-4)
    return "by loss:sum" if total is not None else f"by elementwise_loss of {LENGTH} tokens"
