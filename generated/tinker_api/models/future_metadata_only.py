"""FutureMetadataOnly. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["FutureMetadataOnly"]


@frozen(kw_only=True, getstate_setstate=False)
class FutureMetadataOnly(Model):
    """The result is ready and this large: reserve memory, then ask again without
    allow_metadata_only. Era 0.36.0 only.

    Attributes:
        status: Tag of this type.
        response_payload_size: Size of the result in bytes.
    """

    status: Literal["complete_metadata"] = field(default="complete_metadata")
    response_payload_size: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field(
                "status",
                "status",
                Tag("complete_metadata"),
                required=True,
                default="complete_metadata",
            ),
            Field("response_payload_size", "response_payload_size", INTEGER, required=True),
        )
