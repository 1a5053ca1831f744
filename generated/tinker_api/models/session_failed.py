"""SessionFailed. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    TEXT,
    Choice,
    Tag,
)

__all__ = ["SessionFailed"]


@frozen(kw_only=True, getstate_setstate=False)
class SessionFailed(Model):
    """The session failed. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        category: Whose fault a failed session is. Era 0.36.0 only. Further values may appear.
        reason: What made a session fail. Era 0.36.0 only.
        message: Explanation for people.
    """

    type: Literal["failed"] = field(default="failed")
    category: str
    reason: models.SessionFailedReason
    message: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .session_failed_request_reason import SessionFailedRequestReason
        from .session_failed_sampling_session_reason import SessionFailedSamplingSessionReason
        from .session_failed_training_run_reason import SessionFailedTrainingRunReason

        return (
            Field("type", "type", Tag("failed"), default="failed"),
            Field("category", "category", TEXT, required=True),
            Field(
                "reason",
                "reason",
                Choice(
                    models=(
                        SessionFailedRequestReason,
                        SessionFailedTrainingRunReason,
                        SessionFailedSamplingSessionReason,
                    )
                ),
                required=True,
            ),
            Field("message", "message", TEXT, required=True),
        )
