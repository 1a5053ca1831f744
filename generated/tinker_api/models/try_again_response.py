"""TryAgainResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["TryAgainResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class TryAgainResponse(Model):
    """The result is not there yet: ask again at once.

    Attributes:
        type: Tag of this type.
        request_id: Id of the pending request.
        queue_state: Why a request is pending: it is being worked on, or the server has no room, or the
            caller is over a limit. Further values may appear.
        queue_state_reason: Explanation of the queue state for the user. Era 0.36.0 only.
    """

    type: Literal["try_again"] = field(default="try_again")
    request_id: str
    queue_state: str
    queue_state_reason: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("try_again"), required=True, default="try_again"),
            Field("request_id", "request_id", TEXT, required=True),
            Field("queue_state", "queue_state", TEXT, required=True),
            Field("queue_state_reason", "queue_state_reason", TEXT, nullable=True),
        )
