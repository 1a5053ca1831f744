"""SaveWeightsExternalResponseInternal. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Tag,
)

__all__ = ["SaveWeightsExternalResponseInternal"]


@frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsExternalResponseInternal(Model):
    """Result of a save for download as the server sends it. Era 0.36.0 only.

    Attributes:
        path: Address of the checkpoint.
        size_bytes: Size of the files.
        type: Tag of this type.
    """

    path: str | None = field(default=None)
    size_bytes: int | None = field(default=None)
    type: Literal["save_weights_external"] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("path", "path", TEXT, nullable=True),
            Field("size_bytes", "size_bytes", INTEGER, nullable=True),
            Field("type", "type", Tag("save_weights_external"), nullable=True),
        )
