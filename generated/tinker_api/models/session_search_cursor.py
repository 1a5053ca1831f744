"""SessionSearchCursor. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    MOMENT,
    TEXT,
)

__all__ = ["SessionSearchCursor"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionSearchCursor(Model):
    """Where a page of a session search ended. Era 0.36.0 only.

    Attributes:
        last_created_at: Creation time of the last session on the page, with a time zone.
        last_session_id: Id of the last session on the page.
    """

    last_created_at: datetime.datetime
    last_session_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("last_created_at", "last_created_at", MOMENT, required=True),
            Field("last_session_id", "last_session_id", TEXT, required=True),
        )
