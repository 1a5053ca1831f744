"""A small training program by seed, and the weights it leads to when nothing goes wrong."""

from __future__ import annotations

import functools
import hashlib
import random
import warnings
from typing import Any

import attrs
import numpy as np
from in_process import adam, datum

from tinker_ext.mock import App
from tinker_ext.mock.state.records import Model

PROGRAMS = 12
"""Distinct programs; their results without faults are computed once each."""


@attrs.frozen
class Step:
    """One call of a program.

    Attributes:
        kind: `forward_backward`, `optim_step`, `forward`, `save_state` or `load_state`.
        number: Makes its arguments unlike those of every other step.
        effects: Training operations it leaves on the server (a batch of two is two requests).
    """

    kind: str
    number: int
    effects: tuple[str, ...]


@functools.cache
def program(number: int) -> tuple[Step, ...]:
    """The steps of a program: batches, updates, saves and a load of what was saved."""
    rng = random.Random(f"program {number}")
    steps: list[Step] = []
    saved: int | None = None
    while len(steps) < 6:
        kind = rng.choice(("forward_backward", "forward_backward", "optim_step", "forward", "save"))
        at = len(steps) + 1
        if kind == "forward_backward":
            steps.append(Step(kind, at, (kind,) * rng.choice((1, 1, 2))))
        elif kind == "save" and saved is None:
            saved = at
            steps.append(Step("save_state", at, ("save_weights",)))
        elif kind == "save":
            steps.append(Step("load_state", saved or at, ("load_weights",)))
        else:
            steps.append(Step(kind, at, (kind,)))
    return (*steps, Step("optim_step", 99, ("optim_step",)))


async def call(training: Any, step: Step) -> Any:
    """Make the call of a step; returns its future."""
    if step.kind == "forward_backward":
        batch = [datum(3, first=5 * step.number + i) for i in range(len(step.effects))]
        return await training.forward_backward_async(batch, "cross_entropy")
    if step.kind == "forward":
        return await training.forward_async([datum(2, first=step.number)], "cross_entropy")
    if step.kind == "optim_step":
        return await training.optim_step_async(adam(1e-3 * step.number))
    if step.kind == "save_state":
        return await training.save_state_async(f"s{step.number}")
    path = f"tinker://{training.model_id}/weights/s{step.number}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return await training.load_state_with_optimizer_async(path)


def expected_effects(steps: tuple[Step, ...]) -> list[str]:
    """The operations a program leaves on the server, in order."""
    return [effect for step in steps for effect in step.effects]


def fingerprint(app: App, model_id: str) -> str:
    """A digest of everything the model is: weights, optimizer and gradients, bit for bit."""
    model: Model = app.world.models[model_id]
    assert model.trainable is not None
    digest = hashlib.sha256()
    for name, array in sorted(model.trainable.dump().items()):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
