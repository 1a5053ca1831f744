"""SaveWeightsResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SaveWeightsResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsResponse(Model):
    """Result of saving weights.

    Attributes:
        path: Address of the checkpoint.
        type: Tag of this type.
    """

    path: str
    type: Literal["save_weights"] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("path", "path", TEXT, required=True),
            Field("type", "type", Tag("save_weights"), nullable=True),
        )
