"""GetCurrentCheckpointStorageUsageRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["GetCurrentCheckpointStorageUsageRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class GetCurrentCheckpointStorageUsageRequest(Model):
    """Which checkpoint storage to report. Sent as query parameters, not as a body. Era 0.36.0
    only.

    Attributes:
        project_id: Only this project; absent means all.
    """

    project_id: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("project_id", "project_id", TEXT, nullable=True),)
