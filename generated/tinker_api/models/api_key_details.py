"""ApiKeyDetails. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Object,
)

__all__ = ["ApiKeyDetails"]


@frozen(kw_only=True, getstate_setstate=False)
class ApiKeyDetails(Model):
    """Owner of a key. Era 0.36.0 only.

    Attributes:
        org_details: Organization that owns a key. Era 0.36.0 only.
        user_details: User who made a key. Era 0.36.0 only.
    """

    org_details: models.ApiKeyOrgDetails | None = field(default=None)
    user_details: models.ApiKeyUserDetails | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .api_key_org_details import ApiKeyOrgDetails
        from .api_key_user_details import ApiKeyUserDetails

        return (
            Field("org_details", "org_details", Object(ApiKeyOrgDetails)),
            Field("user_details", "user_details", Object(ApiKeyUserDetails)),
        )
