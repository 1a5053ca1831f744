"""TopkLogprobs. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    Array,
)

__all__ = ["TopkLogprobs"]


@frozen(kw_only=True, getstate_setstate=False)
class TopkLogprobs(Model):
    """The likeliest tokens per position as two tables of the same shape. Only the protobuf result
    carries it; this is its list form. Unused cells hold token 0 and -99999.0. Era 0.36.0 only.

    Attributes:
        token_ids: Token ids, one row per position.
        logprobs: Their log-probabilities.
    """

    token_ids: list[list[int]]
    logprobs: list[list[float]]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("token_ids", "token_ids", Array(Array(INTEGER)), required=True),
            Field("logprobs", "logprobs", Array(Array(NUMBER)), required=True),
        )
