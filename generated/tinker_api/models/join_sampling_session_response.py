"""JoinSamplingSessionResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    Tag,
)

__all__ = ["JoinSamplingSessionResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class JoinSamplingSessionResponse(Model):
    """Which user of the sampling session the caller has become. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        client_counter: Number of this user; it keeps request numbers of different processes apart.
    """

    type: Literal["join_sampling_session"] = field(default="join_sampling_session")
    client_counter: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("join_sampling_session"), default="join_sampling_session"),
            Field("client_counter", "client_counter", INTEGER, required=True),
        )
