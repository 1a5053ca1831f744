"""SetCheckpointTtlRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
)

__all__ = ["SetCheckpointTtlRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SetCheckpointTtlRequest(Model):
    """Sets or removes the expiry of a checkpoint. Era 0.36.0 only.

    Attributes:
        ttl_seconds: Seconds from now until deletion, from one hour to ten years; null removes the
            expiry.
    """

    ttl_seconds: int | None
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field(
                "ttl_seconds",
                "ttl_seconds",
                INTEGER,
                required=True,
                nullable=True,
                null_matters=True,
            ),
        )
