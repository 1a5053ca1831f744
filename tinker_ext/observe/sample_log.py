"""`SampleLog`: the samples of a run, recorded beside its run log in two files of bounded size."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinker_ext import types
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.runlog import Lines, cut_off, encode, is_file, open_lines

NAMES = OLDER, CURRENT = ("samples.1.jsonl", "samples.jsonl")
"""The older file, then the one that is written to."""

MOST_KEPT = 1 << 20
"""Characters of one text that are recorded."""


class SampleLog(Lines):
    """Records samples in the folder of a run; bounded on disk, safe from any thread.

    Args:
        folder: Folder of the run, the one with its run log.
        tokenizer: Turns tokens into text, for example `training.get_tokenizer()`; without one the
            token ids are written.
        max_bytes: Most bytes on disk; the oldest samples make room, and one that is larger than
            half of it is left out.
        every: Record one call in this many.

    Raises:
        ConfigurationError: A bound is not a number of at least 1.

    Example:
        >>> import tempfile
        >>> from tinker_ext import ModelInput, SampleLog
        >>> from tinker_ext.types import SampledSequence, SampleResponse
        >>> log = SampleLog(tempfile.mkdtemp())
        >>> reply = SampleResponse([SampledSequence("stop", tokens=[5, 6], logprobs=[-0.1, -2.0])])
        >>> log.record(ModelInput.from_ints([1, 2]), reply, rewards=[1.0], step=7)
        >>> log.path.read_text().count("pieces")
        1
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        tokenizer: Any = None,
        max_bytes: int = 64 << 20,
        every: int = 1,
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("every", every)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(
                    f"{name} must be a whole number of at least 1, not {value!r}."
                )
        place = Path(folder)
        super().__init__((place.parent if is_file(place) else place) / CURRENT)
        self._tokenizer = tokenizer
        self._half = max_bytes // 2
        self._every = every
        self._calls = 0
        self._pieces: dict[int, str] = {}

    def record(
        self,
        prompt: types.ModelInput | str,
        response: types.SampleResponse,
        *,
        rewards: Sequence[float] | None = None,
        trainer_logprobs: Sequence[Any] | None = None,
        step: int | None = None,
        checkpoint: Any = None,
    ) -> None:
        """Record what was sampled for a prompt.

        A disk that is full is reported once and stops nothing.

        Args:
            prompt: What the model read.
            response: What it said.
            rewards: One number a sequence.
            trainer_logprobs: For each sequence the log-probabilities that the trainer gives to
                its tokens, to compare with the sampler's.
            step: Step of the run.
            checkpoint: Where the weights are from: a path or name, or the `SamplingClient`.

        Raises:
            InvalidInputError: There are more or fewer rewards or logprobs than sequences or tokens.
        """
        sequences = response.sequences
        for name, given in (("rewards", rewards), ("trainer_logprobs", trainer_logprobs)):
            if given is not None and len(given) != len(sequences):
                raise InvalidInputError(
                    f"{name} must have one entry for each of the {len(sequences)} sequences, "
                    f"not {len(given)}."
                )
        scored = [None] * len(sequences) if trainer_logprobs is None else trainer_logprobs
        for sequence, values in zip(sequences, scored, strict=True):
            if values is not None and len(values) != len(sequence.tokens):
                raise InvalidInputError(
                    f"trainer_logprobs must have one number for each of the "
                    f"{len(sequence.tokens)} sampled tokens, not {len(values)}."
                )
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        if isinstance(prompt, str):
            key, text = prompt, prompt[:MOST_KEPT]
        else:
            tokens = _ints(prompt)
            key, text = repr(tokens), self._text(tokens)
        digest = hashlib.blake2s(key.encode("utf-8", "replace"), digest_size=8)
        earned = [None] * len(sequences) if rewards is None else map(float, rewards)
        self._write(
            {
                "type": "sample",
                "time": round(time.time(), 6),
                "step": step,
                "checkpoint": getattr(checkpoint, "model_path", checkpoint),
                "prompt_id": digest.hexdigest(),
                "prompt": text,
                "sequences": list(map(self._sequence, sequences, earned, scored)),
            }
        )

    def _sequence(
        self, sequence: types.SampledSequence, reward: float | None, scored: Any
    ) -> dict[str, Any]:
        tokens = sequence.tokens
        return {
            "text": self._text(tokens),
            "pieces": [self._piece(token) for token in tokens],
            "logprobs": sequence.logprobs,
            "trainer_logprobs": None if scored is None else [float(value) for value in scored],
            "reward": reward,
            "stop_reason": str(sequence.stop_reason),
        }

    def _text(self, tokens: Sequence[int]) -> str:
        if self._tokenizer is None:
            return " ".join(map(str, tokens))[:MOST_KEPT]
        return str(self._tokenizer.decode(list(tokens)))[:MOST_KEPT]

    def _piece(self, token: int) -> str:
        # Decoding one token costs microseconds; a vocabulary has few that are used.
        piece = self._pieces.get(token)
        if piece is None:
            piece = f"{token} " if self._tokenizer is None else str(self._tokenizer.decode([token]))
            self._pieces[token] = piece
        return piece

    def _write(self, record: dict[str, Any]) -> None:
        line = encode(record)
        with self._lock:
            if len(line) > self._half:
                self._say(_LARGE_SAMPLE)
                return
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if not self._append(line):
                    self.path.replace(self.path.with_name(OLDER))
                    self._append(line)
            except OSError as error:
                self._say(_UNWRITABLE_SAMPLES, error.strerror)

    def _append(self, line: bytes) -> bool:
        """Write a line if there is room for it; says whether there was."""
        file = open_lines(self.path, 0o600)
        try:
            room = os.fstat(file).st_size + len(line) <= self._half
            if room and os.write(file, line) < len(line):
                raise cut_off()
        finally:
            os.close(file)
        return room


_LARGE_SAMPLE = "A sample for %s is larger than half of max_bytes, and is not recorded."
_UNWRITABLE_SAMPLES = "Samples cannot be written to %s: %s. The run goes on without them."


def _ints(prompt: types.ModelInput) -> list[int]:
    """The tokens of a prompt; an image counts as token -1, so that it is seen to be there."""
    found: list[int] = []
    for chunk in prompt.chunks:
        found += getattr(chunk, "tokens", [-1])
    return found
