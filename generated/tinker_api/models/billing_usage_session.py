"""BillingUsageSession. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Table,
)

__all__ = ["BillingUsageSession"]


@frozen(kw_only=True, getstate_setstate=False)
class BillingUsageSession(Model):
    """What a usage report says about a session. Era 0.36.0 only.

    Attributes:
        user_metadata: Labels given when it was opened.
    """

    user_metadata: dict[str, str] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),)
