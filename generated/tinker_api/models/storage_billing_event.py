"""StorageBillingEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    NUMBER,
    Tag,
)

__all__ = ["StorageBillingEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class StorageBillingEvent(Model):
    """Storage held. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        gigabyte_hours: Gigabytes times hours.
    """

    type: Literal["storage"] = field(default="storage")
    gigabyte_hours: float
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("storage"), default="storage"),
            Field("gigabyte_hours", "gigabyte_hours", NUMBER, required=True),
        )
