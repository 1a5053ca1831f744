"""Sampling from fixed weights: continuations of a prompt, and where they stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs
import numpy as np

from tinker_ext.mock.engine.base import BaseModel
from tinker_ext.mock.engine.choose import choose, log_softmax, top
from tinker_ext.mock.engine.data import check_tokens
from tinker_ext.mock.engine.decoding import Decoder
from tinker_ext.mock.engine.scoring import PromptScores, score
from tinker_ext.mock.engine.tiles import Array

MAX_NEW_TOKENS = 1024
"""Tokens sampled at most when the caller sets no limit."""

Decode = Callable[[Sequence[int]], str]


@attrs.frozen
class SampleParams:
    """How to sample; the defaults are those of the service.

    ``stop``: None stops at the end-of-text ids; a string, strings or token ids stop as well;
    an empty list stops at nothing. Sample i draws from the stream of ``seed + i``.
    """

    max_tokens: int | None = None
    seed: int = 0
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    stop: str | Sequence[str] | Sequence[int] | None = None


@attrs.frozen(eq=False)
class Sample:
    """One continuation; a stop token, or the tokens of a stop string, are part of it.

    ``logprobs`` are those of the unscaled, unfiltered distribution. ``stop_reason`` is "stop" or
    "length". ``topk_ids`` and ``topk_logprobs`` are (tokens, k) when asked for.
    """

    tokens: Array
    logprobs: Array
    stop_reason: str
    topk_ids: Array | None = None
    topk_logprobs: Array | None = None


@attrs.frozen(eq=False)
class Sampler:
    """Immutable weights to sample from and to score with; safe to share between threads.

    Example:
        >>> sampler = Sampler.of_base(BaseModel.create("tiny", vocab_size=259))
        >>> [sample] = sampler.sample([72, 105], params=SampleParams(max_tokens=4, seed=7))
        >>> len(sample.tokens)
        4
    """

    base: BaseModel
    weights: Mapping[str, Array] = attrs.field(repr=False)

    @classmethod
    def of_base(cls, base: BaseModel) -> Sampler:
        """The base model itself, without an adapter."""
        return cls(base, base.weights)

    def sample(
        self,
        prompt: Sequence[int] | Array,
        num_samples: int = 1,
        params: SampleParams | None = None,
        *,
        eos: Collection[int] = (),
        decode: Decode | None = None,
        topk: int = 0,
    ) -> list[Sample]:
        """Samples continuations of a prompt.

        Args:
            prompt: token ids, at least one.
            num_samples: how many; sample i is the same whatever this is.
            params: how; see `SampleParams`.
            eos: ids that end a text.
            decode: token ids to text; needed for stop strings.
            topk: also return this many best tokens per position.

        Raises:
            ValueError: an empty prompt, an unknown id, or stop strings without ``decode``.
        """
        params = params or SampleParams()
        ids = _checked(prompt, self.base.vocab_size)
        stop = _Stop.of(params.stop, eos, decode)
        limit = MAX_NEW_TOKENS if params.max_tokens is None else params.max_tokens
        runs = [_Run(params.seed + i) for i in range(num_samples)]
        if limit <= 0 or not runs:
            return [run.result(topk) for run in runs]
        decoder = Decoder(self.base, self.weights, ids, num_samples, limit)
        for count in range(limit):
            logits = decoder.logits
            logprobs = log_softmax(logits)
            draws = np.array([run.rng.random() for run in runs])
            tokens = choose(logits, draws, params.temperature, params.top_k, params.top_p)
            best = top(logprobs, topk) if topk > 0 else None
            for i, run in enumerate(runs):
                if not run.stopped:
                    run.append(int(tokens[i]), float(logprobs[i, tokens[i]]))
                    if best is not None:
                        run.best.append((best[0][i], best[1][i]))
                    run.stopped = stop.reached(run.tokens)
            if count + 1 == limit or all(run.stopped for run in runs):
                break
            decoder.step(tokens)
        return [run.result(topk) for run in runs]

    def score(
        self,
        prompt: Sequence[int] | Array,
        *,
        topk: int = 0,
        targets: Array | None = None,
        alternatives: int = 0,
        temperature: float = 1.0,
        seed: int = 0,
        last_n: int | None = None,
    ) -> PromptScores:
        """Log-probabilities of the prompt's own tokens, and more; see `PromptScores`.

        Raises:
            ValueError: an empty prompt, an unknown id or targets of the wrong shape.
        """
        ids = _checked(prompt, self.base.vocab_size)
        return score(
            self.base,
            self.weights,
            ids,
            topk=topk,
            targets=targets,
            alternatives=alternatives,
            temperature=temperature,
            seed=seed,
            last_n=last_n,
        )


class _Run:
    """One continuation while it grows."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed % 2**64))
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.best: list[tuple[Array, Array]] = []
        self.stopped = False

    def append(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)

    def result(self, topk: int) -> Sample:
        ids = np.array([ids for ids, _ in self.best], dtype=np.int64)
        values = np.array([value for _, value in self.best], dtype=np.float32)
        return Sample(
            tokens=np.array(self.tokens, dtype=np.int64),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            stop_reason="stop" if self.stopped else "length",
            topk_ids=ids if topk > 0 else None,
            topk_logprobs=values if topk > 0 else None,
        )


@attrs.frozen
class _Stop:
    """When a continuation ends."""

    tokens: frozenset[int]
    strings: tuple[str, ...]
    decode: Decode | None

    @classmethod
    def of(
        cls,
        stop: str | Sequence[str] | Sequence[int] | None,
        eos: Collection[int],
        decode: Decode | None,
    ) -> _Stop:
        if stop is None:
            return cls(frozenset(eos), (), decode)
        items: list[str | int] = [stop] if isinstance(stop, str) else list(stop)
        if not items:
            return cls(frozenset(), (), decode)
        strings = tuple(item for item in items if isinstance(item, str) and item)
        if strings and decode is None:
            raise ValueError("stop strings need a tokenizer; use token ids for this model")
        ids = frozenset(item for item in items if isinstance(item, int))
        return cls(ids | frozenset(eos), strings, decode)

    def reached(self, tokens: Sequence[int]) -> bool:
        if tokens[-1] in self.tokens:
            return True
        if not self.strings or self.decode is None:
            return False
        # A character takes at most four byte tokens; the margin covers joins at the front.
        tail = 4 * max(len(string) for string in self.strings) + 8
        text = self.decode(tokens[-tail:])
        return any(string in text for string in self.strings)


def _checked(prompt: Sequence[int] | Array, vocab_size: int) -> Array:
    ids = np.asarray(prompt, dtype=np.int64).reshape(-1)
    if not ids.size:
        raise ValueError("the prompt has no tokens")
    check_tokens(ids, vocab_size, "prompt")
    return ids
