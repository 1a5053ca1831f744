"""SessionFailedSamplingSessionReason. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SessionFailedSamplingSessionReason"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionFailedSamplingSessionReason(Model):
    """A sampling session failed. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        sampling_session_id: Id of the sampling session.
    """

    type: Literal["sampling_session"] = field(default="sampling_session")
    sampling_session_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("sampling_session"), default="sampling_session"),
            Field("sampling_session_id", "sampling_session_id", TEXT, required=True),
        )
