"""PromptAltTokens. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Object,
)

__all__ = ["PromptAltTokens"]


@frozen(kw_only=True, getstate_setstate=False)
class PromptAltTokens(Model):
    """Alternative tokens for each prompt position, as two tensors of the same shape. Only the
    protobuf result carries it; this is its JSON form. Era 0.36.0 only.

    Attributes:
        tokens: A dense or sparse tensor as flat numbers. Era 0.36.0 uses this JSON form inside
            sampling requests only and protobuf for all other tensors.
        logprobs: A dense or sparse tensor as flat numbers. Era 0.36.0 uses this JSON form inside
            sampling requests only and protobuf for all other tensors.
    """

    tokens: models.TensorData
    logprobs: models.TensorData
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .tensor_data import TensorData

        return (
            Field("tokens", "tokens", Object(TensorData), required=True),
            Field("logprobs", "logprobs", Object(TensorData), required=True),
        )
