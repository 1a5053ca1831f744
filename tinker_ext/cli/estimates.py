"""What a run will use, counted as the ledger counts it: exactly for SFT, as an interval for RL.

A row of data is one example. What its tokens are, in this order:

* ``model_input``: a datum as it is sent; its tokens are counted as they are.
* ``tokens``: a sequence; the model reads all but the last token and learns to predict the next.
* ``messages``: a conversation, put into tokens by the tokenizer's chat template.
* ``prompt`` and ``completion`` (or ``response``), or ``text``: put into tokens one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tinker_ext.errors import InvalidInputError
from tinker_ext.ledger import Tokens

FIELDS = "model_input, tokens, messages, prompt and completion, or text"


@attrs.frozen
class Estimate:
    """Tokens that a run uses at least and at most; the same for SFT.

    Attributes:
        rows: Examples or prompts in the data.
        low: At least.
        high: At most.
    """

    rows: int
    low: Tokens
    high: Tokens


def read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a JSONL file (or a JSON list) with their line numbers.

    Raises:
        InvalidInputError: A line is not a JSON object; says which.
    """
    if path.suffix == ".json":
        try:
            rows = json.loads(path.read_bytes())
        except ValueError as error:
            raise InvalidInputError(f"{path} is not JSON: {error}.") from None
        if not isinstance(rows, list):
            raise InvalidInputError(f"{path} must hold a list of rows.")
        yield from enumerate(rows, 1)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise InvalidInputError(
                        f"{path}, line {number} is not JSON: {error}."
                    ) from None
                yield number, row


class Counter:
    """Counts the tokens of rows; the tokenizer is loaded by the first row with text.

    Args:
        tokenizer: Gives the tokenizer.
        max_length: Longer inputs are cut to this.
    """

    def __init__(self, tokenizer: Callable[[], Any], max_length: int | None = None) -> None:
        self._load = tokenizer
        self._loaded: Any = None
        self._most = max_length

    @property
    def _tokenizer(self) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def example(self, number: int, row: Any) -> int:
        """Tokens that forward_backward reads for an example."""
        count = self._datum(number, row)
        if count is None:
            count = max(0, self._sequence(number, row, with_answer=True) - 1)
        return count if self._most is None else min(count, self._most)

    def prompt(self, number: int, row: Any) -> int:
        """Tokens that a sampler reads for a prompt."""
        count = self._datum(number, row)
        return self._sequence(number, row, with_answer=False) if count is None else count

    def _datum(self, number: int, row: Any) -> int | None:
        given = row.get("model_input") if isinstance(row, Mapping) else None
        if given is None:
            return None
        try:
            chunks = given["chunks"] if isinstance(given, Mapping) else [{"tokens": given}]
            if any(isinstance(chunk.get("tokens"), str) for chunk in chunks):
                raise TypeError("text")
            return sum(
                len(chunk["tokens"])
                if "tokens" in chunk
                else int(chunk.get("expected_tokens") or 0)
                for chunk in chunks
            )
        except (TypeError, ValueError, KeyError, AttributeError):
            raise InvalidInputError(
                f"Row {number} has a model_input that is neither a list of tokens nor has chunks, "
                "each with tokens or expected_tokens."
            ) from None

    def _sequence(self, number: int, row: Any, *, with_answer: bool) -> int:
        if isinstance(row, Mapping):
            if isinstance(row.get("tokens"), list):
                return len(row["tokens"])
            messages = row.get("messages")
            if isinstance(messages, list) and all(isinstance(each, Mapping) for each in messages):
                options = {"add_generation_prompt": not with_answer}
                return len(self._tokenizer.apply_chat_template(messages, **options))
            answer = row.get("completion", row.get("response")) if with_answer else None
            parts = [row.get("prompt", row.get("question", row.get("text"))), answer]
            if with_answer and parts[1] is None and "prompt" in row:
                parts[0] = None  # half an example is a mistake, not a short one
            if isinstance(parts[0], str) and isinstance(parts[1], str | None):
                first = len(self._tokenizer.encode(parts[0]))
                more = (
                    self._tokenizer.encode(parts[1], add_special_tokens=False) if parts[1] else []
                )
                return first + len(more)
        raise InvalidInputError(f"Row {number} has no tokens to count: it needs {FIELDS}.")


def sft(lengths: Iterable[int], *, epochs: int = 1, batch_size: int | None = None) -> Estimate:
    """Tokens of supervised training.

    Args:
        lengths: Tokens of the examples.
        epochs: Times that each is trained on.
        batch_size: Given when an incomplete last batch is left out; the rows left out are those
            at the end.

    Example:
        >>> sft([10, 20, 30], epochs=2).low.train
        120
    """
    counts = list(lengths)
    kept = len(counts) if batch_size is None else len(counts) // batch_size * batch_size
    tokens = Tokens(train=sum(counts[:kept]) * epochs)
    return Estimate(len(counts), tokens, tokens)


def rl(
    prompts: Iterable[int], *, epochs: int = 1, group: int, max_tokens: int, min_tokens: int = 1
) -> Estimate:
    """Tokens of reinforcement learning: sample a group per prompt, then train on every sequence.

    Args:
        prompts: Tokens of the prompts.
        epochs: Times that each is sampled from.
        group: Sequences per prompt, drawn by one call.
        max_tokens: Most tokens of a sequence.
        min_tokens: Fewest.

    Example:
        >>> found = rl([10], group=4, max_tokens=100)
        >>> found.low.sample, found.high.sample
        (4, 400)
    """
    counts = list(prompts)
    read = sum(counts) * epochs
    drawn = len(counts) * epochs * group

    def with_length(length: int) -> Tokens:
        # The last token of a sequence is predicted, never read.
        train = read * group + drawn * (length - 1)
        return Tokens(train=train, prefill=read, sample=drawn * length)

    return Estimate(len(counts), with_length(min_tokens), with_length(max_tokens))
