"""CustomLossInput. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    INTEGER,
    TEXT,
)

__all__ = ["CustomLossInput"]


@frozen(kw_only=True, getstate_setstate=False)
class CustomLossInput(Model):
    """One tensor a custom loss takes. Era 0.36.0 only.

    Attributes:
        name: Name of the tensor.
        rank: Number of dimensions.
    """

    name: str
    rank: models.CustomLossInputRank = field(validator=one_of(0, 1, 2))
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("name", "name", TEXT, required=True),
            Field("rank", "rank", INTEGER, required=True, values=(0, 1, 2)),
        )
