"""Checks that sampler and trainer see the same model: log-probabilities of both are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.conform.checks.sampling import TOKENS, base_client, draw
from tinker_ext.conform.data import PROMPT, datum, scored, tokens
from tinker_ext.conform.reference import SCORE, flat, show
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.conform.trial import Trial
from tinker_ext.errors import APIStatusError, RequestFailedError
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SamplingParams


def agree(what: str, sampler: object, trainer: object) -> float:
    """Fail unless two lists of log-probabilities agree; returns how far they are apart."""
    ours, theirs = flat(sampler), flat(trainer)
    if ours.shape != theirs.shape:
        fail(f"{what}: the sampler gave {ours.size} values, the trainer {theirs.size}")
    apart = float(np.abs(ours - theirs).mean())
    if not apart <= SCORE:
        fail(f"{what}: sampler {show(ours)}, trainer {show(theirs)}; {apart:.2g} apart on average")
    return apart


def _train(trial: Trial) -> None:
    for _ in range(3):
        trial.backward(datum(1))
        trial.step(1e-2)


def _prompt_logprobs(client: SamplingClient, ids: Sequence[int]) -> list[float]:
    """Scores of all tokens but the first."""
    values = client.compute_logprobs(ModelInput.from_ints(list(ids))).result()
    known = [value for value in values if value is not None]
    if len(known) != len(ids) - 1:
        fail(f"{len(known)} prompt log-probabilities for {len(ids)} tokens: {values}")
    return known


@check("score.sampled", "gives sampled tokens the log-probabilities the trainer gives them")
def sampled(subject: Subject) -> str:
    """Importance ratios start at 1 only then."""
    with subject.trial() as trial:
        sequence = draw(trial.client.save_weights_and_get_sampling_client())[0]
        if sequence.logprobs is None:
            absent("sampled sequences carry no log-probabilities")
        drawn = list(sequence.tokens)
        trained = trial.logprobs([scored(PROMPT, drawn)])[len(PROMPT) - 1 :]
    return f"{agree('sampled tokens', list(sequence.logprobs), trained):.1g} apart"


@check("score.prompt", "gives prompt tokens the log-probabilities the trainer gives them")
def prompt(subject: Subject) -> str:
    """compute_logprobs and forward are two ways to the same number."""
    ids = tokens(3)
    with subject.trial() as trial:
        client = trial.client.save_weights_and_get_sampling_client()
        scores = _prompt_logprobs(client, ids)
        trained = trial.logprobs([datum(3)])
    return f"{agree('prompt tokens', scores, trained):.1g} apart"


@check("score.trained", "samples from the weights as they are when saved")
def trained_weights(subject: Subject) -> str:
    """After training, the ephemeral sampler and the trainer still agree."""
    ids = tokens(1)
    with subject.trial() as trial:
        before = trial.logprobs([datum(1)])
        _train(trial)
        client = trial.client.save_weights_and_get_sampling_client()
        scores = _prompt_logprobs(client, ids)
        after = trial.logprobs([datum(1)])
    moved = float(np.abs(after - before).mean())
    expect(moved > 2 * SCORE, f"three steps moved log-probabilities by only {moved:.2g}")
    return f"{agree('weights after training', scores, after):.1g} apart"


@check("score.named", "samples the same from weights saved under a name")
def named(subject: Subject) -> str:
    """A checkpoint for samplers holds what the trainer had."""
    ids = tokens(1)
    with subject.trial() as trial:
        _train(trial)
        path = trial.client.save_weights_for_sampler("conform-sampler").result().path
        client = subject.service.create_sampling_client(model_path=path)
        scores = _prompt_logprobs(client, ids)
        after = trial.logprobs([datum(1)])
    return f"{agree('named sampler weights', scores, after):.1g} apart; path {path}"


@check("score.prompt_shape", "returns one prompt log-probability per token, null for the first")
def prompt_shape(subject: Subject) -> None:
    """Positions line up with tokens."""
    answer = subject.call(
        "POST",
        "asample",
        {
            "base_model": subject.base_model,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
            "sampling_params": {"max_tokens": TOKENS, "seed": 1},
            "num_samples": 1,
            "prompt_logprobs": True,
        },
    )
    values = subject.result(answer).get("prompt_logprobs")
    if values is None:
        absent("prompt_logprobs came back as null although asked for")
    expect(
        isinstance(values, list) and len(values) == len(PROMPT),
        f"{len(values)} prompt_logprobs for {len(PROMPT)} tokens: {values}",
    )
    expect(values[0] is None, f"the first prompt_logprob is {values[0]} instead of null")
    expect(None not in values[1:], f"prompt_logprobs has holes: {values}")


@check("score.topk", "returns the likeliest tokens per prompt position")
def topk(subject: Subject) -> None:
    """No token is likelier than the first of the list."""
    client = base_client(subject)
    ids = ModelInput.from_ints(PROMPT)
    params = SamplingParams(max_tokens=TOKENS, seed=1)
    try:
        reply = client.sample(
            ids, 1, params, include_prompt_logprobs=True, topk_prompt_logprobs=3
        ).result()
    except (APIStatusError, RequestFailedError) as error:
        absent(f"topk_prompt_logprobs was refused: {error}")
    rows = reply.topk_prompt_logprobs
    if rows is None:
        absent("topk_prompt_logprobs came back as null although asked for")
    expect(len(rows) == len(PROMPT), f"{len(rows)} rows for {len(PROMPT)} tokens")
    for place, row in enumerate(rows):
        if row is None:
            continue
        values = [value for _, value in row]
        expect(len(row) == 3, f"row {place} has {len(row)} tokens instead of 3")
        expect(values == sorted(values, reverse=True), f"row {place} is not sorted: {values}")
        own = reply.prompt_logprobs[place] if reply.prompt_logprobs is not None else None
        if own is not None:
            expect(own <= values[0] + SCORE, f"row {place}: {own} beats the likeliest {values[0]}")
