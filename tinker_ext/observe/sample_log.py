"""`SampleLog`: what a model said, kept so that `tinker-ext ui` can show it.

The file, ``samples.jsonl``, has one line a prompt and look: ``type`` (``sample``), ``time``,
``step``, ``checkpoint``, ``prompt_id`` (the same prompt has the same), ``prompt`` and
``sequences``, each with ``text``, ``pieces`` (the text of every token), ``logprobs``,
``trainer_logprobs``, ``reward`` and ``stop_reason``. When it is half as large as the bound it
becomes ``samples.1.jsonl``, and the one before that is deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinker_ext import forks
from tinker_ext.errors import ConfigurationError, InvalidInputError
from tinker_ext.runlog import FILE_SUFFIXES, encode
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SampledSequence, SampleResponse

NAME = "samples.jsonl"
OLDER = "samples.1.jsonl"
MOST_TEXT = 1 << 20
"""Characters of one text that are kept."""


class SampleLog:
    """Records samples in the folder of a run; bounded on disk, safe from any thread.

    Args:
        folder: Folder of the run, the one with its run log.
        tokenizer: Turns tokens into text, for example `training.get_tokenizer()`; without one the
            token ids are written.
        max_bytes: Most bytes on disk; the oldest samples make room.
        every: Record one call in this many.

    Raises:
        ConfigurationError: A bound is not a number of at least 1.

    Example:
        >>> import tempfile
        >>> from tinker_ext import ModelInput
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
        is_file = place.is_file() or place.suffix in FILE_SUFFIXES
        self.path = (place.parent if is_file else place) / NAME
        self._tokenizer = tokenizer
        self._half = max_bytes // 2
        self._every = every
        self._calls = 0
        self._pieces: dict[int, str] = {}
        self._lock = forks.lock()
        self._broken = False

    def __repr__(self) -> str:
        return f"SampleLog({str(self.path.parent)!r})"

    def record(
        self,
        prompt: ModelInput | str,
        response: SampleResponse,
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
        tokens = None if isinstance(prompt, str) else _ints(prompt)
        key = prompt if isinstance(prompt, str) else repr(tokens)
        self._write(
            {
                "type": "sample",
                "time": round(time.time(), 6),
                "step": step,
                "checkpoint": getattr(checkpoint, "model_path", checkpoint),
                "prompt_id": hashlib.blake2s(
                    key.encode("utf-8", "replace"), digest_size=8
                ).hexdigest(),
                "prompt": prompt[:MOST_TEXT]
                if isinstance(prompt, str)
                else self._text(tokens or []),
                "sequences": [
                    self._sequence(
                        sequence, None if rewards is None else float(rewards[at]), values
                    )
                    for at, (sequence, values) in enumerate(zip(sequences, scored, strict=True))
                ],
            }
        )

    def _sequence(
        self, sequence: SampledSequence, reward: float | None, scored: Any
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
            return " ".join(map(str, tokens))[:MOST_TEXT]
        return str(self._tokenizer.decode(list(tokens)))[:MOST_TEXT]

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
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                file = os.open(self.path, flags, 0o600)
                try:
                    if os.fstat(file).st_size + len(line) > self._half:
                        self.path.replace(self.path.with_name(OLDER))
                        os.close(file)
                        file = os.open(self.path, flags, 0o600)
                    if len(line) <= self._half:
                        os.write(file, line)
                finally:
                    os.close(file)
            except OSError as error:
                self._report(error)

    def _report(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            logging.getLogger("tinker_ext").warning(
                "Samples cannot be written to %s: %s. The run goes on without them.",
                self.path,
                error.strerror,
            )


def _ints(prompt: ModelInput) -> list[int]:
    """The tokens of a prompt; an image counts as token -1, so that it is seen to be there."""
    found: list[int] = []
    for chunk in prompt.chunks:
        found += getattr(chunk, "tokens", [-1])
    return found
