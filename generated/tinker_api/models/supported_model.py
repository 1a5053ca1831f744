"""SupportedModel. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    TEXT,
)

__all__ = ["SupportedModel"]


@frozen(kw_only=True, getstate_setstate=False)
class SupportedModel(Model):
    """One base model the server offers.

    Attributes:
        model_name: Name to pass as base_model.
        max_context_length: Longest sequence, in tokens, the model takes. Era 0.36.0 only.
        trainable: Whether models can be trained from it. Era 0.36.0 only.
        sampleable: Whether it can be sampled from. Era 0.36.0 only.
    """

    model_name: str | None = field(default=None)
    max_context_length: int | None = field(default=None)
    trainable: bool | None = field(default=None)
    sampleable: bool | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("model_name", "model_name", TEXT, nullable=True),
            Field("max_context_length", "max_context_length", INTEGER, nullable=True),
            Field("trainable", "trainable", BOOLEAN, nullable=True),
            Field("sampleable", "sampleable", BOOLEAN, nullable=True),
        )
