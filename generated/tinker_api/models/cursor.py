"""Cursor. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
)

__all__ = ["Cursor"]


@frozen(kw_only=True, getstate_setstate=False)
class Cursor(Model):
    """Page position of a list.

    Attributes:
        offset: Entries skipped before this page.
        limit: Most entries on a page.
        total_count: Entries in the whole list.
    """

    offset: int
    limit: int
    total_count: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("offset", "offset", INTEGER, required=True),
            Field("limit", "limit", INTEGER, required=True),
            Field("total_count", "total_count", INTEGER, required=True),
        )
