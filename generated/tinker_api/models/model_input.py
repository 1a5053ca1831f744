"""ModelInput. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Choice,
)

__all__ = ["ModelInput"]


@frozen(kw_only=True, getstate_setstate=False)
class ModelInput(Model):
    """What a model reads: pieces of text, image or audio in order.

    Attributes:
        chunks: The pieces. The audio piece exists in era 0.36.0 only.
    """

    chunks: list[models.ModelInputChunk]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .dmel_chunk import DmelChunk
        from .encoded_text_chunk import EncodedTextChunk
        from .image_asset_pointer_chunk import ImageAssetPointerChunk
        from .image_chunk import ImageChunk

        return (
            Field(
                "chunks",
                "chunks",
                Array(
                    Choice(
                        models=(
                            EncodedTextChunk,
                            ImageChunk,
                            ImageAssetPointerChunk,
                            DmelChunk,
                        )
                    )
                ),
                required=True,
            ),
        )
