"""ProvenanceSpan. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Object,
)

__all__ = ["ProvenanceSpan"]


@frozen(kw_only=True, getstate_setstate=False)
class ProvenanceSpan(Model):
    """Where a run of tokens came from; exactly one of the two keys is present. Only the protobuf
    body carries it; this is its JSON mapping. Era 0.36.0 only.

    Attributes:
        prompt_tokens: Run of tokens taken from the prompt of an earlier sample. Only the protobuf body
            carries it; this is its JSON mapping. Era 0.36.0 only.
        sampled_tokens: Run of tokens taken from the sampled part of an earlier sample. Only the protobuf
            body carries it; this is its JSON mapping. Era 0.36.0 only.
    """

    prompt_tokens: models.PromptProvenanceSpan | None = field(default=None)
    sampled_tokens: models.SampledProvenanceSpan | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .prompt_provenance_span import PromptProvenanceSpan
        from .sampled_provenance_span import SampledProvenanceSpan

        return (
            Field("prompt_tokens", "prompt_tokens", Object(PromptProvenanceSpan)),
            Field("sampled_tokens", "sampled_tokens", Object(SampledProvenanceSpan)),
        )
