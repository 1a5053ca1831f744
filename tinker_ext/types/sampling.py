"""What to sample and what came back: parameters, sequences and their log-probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import attrs
import numpy as np
import numpy.typing as npt
from tinker_api import models

from tinker_ext import forks
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.enums import StopReason
from tinker_ext.types.records import Record, follow
from tinker_ext.types.tensor_data import TensorData

TopkList: TypeAlias = list[list[tuple[int, float]] | None]

_LARGEST_TOKEN = 2**31 - 1  # tokens are int32 on the wire

EMPTY_CELL = -99999.0
"""Log-probability of a cell of a top-k table that holds no token."""


def _stop(value: Any) -> str | list[str] | list[int] | None:
    if value is None or (isinstance(value, str) and value):
        return value
    # These can be listed too, as keys, numbers or letters, which nobody means.
    if not isinstance(value, (Mapping, bytes, bytearray, str)):
        try:
            items = list(value)
        except TypeError:
            items = [None]
        if all(isinstance(item, str) and item for item in items):
            return items
        if all(hasattr(item, "__index__") and not isinstance(item, bool) for item in items):
            tokens = [int(item) for item in items]
            bad = next((each for each in tokens if not 0 <= each <= _LARGEST_TOKEN), None)
            if bad is not None:
                raise InvalidInputError(f"stop: token {bad} is outside 0 … {_LARGEST_TOKEN}.")
            return tokens
    if value == "" or (isinstance(value, (list, tuple)) and "" in value):
        raise InvalidInputError("stop must not be an empty text; an empty list stops at nothing.")
    raise InvalidInputError(
        f"stop must be a string, a list of strings or a list of token ids, not {value!r}."
    )


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class SamplingParams(Record, models.SamplingParams):
    """How to sample.

    Args:
        max_tokens: Largest number of tokens to sample; None leaves it to the server.
        seed: Seed; None lets the server choose.
        stop: Text or token ids that end a sequence. None keeps the model's own end token; an
            empty list switches every stop off.
        temperature: 0 is greedy.
        top_k: Sample from the k likeliest tokens; -1 is all.
        top_p: Sample from the smallest set of tokens with this total probability.

    Raises:
        InvalidInputError: A value has the wrong type or is out of range.
    """

    max_tokens: int | None = attrs.field(default=None, metadata={"least": 0})
    stop: str | Sequence[str] | Sequence[int] | None = attrs.field(  # type: ignore[assignment]
        default=None, converter=_stop
    )
    temperature: float = attrs.field(default=1, metadata={"least": 0})
    top_k: int = attrs.field(default=-1, metadata={"least": -1})
    top_p: float = attrs.field(default=1, metadata={"least": 0, "most": 1})

    def to_dict(self) -> dict[str, Any]:
        """The object as it is sent; a single stop text travels as a list."""
        sent = super().to_dict()
        if isinstance(self.stop, str):
            # A list says the same, and some servers take nothing else.
            sent["stop"] = [self.stop]
        return sent


@attrs.frozen(eq=False)
class TopkLogprobs:
    """The k likeliest tokens at n positions, as two arrays of shape (n, k)."""

    token_ids: npt.NDArray[Any]
    logprobs: npt.NDArray[Any]

    def tolist(self) -> TopkList:
        """For every position a list of (token id, logprob), or None where it is missing."""
        rows: TopkList = []
        for ids, values in zip(self.token_ids.tolist(), self.logprobs.tolist(), strict=True):
            row = [(i, v) for i, v in zip(ids, values, strict=True) if v > EMPTY_CELL]
            rows.append(row or None)
        return rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopkLogprobs):
            return NotImplemented
        return np.array_equal(self.token_ids, other.token_ids) and np.array_equal(
            self.logprobs, other.logprobs, equal_nan=True
        )

    def __hash__(self) -> int:
        return hash((self.token_ids.shape, self.logprobs.shape))


@attrs.frozen
class PromptAltTokens:
    """Alternative tokens for every prompt position and their log-probabilities."""

    tokens: TensorData
    logprobs: TensorData


Decoded: TypeAlias = tuple[
    StopReason, str, npt.NDArray[Any], npt.NDArray[Any] | None, TopkLogprobs | None
]
"""What a sequence is made of, as it came from the server."""


def _first_era(what: str, names: str) -> None:
    warnings.warn(
        f"{what}({names}=…) is how clients of the first era built it; pass arrays instead.",
        DeprecationWarning,
        stacklevel=3,
    )


@attrs.frozen(eq=False, repr=False, init=False)
class SampledSequence:
    """One sampled sequence; the lists are made from the arrays when first read.

    Attributes:
        stop_reason: `stop` or `length`; a value from a newer server is kept as it is.
        sequence_id: Id of the sequence; empty when the server gives none.
    """

    stop_reason: StopReason
    sequence_id: str = ""
    tokens_np: npt.NDArray[Any] | None = None
    logprobs_np: npt.NDArray[Any] | None = None
    topk_logprobs_np: TopkLogprobs | None = None
    _tokens_list: list[int] | None = attrs.field(default=None, alias="_tokens_list")
    _logprobs_list: list[float] | None = attrs.field(default=None, alias="_logprobs_list")
    _topk_logprobs_list: TopkList | None = attrs.field(default=None, alias="_topk_logprobs_list")

    def __init__(
        self,
        stop_reason: StopReason,
        sequence_id: str = "",
        tokens_np: npt.NDArray[Any] | None = None,
        logprobs_np: npt.NDArray[Any] | None = None,
        topk_logprobs_np: TopkLogprobs | None = None,
        _tokens_list: list[int] | None = None,
        _logprobs_list: list[float] | None = None,
        _topk_logprobs_list: TopkList | None = None,
        *,
        tokens: Sequence[int] | None = None,
        logprobs: Sequence[float] | None = None,
    ) -> None:
        if tokens is not None or logprobs is not None:
            _first_era("SampledSequence", "tokens, logprobs")
            _tokens_list = None if tokens is None else list(tokens)
            _logprobs_list = None if logprobs is None else list(logprobs)
        self.__attrs_init__(
            stop_reason,
            sequence_id,
            tokens_np,
            logprobs_np,
            topk_logprobs_np,
            _tokens_list,
            _logprobs_list,
            _topk_logprobs_list,
        )

    @property
    def tokens(self) -> list[int]:
        """The sampled token ids."""
        if self._tokens_list is None:
            made = [] if self.tokens_np is None else self.tokens_np.tolist()
            object.__setattr__(self, "_tokens_list", made)
        return cast("list[int]", self._tokens_list)

    @property
    def logprobs(self) -> list[float] | None:
        """Log-probability of every sampled token; None when the server sent none."""
        if self._logprobs_list is None and self.logprobs_np is not None:
            object.__setattr__(self, "_logprobs_list", self.logprobs_np.tolist())
        return self._logprobs_list

    @property
    def topk_logprobs(self) -> TopkList | None:
        """The likeliest tokens at every position, when they were asked for."""
        if self._topk_logprobs_list is None and self.topk_logprobs_np is not None:
            object.__setattr__(self, "_topk_logprobs_list", self.topk_logprobs_np.tolist())
        return self._topk_logprobs_list

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampledSequence):
            return NotImplemented
        return (
            (self.stop_reason, self.sequence_id) == (other.stop_reason, other.sequence_id)
            and self.tokens == other.tokens
            and self.logprobs == other.logprobs
            and self.topk_logprobs == other.topk_logprobs
        )

    def __hash__(self) -> int:
        return hash((self.stop_reason, self.sequence_id))

    def __repr__(self) -> str:
        return (
            f"SampledSequence(stop_reason={str(self.stop_reason)!r}, "
            f"sequence_id={self.sequence_id!r}, tokens={self.tokens})"
        )


_making = forks.reentrant_lock()


class _Received:
    """What a response holds until its sequences are read; no field, so that no copy shows it."""

    __slots__ = ("_decoded",)
    if TYPE_CHECKING:
        _decoded: tuple[Decoded, ...]


@attrs.frozen(eq=False, repr=False, init=False)
class SampleResponse(_Received):
    """The sequences of one sample call and what was asked about its prompt.

    Attributes:
        sequences: One entry per sample.
        prompt_cache_hit_tokens: Prompt tokens the server did not have to compute again.
    """

    sequences: Sequence[SampledSequence]
    prompt_logprobs_np: npt.NDArray[Any] | None = None
    topk_prompt_logprobs_np: TopkLogprobs | None = None
    target_prompt_logprobs: TensorData | None = None
    prompt_cache_hit_tokens: int = 0
    prompt_alt_tokens: PromptAltTokens | None = None
    _prompt_logprobs_list: list[float | None] | None = attrs.field(
        default=None, alias="_prompt_logprobs_list"
    )
    _topk_prompt_logprobs_list: TopkList | None = attrs.field(
        default=None, alias="_topk_prompt_logprobs_list"
    )

    if not TYPE_CHECKING:  # to a checker `sequences` is always there

        def __getattr__(self, name: str) -> Any:
            if name == "_decoded":
                return ()  # made by a caller, or from a pickle
            if name == "sequences":
                made = [SampledSequence(*each) for each in self._decoded]
                with _making:
                    if self._decoded:  # else another thread has just made them
                        object.__setattr__(self, name, made)
                        object.__setattr__(self, "_decoded", ())
            return object.__getattribute__(self, name)

    def __init__(
        self,
        sequences: Sequence[SampledSequence],
        prompt_logprobs_np: npt.NDArray[Any] | None = None,
        topk_prompt_logprobs_np: TopkLogprobs | None = None,
        target_prompt_logprobs: TensorData | None = None,
        prompt_cache_hit_tokens: int = 0,
        prompt_alt_tokens: PromptAltTokens | None = None,
        _prompt_logprobs_list: list[float | None] | None = None,
        _topk_prompt_logprobs_list: TopkList | None = None,
        *,
        type: Literal["sample"] = "sample",
        prompt_logprobs: Sequence[float | None] | None = None,
        topk_prompt_logprobs: TopkList | None = None,
    ) -> None:
        if prompt_logprobs is not None or topk_prompt_logprobs is not None:
            _first_era("SampleResponse", "prompt_logprobs, topk_prompt_logprobs")
            _prompt_logprobs_list = None if prompt_logprobs is None else list(prompt_logprobs)
            _topk_prompt_logprobs_list = topk_prompt_logprobs
        self.__attrs_init__(
            list(sequences),
            prompt_logprobs_np,
            topk_prompt_logprobs_np,
            target_prompt_logprobs,
            prompt_cache_hit_tokens,
            prompt_alt_tokens,
            _prompt_logprobs_list,
            _topk_prompt_logprobs_list,
        )

    @property
    def type(self) -> Literal["sample"]:
        """The tag first-era servers send with this response."""
        return "sample"

    @property
    def prompt_logprobs(self) -> list[float | None] | None:
        """Log-probability of every prompt token; None where the server gave no value."""
        if self._prompt_logprobs_list is None and self.prompt_logprobs_np is not None:
            values = [None if v != v else v for v in self.prompt_logprobs_np.tolist()]
            object.__setattr__(self, "_prompt_logprobs_list", values)
        return self._prompt_logprobs_list

    @property
    def topk_prompt_logprobs(self) -> TopkList | None:
        """The likeliest tokens at every prompt position, when they were asked for."""
        if self._topk_prompt_logprobs_list is None and self.topk_prompt_logprobs_np is not None:
            made = self.topk_prompt_logprobs_np.tolist()
            object.__setattr__(self, "_topk_prompt_logprobs_list", made)
        return self._topk_prompt_logprobs_list

    def _key(self) -> tuple[Any, ...]:
        return (
            self.sequences,
            self.prompt_logprobs,
            self.topk_prompt_logprobs,
            self.target_prompt_logprobs,
            self.prompt_cache_hit_tokens,
            self.prompt_alt_tokens,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SampleResponse):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(tuple(self.sequences))

    def __repr__(self) -> str:
        return f"SampleResponse(sequences={self.sequences!r})"

    def _repr_html_(self) -> str:
        from tinker_ext import displays

        return displays.samples(self)


def decoded_response(decoded: Sequence[Decoded], *about_the_prompt: Any) -> SampleResponse:
    """Return a response whose sequences are made when they are first read.

    Many results may be kept before one is read, and the garbage collector visits every object
    again and again; a tuple of arrays is visited once.

    Args:
        decoded: The first arguments of each `SampledSequence`.
        *about_the_prompt: The arguments of `SampleResponse` that follow `sequences`.
    """
    made = SampleResponse.__new__(SampleResponse)
    made.__attrs_init__([], *about_the_prompt)
    if decoded:
        object.__setattr__(made, "_decoded", tuple(decoded))
        object.__delattr__(made, "sequences")
    return made


def count_sequences(response: SampleResponse) -> int:
    """How many sequences a response has, without making them."""
    return len(response._decoded or response.sequences)


def give_ids(response: SampleResponse, ids: Sequence[str]) -> None:
    """Give the sequences of a response their ids, before anybody has seen it."""
    named = tuple(
        [(one[0], own, *one[2:]) for one, own in zip(response._decoded, ids, strict=True)]
    )
    object.__setattr__(response, "_decoded", named)
