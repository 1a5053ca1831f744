"""RequestFailedResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["RequestFailedResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class RequestFailedResponse(Model):
    """The queued request failed. Any reply that has the key `error`, even with null, is of this
    type.

    Attributes:
        error: What went wrong.
        category: Whose fault a failed request is, in lower case. Anything unfamiliar reads as
            unknown. Further values may appear.
    """

    error: str | None
    category: str = field(default="unknown")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("error", "error", TEXT, required=True, nullable=True),
            Field("category", "category", TEXT, default="unknown"),
        )
