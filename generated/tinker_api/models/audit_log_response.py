"""AuditLogResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

__all__ = ["AuditLogResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class AuditLogResponse(Model):
    """Events of the audit log. Era 0.36.0 only.

    Attributes:
        entries: The events.
    """

    entries: list[models.AuditLogEntry]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .audit_log_entry import AuditLogEntry

        return (Field("entries", "entries", Array(Object(AuditLogEntry)), required=True),)
