"""SamplingSampleBillingEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["SamplingSampleBillingEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class SamplingSampleBillingEvent(Model):
    """Tokens sampled. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        token_count: Number of tokens.
    """

    type: Literal["sampling_sample"] = field(default="sampling_sample")
    token_count: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("sampling_sample"), default="sampling_sample"),
            Field("token_count", "token_count", INTEGER, required=True),
        )
