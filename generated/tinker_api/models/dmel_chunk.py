"""DmelChunk. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["DmelChunk"]


@frozen(kw_only=True, getstate_setstate=False)
class DmelChunk(Model):
    """A piece of audio as a serialized array of mel features. Era 0.36.0 only.

    Attributes:
        dmel: The array, header included, in standard base64 with padding.
        type: Tag of this type.
    """

    dmel: str
    type: Literal["dmel"] = field(default="dmel")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("dmel", "dmel", TEXT, required=True),
            Field("type", "type", Tag("dmel"), default="dmel"),
        )
