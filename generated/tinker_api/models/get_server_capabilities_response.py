"""GetServerCapabilitiesResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

__all__ = ["GetServerCapabilitiesResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class GetServerCapabilitiesResponse(Model):
    """What the server can do.

    Attributes:
        supported_models: Base models on offer.
    """

    supported_models: list[models.SupportedModel]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .supported_model import SupportedModel

        return (
            Field(
                "supported_models", "supported_models", Array(Object(SupportedModel)), required=True
            ),
        )
