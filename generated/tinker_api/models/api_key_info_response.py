"""ApiKeyInfoResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Object,
)

__all__ = ["ApiKeyInfoResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class ApiKeyInfoResponse(Model):
    """What is known about the key the call was made with. Era 0.36.0 only.

    Attributes:
        key_id: Number of the key.
        name: Name of the key.
        note: Note kept with the key.
        details: Owner of a key. Era 0.36.0 only.
    """

    key_id: int
    name: str
    note: str | None = field(default=None)
    details: models.ApiKeyDetails
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .api_key_details import ApiKeyDetails

        return (
            Field("key_id", "key_id", INTEGER, required=True),
            Field("name", "name", TEXT, required=True),
            Field("note", "note", TEXT, nullable=True),
            Field("details", "details", Object(ApiKeyDetails), required=True),
        )
