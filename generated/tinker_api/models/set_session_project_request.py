"""SetSessionProjectRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["SetSessionProjectRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SetSessionProjectRequest(Model):
    """Moves a session to another project. Era 0.36.0 only.

    Attributes:
        project_id: Project that receives it.
    """

    project_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("project_id", "project_id", TEXT, required=True),)
