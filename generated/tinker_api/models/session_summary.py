"""SessionSummary. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    MOMENT,
    TEXT,
    Choice,
    Table,
)

__all__ = ["SessionSummary"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionSummary(Model):
    """One session as found by a search. Era 0.36.0 only.

    Attributes:
        session_id: Id of the session.
        created_at: When it was opened.
        owner: Id of the user who opened it.
        project_id: Project it is filed under.
        status: How it stands; null when unknown.
        checkpoints_count: Number of checkpoints saved in it.
        display_name: Human-readable name.
        user_metadata: Labels given when it was opened.
        checkpoint_storage_bytes: Size of its checkpoints.
    """

    session_id: str
    created_at: datetime.datetime
    owner: str
    project_id: str
    status: models.SessionStatus | None = field(default=None)
    checkpoints_count: int
    display_name: str | None = field(default=None)
    user_metadata: dict[str, str] | None = field(default=None)
    checkpoint_storage_bytes: int | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .client_session_finished import ClientSessionFinished
        from .session_active import SessionActive
        from .session_cancelled import SessionCancelled
        from .session_failed import SessionFailed

        return (
            Field("session_id", "session_id", TEXT, required=True),
            Field("created_at", "created_at", MOMENT, required=True),
            Field("owner", "owner", TEXT, required=True),
            Field("project_id", "project_id", TEXT, required=True),
            Field(
                "status",
                "status",
                Choice(
                    models=(
                        SessionFailed,
                        SessionCancelled,
                        ClientSessionFinished,
                        SessionActive,
                    )
                ),
                nullable=True,
            ),
            Field("checkpoints_count", "checkpoints_count", INTEGER, required=True),
            Field("display_name", "display_name", TEXT, nullable=True),
            Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),
            Field("checkpoint_storage_bytes", "checkpoint_storage_bytes", INTEGER, nullable=True),
        )
