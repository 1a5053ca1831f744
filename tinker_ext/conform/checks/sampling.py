"""Checks of sampling: seeds, temperature, stops, lengths, numbers of samples."""

from __future__ import annotations

from collections.abc import Sequence

from tinker_ext.clients.sampling import SamplingClient
from tinker_ext.conform.data import PROMPT
from tinker_ext.conform.registry import absent, check, expect, fail
from tinker_ext.conform.subject import Subject
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SampledSequence, SamplingParams

TOKENS = 8


def draw(
    client: SamplingClient,
    count: int = 1,
    *,
    seed: int | None = 5,
    temperature: float = 1.0,
    stop: Sequence[int] | None = None,
    max_tokens: int = TOKENS,
) -> list[SampledSequence]:
    """Sample continuations of the common prompt."""
    params = SamplingParams(
        max_tokens=max_tokens,
        seed=seed,
        temperature=temperature,
        stop=None if stop is None else list(stop),
    )
    return list(client.sample(ModelInput.from_ints(PROMPT), count, params).result().sequences)


def base_client(subject: Subject) -> SamplingClient:
    """A sampling client of the base model."""
    return subject.service.create_sampling_client(base_model=subject.base_model)


@check("sample.seed", "draws the same tokens from the same seed, others from another")
def seed(subject: Subject) -> None:
    """Evaluations can be repeated."""
    client = base_client(subject)
    first, again = draw(client, seed=5)[0], draw(client, seed=5)[0]
    expect(
        list(first.tokens) == list(again.tokens),
        f"seed 5 gave {list(first.tokens)}, then {list(again.tokens)}",
    )
    others = [list(draw(client, seed=number)[0].tokens) for number in (6, 7)]
    if all(tokens == list(first.tokens) for tokens in others):
        fail(f"seeds 5, 6 and 7 all gave {list(first.tokens)} at temperature 1")


@check("sample.temperature", "takes the likeliest token at temperature 0, whatever the seed")
def temperature(subject: Subject) -> None:
    """Greedy decoding has no chance in it."""
    client = base_client(subject)
    drawn = [list(draw(client, seed=number, temperature=0.0)[0].tokens) for number in (5, 6, 7)]
    expect(all(tokens == drawn[0] for tokens in drawn), f"temperature 0 gave {drawn}")


@check("sample.num_samples", "returns as many sequences as asked for, not all the same")
def num_samples(subject: Subject) -> None:
    """A group of rollouts is one request."""
    sequences = draw(base_client(subject), 4)
    expect(len(sequences) == 4, f"{len(sequences)} sequences came back for num_samples 4")
    different = {tuple(sequence.tokens) for sequence in sequences}
    expect(len(different) > 1, f"4 samples at temperature 1 are all {list(sequences[0].tokens)}")


@check("sample.max_tokens", "stops after max_tokens with stop_reason length")
def max_tokens(subject: Subject) -> None:
    """Budgets hold."""
    for sequence in draw(base_client(subject), 4):
        count, reason = len(sequence.tokens), str(sequence.stop_reason)
        expect(count <= TOKENS, f"{count} tokens came back for max_tokens {TOKENS}")
        expect(reason in ("length", "stop"), f"stop_reason is {reason!r}")
        expect(
            count == TOKENS or reason == "stop",
            f"{count} of {TOKENS} tokens came back with stop_reason {reason!r}",
        )


@check("sample.stop", "ends at a stop token with stop_reason stop")
def stop(subject: Subject) -> str:
    """Chat turns end this way."""
    client = base_client(subject)
    free = list(draw(client)[0].tokens)
    if len(free) < 3:
        absent(f"only {len(free)} tokens came without a stop token")
    token = free[2]
    place = free.index(token)
    stopped = draw(client, stop=[token])[0]
    tokens, reason = list(stopped.tokens), str(stopped.stop_reason)
    expect(
        tokens in (free[: place + 1], free[:place]),
        f"with stop token {token} came {tokens}; without it {free}",
    )
    expect(reason == "stop", f"stop_reason is {reason!r} at a stop token")
    return "stop token included" if len(tokens) == place + 1 else "stop token left out"


@check("sample.top_k", "considers only the top_k likeliest tokens")
def top_k(subject: Subject) -> None:
    """top_k 1 is greedy decoding."""
    client = base_client(subject)
    greedy = list(draw(client, temperature=0.0)[0].tokens)
    params = SamplingParams(max_tokens=TOKENS, seed=5, temperature=1.0, top_k=1)
    reply = client.sample(ModelInput.from_ints(PROMPT), 1, params).result()
    tokens = list(reply.sequences[0].tokens)
    expect(tokens == greedy, f"top_k 1 gave {tokens}; greedy decoding {greedy}")


@check("sample.sequence_ids", "names every sequence in the promise of a sample")
def sequence_ids(subject: Subject) -> None:
    """Second-era clients insist on them."""
    answer = subject.call(
        "POST",
        "asample",
        {
            "base_model": subject.base_model,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
            "sampling_params": {"max_tokens": TOKENS, "seed": 1},
            "num_samples": 2,
        },
    )
    expect(answer.ok, f"asample of the base model: {answer}")
    subject.poll(answer.request_id())
    ids = answer.object().get("sample_sequence_ids")
    if ids is None and subject.dialect.era == "0.4.1":
        absent(f"a first-era promise: {answer}")
    expect(
        isinstance(ids, list) and len(set(ids)) == 2,
        f"sample_sequence_ids is {ids!r} for num_samples 2",
    )
