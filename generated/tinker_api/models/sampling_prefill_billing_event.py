"""SamplingPrefillBillingEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    Tag,
)

__all__ = ["SamplingPrefillBillingEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class SamplingPrefillBillingEvent(Model):
    """Prompt tokens read for sampling. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        cached: Whether they came from the cache.
        token_count: Number of tokens.
    """

    type: Literal["sampling_prefill"] = field(default="sampling_prefill")
    cached: bool
    token_count: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("sampling_prefill"), default="sampling_prefill"),
            Field("cached", "cached", BOOLEAN, required=True),
            Field("token_count", "token_count", INTEGER, required=True),
        )
