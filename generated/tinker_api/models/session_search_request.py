"""SessionSearchRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Array,
    Choice,
    Object,
    Table,
)

__all__ = ["SessionSearchRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionSearchRequest(Model):
    """Finds sessions by several criteria, which must all hold. Experimental. Era 0.36.0 only.

    Attributes:
        session_id: Exactly this session.
        project_ids: Only sessions of these projects.
        user_metadata: Labels as text, by name.
        display_name: Only sessions found under this name.
        owner: Whose sessions to search. Era 0.36.0 only.
        statuses: Only sessions in one of these states.
        limit: Most sessions on a page, 1 to 200.
        cursor: Where the previous page ended.
    """

    session_id: str | None = field(default=None)
    project_ids: list[str] | None = field(default=None)
    user_metadata: dict[str, str] = field(default=Factory(dict))
    display_name: str | None = field(default=None)
    owner: models.SearchOwner = field(
        default=Factory(lambda self: self._absent("owner"), takes_self=True)
    )
    statuses: list[models.SessionStatusQuery] | None = field(default=None)
    limit: int = field(default=50)
    cursor: models.SessionSearchCursor | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .accessible_search_owner import AccessibleSearchOwner
        from .active_session_status_query import ActiveSessionStatusQuery
        from .cancelled_session_status_query import CancelledSessionStatusQuery
        from .client_finished_session_status_query import ClientFinishedSessionStatusQuery
        from .failed_session_status_query import FailedSessionStatusQuery
        from .own_search_owner import OwnSearchOwner
        from .session_search_cursor import SessionSearchCursor
        from .user_search_owner import UserSearchOwner

        return (
            Field("session_id", "session_id", TEXT, nullable=True),
            Field("project_ids", "project_ids", Array(TEXT), nullable=True),
            Field("user_metadata", "user_metadata", Table(TEXT), default={}),
            Field("display_name", "display_name", TEXT, nullable=True),
            Field(
                "owner",
                "owner",
                Choice(
                    models=(
                        OwnSearchOwner,
                        AccessibleSearchOwner,
                        UserSearchOwner,
                    )
                ),
                default={"type": "own"},
            ),
            Field(
                "statuses",
                "statuses",
                Array(
                    Choice(
                        models=(
                            ActiveSessionStatusQuery,
                            CancelledSessionStatusQuery,
                            FailedSessionStatusQuery,
                            ClientFinishedSessionStatusQuery,
                        )
                    )
                ),
                nullable=True,
            ),
            Field("limit", "limit", INTEGER, default=50),
            Field("cursor", "cursor", Object(SessionSearchCursor), nullable=True),
        )
