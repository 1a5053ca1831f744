"""EncodedTextChunk. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Array,
    Tag,
)

__all__ = ["EncodedTextChunk"]


@frozen(kw_only=True, getstate_setstate=False)
class EncodedTextChunk(Model):
    """A run of token ids.

    Attributes:
        tokens: The ids.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    tokens: list[int]
    type: Literal["encoded_text"] = field(default="encoded_text")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("tokens", "tokens", Array(INTEGER), required=True),
            Field("type", "type", Tag("encoded_text"), default="encoded_text"),
        )
