"""CurrentCheckpointStorageUsageItem. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    TEXT,
)

__all__ = ["CurrentCheckpointStorageUsageItem"]


@frozen(kw_only=True, getstate_setstate=False)
class CurrentCheckpointStorageUsageItem(Model):
    """Checkpoint storage of one user in one project. Era 0.36.0 only.

    Attributes:
        project_id: Project the checkpoints belong to.
        org_user_urn: Id of the user.
        user_email: Address of the user.
        user_name: Name of the user.
        checkpoint_count: Number of checkpoints.
        size_bytes: Their size in bytes.
        size_gigabytes: Their size in gigabytes.
        estimated_monthly_cost_usd: Estimated cost per month in US dollars.
    """

    project_id: str | None = field(default=None)
    org_user_urn: str | None = field(default=None)
    user_email: str | None = field(default=None)
    user_name: str | None = field(default=None)
    checkpoint_count: int
    size_bytes: int
    size_gigabytes: float
    estimated_monthly_cost_usd: float | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("project_id", "project_id", TEXT, nullable=True),
            Field("org_user_urn", "org_user_urn", TEXT, nullable=True),
            Field("user_email", "user_email", TEXT, nullable=True),
            Field("user_name", "user_name", TEXT, nullable=True),
            Field("checkpoint_count", "checkpoint_count", INTEGER, required=True),
            Field("size_bytes", "size_bytes", INTEGER, required=True),
            Field("size_gigabytes", "size_gigabytes", NUMBER, required=True),
            Field(
                "estimated_monthly_cost_usd", "estimated_monthly_cost_usd", NUMBER, nullable=True
            ),
        )
