"""CreateSessionResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["CreateSessionResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateSessionResponse(Model):
    """Id of the new session, with up to three notices meant for the user's log.

    Attributes:
        type: Tag of this type.
        info_message: Notice to log at INFO level.
        warning_message: Notice to log at WARNING level.
        error_message: Notice to log at ERROR level; the session exists all the same.
        session_id: Id of the new session.
    """

    type: Literal["create_session"] = field(default="create_session")
    info_message: str | None = field(default=None)
    warning_message: str | None = field(default=None)
    error_message: str | None = field(default=None)
    session_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("create_session"), default="create_session"),
            Field("info_message", "info_message", TEXT, nullable=True),
            Field("warning_message", "warning_message", TEXT, nullable=True),
            Field("error_message", "error_message", TEXT, nullable=True),
            Field("session_id", "session_id", TEXT, required=True),
        )
