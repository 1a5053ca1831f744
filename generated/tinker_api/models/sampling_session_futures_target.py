"""SamplingSessionFuturesTarget. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Tag,
)

__all__ = ["SamplingSessionFuturesTarget"]


@frozen(kw_only=True, getstate_setstate=False)
class SamplingSessionFuturesTarget(Model):
    """Watches the samples of one user of a sampling session. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        sampling_session_id: Sampling session meant.
        cloned_sampler_id: Number of the user, as given on joining; 0 for the one that opened the session.
    """

    type: Literal["sampling_session"] = field(default="sampling_session")
    sampling_session_id: str
    cloned_sampler_id: int = field(default=0)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("sampling_session"), default="sampling_session"),
            Field("sampling_session_id", "sampling_session_id", TEXT, required=True),
            Field("cloned_sampler_id", "cloned_sampler_id", INTEGER, default=0),
        )
