"""Checks of gradients, measured through the optimizer: runs that must end at the same place.

Adam's first step is learning rate × sign of the gradient. Where a second gradient is s times the
first, the second step is a known multiple of that, so with the learning rate divided by it the
model must land where one plain step lands. That tells gradients' scale without seeing them.
"""

from __future__ import annotations

from tinker_ext.conform.data import datum
from tinker_ext.conform.reference import Floats, adam_factor, same_step
from tinker_ext.conform.registry import absent, check, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import RATE, Trial
from tinker_ext.errors import APIStatusError, RequestFailedError

# With no first moment and a slow second one, a step is nearly proportional to its gradient.
METER = {"beta1": 0.0, "beta2": 0.999}


def _reference(subject: Subject) -> tuple[Floats, Floats]:
    """Log-probabilities before and after one plain step on datum 1."""
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1))
        trial.step()
        return start, trial.logprobs()


def _measure(trial: Trial, factor: float) -> Floats:
    """Take the step whose gradient has been added up, scaled to be one plain step."""
    trial.step(RATE / factor, **METER)
    return trial.logprobs()


@check("gradient.scale", "makes gradients proportional to the weights")
def scale(subject: Subject) -> None:
    """A quarter of the weight is a quarter of the gradient."""
    start, wanted = _reference(subject)
    for weight in (0.25, 2.0):
        with subject.trial() as trial:
            trial.backward(datum(1))
            trial.step(0.0, **METER)
            trial.backward(datum(1, weight))
            got = _measure(trial, adam_factor([1.0, weight], **METER))
        same_step(f"weights of {weight:g} after weights of 1", start, got, wanted)


@check("gradient.sign", "subtracts the gradient of negative weights")
def sign(subject: Subject) -> None:
    """2 g − g is g."""
    start, wanted = _reference(subject)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(0.0, **METER)
        trial.backward(datum(1, 2.0))
        trial.backward(datum(1, -1.0))
        got = _measure(trial, adam_factor([1.0, 1.0], **METER))
    same_step("weights of 2, then of -1, against weights of 1", start, got, wanted)


@check("gradient.accumulate", "adds up the gradients of several requests")
def accumulate(subject: Subject) -> None:
    """Two requests are one batch."""
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1), datum(2))
        trial.step()
        wanted = trial.logprobs()
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.backward(datum(2))
        trial.step()
        got = trial.logprobs()
    same_step("two requests of one datum against one of two", start, got, wanted)


@check("gradient.chunks", "gives a batch the same gradient however it is cut into requests")
def chunks(subject: Subject) -> None:
    """Clients cut large batches into chunks of unequal size."""
    batch = [datum(1), datum(2), datum(3), datum(4)]
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(*batch)
        trial.step()
        wanted = trial.logprobs()
    with subject.trial() as trial:
        trial.backward(*batch[:3])
        trial.backward(*batch[3:])
        trial.step()
        got = trial.logprobs()
    same_step("4 datums as 3 + 1 against all at once", start, got, wanted)


@check("gradient.forward", "leaves gradients alone in a forward pass")
def forward(subject: Subject) -> None:
    """Scoring must not train."""
    start, wanted = _reference(subject)
    with subject.trial() as trial:
        trial.forward([datum(5), datum(6)])
        trial.backward(datum(1))
        trial.forward([datum(7), datum(8)])
        trial.step()
        got = trial.logprobs()
    same_step("a step with forward passes around it", start, got, wanted)


@check("gradient.on_policy", "gives importance_sampling at ratio 1 the gradient of cross_entropy")
def on_policy(subject: Subject) -> None:
    """At the sampling policy both are the plain policy gradient."""
    start, wanted = _reference(subject)
    with subject.trial() as trial:
        sampled = list(trial.logprobs([datum(1)]))
        example = datum(1, None, logprobs=sampled, advantages=[1.0] * len(sampled))
        try:
            trial.backward(example, loss_fn="importance_sampling")
        except (APIStatusError, RequestFailedError) as error:
            absent(f"importance_sampling was refused: {error}")
        trial.step()
        got = trial.logprobs()
    same_step("importance_sampling with advantage 1 and ratio 1", start, got, wanted)


@check("gradient.lora_seed", "starts the same adapter from the same seed, another from another")
def lora_seed(subject: Subject) -> None:
    """Runs can be repeated."""
    ends = []
    for seed in (11, 11, 12):
        with subject.trial(seed) as trial:
            start = trial.logprobs()
            for _ in range(2):
                trial.backward(datum(1))
                trial.step()
            ends.append(trial.logprobs())
    same_step("two runs from one seed", start, ends[1], ends[0])
    if float(abs(ends[2] - ends[0]).max()) < 1e-6:
        fail("runs from seeds 11 and 12 end at the very same log-probabilities")
