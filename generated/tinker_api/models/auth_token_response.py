"""AuthTokenResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["AuthTokenResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class AuthTokenResponse(Model):
    """Short-lived token bought with a long-lived credential. Era 0.36.0 only.

    Attributes:
        jwt: The token; it is sent in X-API-Key in place of the credential.
    """

    jwt: str = field(repr=False)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("jwt", "jwt", TEXT, required=True),)
