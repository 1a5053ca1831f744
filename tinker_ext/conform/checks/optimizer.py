"""Checks of the optimizer against Adam's own arithmetic, done in numpy."""

from __future__ import annotations

from tinker_ext.conform.data import datum
from tinker_ext.conform.reference import ABSOLUTE, Floats, adam_factor, same, same_step, unmoved
from tinker_ext.conform.registry import absent, check, expect
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import RATE, Trial
from tinker_ext.errors import APIStatusError, RequestFailedError

# Which steps see the gradient; the learning rate is 0 in all but the last.
TRAJECTORIES = ((1, 0), (1, 1, 0), (1, 0, 0, 1))


def _one_step(subject: Subject) -> tuple[Floats, Floats]:
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1))
        trial.step()
        return start, trial.logprobs()


@check("adam.trajectory", "follows Adam with bias correction over several steps")
def trajectory(subject: Subject) -> None:
    """Moments decay as they should, whatever the gradient is."""
    start, wanted = _one_step(subject)
    for seen in TRAJECTORIES:
        with subject.trial() as trial:
            for position, gradient in enumerate(seen):
                if gradient:
                    trial.backward(datum(1))
                last = position == len(seen) - 1
                trial.step(RATE / adam_factor(seen) if last else 0.0)
            got = trial.logprobs()
        same_step(f"gradients {seen}, all but the last step at rate 0", start, got, wanted)


@check("adam.betas", "takes beta1 and beta2 from each step")
def betas(subject: Subject) -> None:
    """They are part of the request, not of the server."""
    start, wanted = _one_step(subject)
    options = {"beta1": 0.5, "beta2": 0.7}
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(0.0, **options)
        trial.step(RATE / adam_factor([1.0, 0.0], **options), **options)
        got = trial.logprobs()
    same_step("beta1 0.5 and beta2 0.7", start, got, wanted)


@check("adam.learning_rate", "moves nothing at learning rate 0, and in proportion above")
def learning_rate(subject: Subject) -> None:
    """Schedules set it at every step."""
    start, wanted = _one_step(subject)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(0.0)
        unmoved("a step at learning rate 0", start, trial.logprobs(), wanted)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(RATE / 2)
        trial.step(RATE / 2 / adam_factor([1.0, 0.0]))
        same_step("two steps of half the length", start, trial.logprobs(), wanted)


@check("adam.eps", "adds eps to the root of the second moment")
def eps(subject: Subject) -> None:
    """A huge eps stops every step."""
    start, wanted = _one_step(subject)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(eps=1e9)
        unmoved("a step with eps 1e9", start, trial.logprobs(), wanted)


@check("adam.clears", "forgets the gradient once it was applied")
def clears(subject: Subject) -> None:
    """A gradient counts once."""
    start, wanted = _one_step(subject)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(0.0, beta1=0.0)
        trial.step(RATE, beta1=0.0)
        unmoved("a step without gradient or momentum", start, trial.logprobs(), wanted)


@check("adam.weight_decay", "shrinks weights by learning rate × weight_decay")
def weight_decay(subject: Subject) -> None:
    """At a product of 1 the adapter vanishes and the base model is back."""
    with subject.trial() as trial:
        start = trial.logprobs()
        trial.backward(datum(1))
        trial.step()
        trained = trial.logprobs()
        _optional(trial, "weight_decay", 0.5, beta1=0.0, weight_decay=2.0)
        end = trial.logprobs()
    expect(float(abs(trained - start).max()) > 10 * ABSOLUTE, "the first step moved nothing")
    same("after rate 0.5 × decay 2 without a gradient, the untrained model", end, start)


@check("adam.grad_clip_norm", "scales a gradient down to grad_clip_norm")
def grad_clip_norm(subject: Subject) -> None:
    """A tiny bound leaves next to nothing of a gradient."""
    start, wanted = _one_step(subject)
    with subject.trial() as trial:
        trial.backward(datum(1))
        trial.step(0.0, beta1=0.0, beta2=0.999)
        trial.backward(datum(1))
        _optional(trial, "grad_clip_norm", RATE, beta1=0.0, beta2=0.999, grad_clip_norm=1e-9)
        got = trial.logprobs()
    if subject.dialect.era == "0.4.1" and abs(got - start).max() > 0.5 * abs(wanted - start).max():
        absent("a server of the first era: grad_clip_norm is accepted and has no effect")
    unmoved("a gradient clipped to 1e-9", start, got, wanted)


def _optional(trial: Trial, what: str, rate: float, **options: float) -> None:
    """A step with a key of the second era, which servers of the first refuse."""
    try:
        trial.step(rate, **options)
    except (APIStatusError, RequestFailedError) as error:
        absent(f"optim_step with {what} was refused: {error}")
