"""UserSearchOwner. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Array,
    Tag,
)

__all__ = ["UserSearchOwner"]


@frozen(kw_only=True, getstate_setstate=False)
class UserSearchOwner(Model):
    """Sessions of certain users. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        owner_urns: One to ten user ids.
    """

    type: Literal["user"] = field(default="user")
    owner_urns: list[str]
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("user"), default="user"),
            Field("owner_urns", "owner_urns", Array(TEXT), required=True),
        )
