"""ModelData. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["ModelData"]


@frozen(kw_only=True, getstate_setstate=False)
class ModelData(Model):
    """Architecture facts of a model.

    Attributes:
        arch: Name of the architecture.
        model_name: Name of the base model.
        tokenizer_id: Name of the tokenizer, possibly followed by a colon and a revision.
    """

    arch: str | None = field(default=None)
    model_name: str | None = field(default=None)
    tokenizer_id: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("arch", "arch", TEXT, nullable=True),
            Field("model_name", "model_name", TEXT, nullable=True),
            Field("tokenizer_id", "tokenizer_id", TEXT, nullable=True),
        )
