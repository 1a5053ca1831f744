"""SessionCancelled. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SessionCancelled"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionCancelled(Model):
    """The session was ended from outside. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        detail: Explanation for people.
    """

    type: Literal["cancelled"] = field(default="cancelled")
    detail: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("cancelled"), default="cancelled"),
            Field("detail", "detail", TEXT, nullable=True),
        )
