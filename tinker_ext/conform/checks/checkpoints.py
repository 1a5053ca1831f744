"""Checks of saving and loading: weights come back as they were, and so does the optimizer."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from tinker_ext.conform.data import datum
from tinker_ext.conform.reference import Floats, same, same_step, unmoved
from tinker_ext.conform.registry import absent, check, expect
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import RATE, Trial
from tinker_ext.errors import BadRequestError, UnprocessableEntityError


def _saved(trial: Trial, name: str) -> tuple[str, Floats, Floats]:
    """Train a step, save, and return the path and where the model stood before and after."""
    start = trial.logprobs()
    trial.backward(datum(1))
    trial.step()
    path = trial.client.save_state(name).result().path
    return path, start, trial.logprobs()


@contextlib.contextmanager
def _loaded(
    subject: Subject, trial: Trial, path: str, *, optimizer: bool = False
) -> Iterator[Trial]:
    """The same model with saved weights, or a new one where that is what the server allows."""
    try:
        _load(trial, path, optimizer=optimizer)
    except BadRequestError as error:
        _check_refusal(error)
    else:
        yield trial
        return
    make = (
        subject.service.create_training_client_from_state_with_optimizer
        if optimizer
        else subject.service.create_training_client_from_state
    )
    with subject.adopted(Trial(make(path, base_model=subject.base_model))) as other:
        yield other


def _load(trial: Trial, path: str, *, optimizer: bool = False) -> None:
    client = trial.client
    load = client.load_state_with_optimizer if optimizer else client.load_state
    with warnings.catch_warnings():
        # What the hosted service refuses is what these checks are about.
        warnings.simplefilter("ignore", FutureWarning)
        loading = load(path)
    loading.result()


def _check_refusal(error: BadRequestError) -> None:
    """The hosted service takes load_weights as a client's first request only; else it is wrong."""
    if "not permitted" not in str(error):
        raise error


@contextlib.contextmanager
def _known_to_the_server() -> Iterator[None]:
    """Strict servers of the first era refuse the key that asks for the optimizer."""
    try:
        yield
    except UnprocessableEntityError as error:
        if "optimizer" not in str(error):
            raise
        absent(f"load_weights with optimizer: true was refused: {error}")


@check("checkpoint.weights", "brings back exactly the saved weights")
def weights(subject: Subject) -> str:
    """Training goes on where it was."""
    with subject.trial() as trial:
        path, _, saved = _saved(trial, "conform-weights")
        trial.backward(datum(2))
        trial.step()
        moved = trial.logprobs()
        expect(float(abs(moved - saved).max()) > 1e-3, "a step after saving moved nothing")
        with _loaded(subject, trial, path) as loaded:
            same("log-probabilities after loading", loaded.logprobs(), saved)
    return path


@check("checkpoint.optimizer", "brings back the optimizer's moments with load_state_with_optimizer")
def optimizer(subject: Subject) -> None:
    """A step without a gradient moves by the saved momentum alone."""
    with subject.trial() as trial:
        path, _, saved = _saved(trial, "conform-optimizer")
        trial.step()
        wanted = trial.logprobs()
        with _known_to_the_server(), _loaded(subject, trial, path, optimizer=True) as loaded:
            loaded.step()
            got = loaded.logprobs()
    same_step("a step on restored momentum", saved, got, wanted)


@check("checkpoint.fresh", "starts a new optimizer with load_state")
def fresh(subject: Subject) -> None:
    """Without moments, a step without a gradient moves nothing."""
    if subject.dialect.era == "0.4.1":
        absent("servers of the first era take no `optimizer` key and restore what was saved")
    with subject.trial() as trial:
        path, _, saved = _saved(trial, "conform-fresh")
        trial.step()
        wanted = trial.logprobs()
        with _loaded(subject, trial, path) as loaded:
            loaded.step()
            unmoved("a step after load_state", saved, loaded.logprobs(), wanted)


@check("checkpoint.new_model", "makes a new model of a saved state, optimizer included")
def new_model(subject: Subject) -> None:
    """Another session can take over."""
    with subject.trial() as trial:
        path, _, saved = _saved(trial, "conform-new-model")
        trial.step()
        wanted = trial.logprobs()
        with _known_to_the_server():
            client = subject.service.create_training_client_from_state_with_optimizer(
                path, base_model=subject.base_model
            )
        with subject.adopted(Trial(client)) as other:
            same("log-probabilities of the new model", other.logprobs(), saved)
            other.step()
            got = other.logprobs()
    same_step("a step of the new model on saved momentum", saved, got, wanted)


@check("checkpoint.pending", "does not let a load apply gradients gathered before it")
def pending(subject: Subject) -> str:
    """Whatever becomes of them, weights after loading are the saved ones."""
    with subject.trial() as trial:
        path, start, saved = _saved(trial, "conform-pending")
        trial.backward(datum(3))
        try:
            _load(trial, path)
        except BadRequestError as error:
            _check_refusal(error)
            absent(f"weights are loaded into new models only: {error}")
        same("log-probabilities after loading", trial.logprobs(), saved)
        trial.step(RATE, beta1=0.0)
        kept = float(abs(trial.logprobs() - saved).max()) > 0.1 * float(abs(saved - start).max())
    return "gradients survive a load" if kept else "gradients are dropped by a load"
