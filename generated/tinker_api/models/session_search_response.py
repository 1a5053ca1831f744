"""SessionSearchResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
)

__all__ = ["SessionSearchResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionSearchResponse(Model):
    """One page of a session search. Era 0.36.0 only.

    Attributes:
        sessions: The sessions found.
        next_cursor: Where to continue; absent or null on the last page.
    """

    sessions: list[models.SessionSummary]
    next_cursor: models.SessionSearchCursor | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .session_search_cursor import SessionSearchCursor
        from .session_summary import SessionSummary

        return (
            Field("sessions", "sessions", Array(Object(SessionSummary)), required=True),
            Field("next_cursor", "next_cursor", Object(SessionSearchCursor), nullable=True),
        )
