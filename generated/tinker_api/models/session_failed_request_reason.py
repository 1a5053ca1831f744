"""SessionFailedRequestReason. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SessionFailedRequestReason"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionFailedRequestReason(Model):
    """A single request failed. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        request_id: Id of the request.
        request_type: Kind of the request.
    """

    type: Literal["request"] = field(default="request")
    request_id: str
    request_type: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("request"), default="request"),
            Field("request_id", "request_id", TEXT, required=True),
            Field("request_type", "request_type", TEXT, required=True),
        )
