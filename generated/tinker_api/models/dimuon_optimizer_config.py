"""DimuonOptimizerConfig. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["DimuonOptimizerConfig"]


@frozen(kw_only=True, getstate_setstate=False)
class DimuonOptimizerConfig(Model):
    """Chooses the Dimuon family of optimizers. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        version: Revision of the family.
    """

    type: Literal["dimuon"] = field(default="dimuon")
    version: int = field(default=1)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("dimuon"), required=True, default="dimuon"),
            Field("version", "version", INTEGER, default=1, always=True),
        )
