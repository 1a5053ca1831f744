"""FinishSessionRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    TEXT,
    Choice,
)

__all__ = ["FinishSessionRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class FinishSessionRequest(Model):
    """Declares a session finished. Era 0.36.0 only.

    Attributes:
        reason: How the client says its work ended. Nothing but the tag tells the members apart. Era
            0.36.0 only.
        detail: Explanation for people; sent as null when there is none.
    """

    reason: models.ClientSessionFinishReason
    detail: str | None
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .client_session_finish_errored import ClientSessionFinishErrored
        from .client_session_finish_interrupted import ClientSessionFinishInterrupted
        from .client_session_finish_success import ClientSessionFinishSuccess

        return (
            Field(
                "reason",
                "reason",
                Choice(
                    models=(
                        ClientSessionFinishSuccess,
                        ClientSessionFinishErrored,
                        ClientSessionFinishInterrupted,
                    )
                ),
                required=True,
            ),
            Field("detail", "detail", TEXT, required=True, nullable=True, null_matters=True),
        )
