"""ClientSessionFinished. Generated file: run `nox -s regenerate` instead of editing it."""

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

__all__ = ["ClientSessionFinished"]


@frozen(kw_only=True, getstate_setstate=False)
class ClientSessionFinished(Model):
    """The client declared the session finished. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        reason: How the client says its work ended. Nothing but the tag tells the members apart. Era
            0.36.0 only.
        detail: Explanation the client gave.
    """

    type: Literal["client_finished"] = field(default="client_finished")
    reason: models.ClientSessionFinishReason
    detail: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .client_session_finish_errored import ClientSessionFinishErrored
        from .client_session_finish_interrupted import ClientSessionFinishInterrupted
        from .client_session_finish_success import ClientSessionFinishSuccess

        return (
            Field("type", "type", Tag("client_finished"), default="client_finished"),
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
            Field("detail", "detail", TEXT, nullable=True),
        )
