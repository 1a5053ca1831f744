"""WeightsInfoRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["WeightsInfoRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class WeightsInfoRequest(Model):
    """Asks what a checkpoint is. Era 0.36.0 only.

    Attributes:
        tinker_path: Address of the checkpoint.
    """

    tinker_path: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("tinker_path", "tinker_path", TEXT, required=True),)
