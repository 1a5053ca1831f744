"""WhoamiResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["WhoamiResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class WhoamiResponse(Model):
    """Who the caller is, according to the token in use. Never sent over HTTP: the client builds
    it. Era 0.36.0 only.

    Attributes:
        user_urn: Id of the user.
        org_urn: Id of the organization.
        email: Address of the user, when the token carries one.
    """

    user_urn: str
    org_urn: str
    email: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("user_urn", "user_urn", TEXT, required=True),
            Field("org_urn", "org_urn", TEXT, required=True),
            Field("email", "email", TEXT, nullable=True),
        )
