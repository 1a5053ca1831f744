"""ApiKeyUserDetails. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["ApiKeyUserDetails"]


@frozen(kw_only=True, getstate_setstate=False)
class ApiKeyUserDetails(Model):
    """User who made a key. Era 0.36.0 only.

    Attributes:
        email: Address of the user.
    """

    email: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("email", "email", TEXT, nullable=True),)
