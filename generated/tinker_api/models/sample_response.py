"""SampleResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    Array,
    Nullable,
    Object,
    Tag,
)

__all__ = ["SampleResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class SampleResponse(Model):
    """Sampled sequences and what was asked about the prompt, in the JSON form of era 0.4.1. Era
    0.36.0 answers in protobuf; the fields it added have the JSON form given here.

    Attributes:
        sequences: The completions.
        prompt_logprobs: Log-probability of each prompt token; null where there is none, such as the first.
        topk_prompt_logprobs: Per prompt position, pairs of token id and log-probability, likeliest first, or
            null.
        target_prompt_logprobs: Log-probabilities of the token ids asked for. Era 0.36.0 only.
        prompt_cache_hit_tokens: Number of prompt tokens served from cache. Era 0.36.0 only.
        prompt_alt_tokens: Alternative tokens per prompt position. Era 0.36.0 only.
        type: Tag of this type. Era 0.4.1 only.
    """

    sequences: list[models.SampledSequence]
    prompt_logprobs: list[float | None] | None = field(default=None)
    topk_prompt_logprobs: list[list[list[float]] | None] | None = field(default=None)
    target_prompt_logprobs: models.TensorData | None = field(default=None)
    prompt_cache_hit_tokens: int = field(default=0)
    prompt_alt_tokens: models.PromptAltTokens | None = field(default=None)
    type: Literal["sample"] = field(default="sample")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .prompt_alt_tokens import PromptAltTokens
        from .sampled_sequence import SampledSequence
        from .tensor_data import TensorData

        return (
            Field("sequences", "sequences", Array(Object(SampledSequence)), required=True),
            Field("prompt_logprobs", "prompt_logprobs", Array(Nullable(NUMBER)), nullable=True),
            Field(
                "topk_prompt_logprobs",
                "topk_prompt_logprobs",
                Array(Nullable(Array(Array(NUMBER)))),
                nullable=True,
            ),
            Field(
                "target_prompt_logprobs",
                "target_prompt_logprobs",
                Object(TensorData),
                nullable=True,
            ),
            Field("prompt_cache_hit_tokens", "prompt_cache_hit_tokens", INTEGER, default=0),
            Field("prompt_alt_tokens", "prompt_alt_tokens", Object(PromptAltTokens), nullable=True),
            Field("type", "type", Tag("sample"), default="sample"),
        )
