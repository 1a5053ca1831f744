"""TrainingBillingEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["TrainingBillingEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class TrainingBillingEvent(Model):
    """Tokens trained on. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        token_count: Number of tokens.
    """

    type: Literal["training"] = field(default="training")
    token_count: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("training"), default="training"),
            Field("token_count", "token_count", INTEGER, required=True),
        )
