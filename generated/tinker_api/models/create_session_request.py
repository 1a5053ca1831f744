"""CreateSessionRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    ANYTHING,
    TEXT,
    Array,
    Table,
    Tag,
)

__all__ = ["CreateSessionRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateSessionRequest(Model):
    """Opens a session: the unit a client keeps alive with heartbeats and under which models and
    samplers are created.

    Attributes:
        tags: Labels for finding the session later; an empty list when there are none.
        user_metadata: Free-form labels of the caller. The key must be present; clients send an empty
            object rather than null.
        sdk_version: Version text of the calling client.
        project_id: Project the session is filed under; absent means the caller's default project. Era
            0.36.0 only.
        display_name: Human-readable name shown in listings. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    tags: list[str]
    user_metadata: dict[str, Any] | None
    sdk_version: str
    project_id: str | None = field(default=None)
    display_name: str | None = field(default=None)
    type: Literal["create_session"] = field(default="create_session")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("tags", "tags", Array(TEXT), required=True),
            Field("user_metadata", "user_metadata", Table(ANYTHING), required=True, nullable=True),
            Field("sdk_version", "sdk_version", TEXT, required=True),
            Field("project_id", "project_id", TEXT, nullable=True),
            Field("display_name", "display_name", TEXT, nullable=True),
            Field("type", "type", Tag("create_session"), default="create_session"),
        )
