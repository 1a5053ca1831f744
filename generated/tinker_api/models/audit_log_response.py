"""AuditLogResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

if TYPE_CHECKING:
    from .audit_log_entry import AuditLogEntry


__all__ = ["AuditLogResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class AuditLogResponse(Model):
    """Events of the audit log. Era 0.36.0 only.

    Attributes:
        entries: The events.
    """

    entries: list[AuditLogEntry]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .audit_log_entry import AuditLogEntry

        return (Field("entries", "entries", Array(Object(AuditLogEntry)), required=True),)
