"""SessionActive. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    Tag,
)

__all__ = ["SessionActive"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionActive(Model):
    """The session is running. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
    """

    type: Literal["active"] = field(default="active")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("type", "type", Tag("active"), default="active"),)
