"""CreateSamplingSessionResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["CreateSamplingSessionResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateSamplingSessionResponse(Model):
    """Id under which samples are requested from now on.

    Attributes:
        type: Tag of this type.
        sampling_session_id: Id of the new sampling session.
    """

    type: Literal["create_sampling_session"] = field(default="create_sampling_session")
    sampling_session_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field(
                "type", "type", Tag("create_sampling_session"), default="create_sampling_session"
            ),
            Field("sampling_session_id", "sampling_session_id", TEXT, required=True),
        )
