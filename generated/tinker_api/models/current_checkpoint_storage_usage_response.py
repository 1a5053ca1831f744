"""CurrentCheckpointStorageUsageResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    NUMBER,
    Array,
    Object,
)

__all__ = ["CurrentCheckpointStorageUsageResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CurrentCheckpointStorageUsageResponse(Model):
    """Storage that checkpoints take now. Era 0.36.0 only.

    Attributes:
        effective_rate_usd_per_gigabyte_month: Price in US dollars per gigabyte and month.
        data: Storage by project and user.
    """

    effective_rate_usd_per_gigabyte_month: float | None = field(default=None)
    data: list[models.CurrentCheckpointStorageUsageItem]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .current_checkpoint_storage_usage_item import CurrentCheckpointStorageUsageItem

        return (
            Field(
                "effective_rate_usd_per_gigabyte_month",
                "effective_rate_usd_per_gigabyte_month",
                NUMBER,
                nullable=True,
            ),
            Field("data", "data", Array(Object(CurrentCheckpointStorageUsageItem)), required=True),
        )
