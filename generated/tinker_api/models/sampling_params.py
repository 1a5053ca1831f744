"""SamplingParams. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    TEXT,
    Array,
    Choice,
)

__all__ = ["SamplingParams"]


@frozen(kw_only=True, getstate_setstate=False)
class SamplingParams(Model):
    """How tokens are drawn. Unknown keys are ignored.

    Attributes:
        max_tokens: Most tokens to sample; absent leaves the limit to the server.
        seed: Seed of the draw; absent means a fresh one.
        stop: Texts or token ids that end a sequence. Absent or null keeps the end-of-text token
            of the model; an empty list switches every stop off.
        temperature: Divides the logits before drawing.
        top_k: Draws among the k likeliest tokens; -1 means all.
        top_p: Draws among the likeliest tokens that together reach this probability.
    """

    max_tokens: int | None = field(default=None)
    seed: int | None = field(default=None)
    stop: str | list[str] | list[int] | None = field(default=None)
    temperature: float = field(default=1.0)
    top_k: int = field(default=-1)
    top_p: float = field(default=1.0)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("max_tokens", "max_tokens", INTEGER, nullable=True),
            Field("seed", "seed", INTEGER, nullable=True),
            Field(
                "stop",
                "stop",
                Choice(
                    others=(
                        TEXT,
                        Array(TEXT),
                        Array(INTEGER),
                    )
                ),
                nullable=True,
            ),
            Field("temperature", "temperature", NUMBER, default=1.0, always=True),
            Field("top_k", "top_k", INTEGER, default=-1, always=True),
            Field("top_p", "top_p", NUMBER, default=1.0, always=True),
        )
