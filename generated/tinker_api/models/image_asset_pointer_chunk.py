"""ImageAssetPointerChunk. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    INTEGER,
    TEXT,
    Tag,
)

__all__ = ["ImageAssetPointerChunk"]


@frozen(kw_only=True, getstate_setstate=False)
class ImageAssetPointerChunk(Model):
    """An image stored elsewhere. Not possible in the protobuf training body of era 0.36.0.

    Attributes:
        format: Encoding of an image file.
        location: Where the server finds the file.
        expected_tokens: Number of tokens the sender expects the image to take. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
        height: Height in pixels. Era 0.4.1 only, and required there.
        tokens: Number of tokens the image takes. Era 0.4.1 only, and required there.
        width: Width in pixels. Era 0.4.1 only, and required there.
    """

    format: models.ImageFormat = field(validator=one_of("png", "jpeg"))
    location: str
    expected_tokens: int | None = field(default=None)
    type: Literal["image_asset_pointer"] = field(default="image_asset_pointer")
    height: int | None = field(default=None)
    tokens: int | None = field(default=None)
    width: int | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("format", "format", TEXT, required=True, values=("png", "jpeg")),
            Field("location", "location", TEXT, required=True),
            Field("expected_tokens", "expected_tokens", INTEGER, nullable=True),
            Field("type", "type", Tag("image_asset_pointer"), default="image_asset_pointer"),
            Field("height", "height", INTEGER),
            Field("tokens", "tokens", INTEGER),
            Field("width", "width", INTEGER),
        )
