"""JoinSamplingSessionRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["JoinSamplingSessionRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class JoinSamplingSessionRequest(Model):
    """Registers one more process as a user of an existing sampling session. Era 0.36.0 only.

    Attributes:
        sampling_session_id: Sampling session meant.
        type: Tag of this type.
    """

    sampling_session_id: str
    type: Literal["join_sampling_session"] = field(default="join_sampling_session")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("sampling_session_id", "sampling_session_id", TEXT, required=True),
            Field("type", "type", Tag("join_sampling_session"), default="join_sampling_session"),
        )
