"""AuditEventType. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

AuditEventType: TypeAlias = Literal[
    "all",
    "checkpoints",
    "projects",
    "teams",
    "organizations",
]

AUDIT_EVENT_TYPE_VALUES: tuple[AuditEventType, ...] = (
    "all",
    "checkpoints",
    "projects",
    "teams",
    "organizations",
)

__all__ = ["AUDIT_EVENT_TYPE_VALUES", "AuditEventType"]
