"""SampledProvenanceSpan. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
)

__all__ = ["SampledProvenanceSpan"]


@frozen(kw_only=True, getstate_setstate=False)
class SampledProvenanceSpan(Model):
    """Run of tokens taken from the sampled part of an earlier sample. Only the protobuf body
    carries it; this is its JSON mapping. Era 0.36.0 only.

    Attributes:
        sequence_id: Id of the earlier sequence.
        offset: First token taken.
        length: Number of tokens taken.
    """

    sequence_id: str
    offset: int = field(default=0)
    length: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("sequence_id", "sequence_id", TEXT, required=True),
            Field("offset", "offset", INTEGER, default=0),
            Field("length", "length", INTEGER, required=True),
        )
