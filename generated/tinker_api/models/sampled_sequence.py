"""SampledSequence. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    TEXT,
    Array,
    Nullable,
)

__all__ = ["SampledSequence"]


@frozen(kw_only=True, getstate_setstate=False)
class SampledSequence(Model):
    """One completion.

    Attributes:
        stop_reason: Why a sampled sequence ended: the token limit, or a stop text or token. Further
            values may appear.
        tokens: The sampled token ids.
        logprobs: Log-probability of each sampled token.
        sequence_id: Id of the completion; the promise announces it, and the binary result leaves it to
            the client to fill in. Era 0.36.0 only.
        topk_logprobs: Per sampled position, pairs of token id and log-probability, likeliest first, or
            null. Era 0.36.0 only.
    """

    stop_reason: str
    tokens: list[int]
    logprobs: list[float] | None = field(default=None)
    sequence_id: str | None = field(default=None)
    topk_logprobs: list[list[list[float]] | None] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("stop_reason", "stop_reason", TEXT, required=True),
            Field("tokens", "tokens", Array(INTEGER), required=True),
            Field("logprobs", "logprobs", Array(NUMBER), nullable=True),
            Field("sequence_id", "sequence_id", TEXT, nullable=True),
            Field(
                "topk_logprobs",
                "topk_logprobs",
                Array(Nullable(Array(Array(NUMBER)))),
                nullable=True,
            ),
        )
