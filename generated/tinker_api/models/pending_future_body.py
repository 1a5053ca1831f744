"""PendingFutureBody. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["PendingFutureBody"]


@frozen(kw_only=True, getstate_setstate=False)
class PendingFutureBody(Model):
    """What a 408 answer to a poll may carry. Every key may be missing, as may the body.

    Attributes:
        type: Usually try_again.
        request_id: Id of the pending request.
        queue_state: Why it is pending.
        queue_state_reason: Explanation of the queue state for the user. Era 0.36.0 only.
        detail: Explanation some servers give instead.
    """

    type: str | None = field(default=None)
    request_id: str | None = field(default=None)
    queue_state: str | None = field(default=None)
    queue_state_reason: str | None = field(default=None)
    detail: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", TEXT, nullable=True),
            Field("request_id", "request_id", TEXT, nullable=True),
            Field("queue_state", "queue_state", TEXT, nullable=True),
            Field("queue_state_reason", "queue_state_reason", TEXT, nullable=True),
            Field("detail", "detail", TEXT, nullable=True),
        )
