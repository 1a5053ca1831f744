"""ListSessionsResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Array,
)

__all__ = ["ListSessionsResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class ListSessionsResponse(Model):
    """One page of session ids. Era 0.36.0 only.

    Attributes:
        sessions: The ids.
    """

    sessions: list[str]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("sessions", "sessions", Array(TEXT), required=True),)
