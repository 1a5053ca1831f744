"""ClientFinishedSessionStatusQuery. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    TEXT,
    Array,
    Tag,
)

__all__ = ["ClientFinishedSessionStatusQuery"]


@frozen(kw_only=True, getstate_setstate=False)
class ClientFinishedSessionStatusQuery(Model):
    """Matches sessions their client declared finished. Era 0.36.0 only.

    Attributes:
        type: Tag of this type.
        reasons: Only those finished for one of these reasons; absent means any.
    """

    type: Literal["client_finished"] = field(default="client_finished")
    reasons: list[models.SessionFinishKind] | None = field(
        default=None, validator=one_of("success", "errored", "interrupted")
    )
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("type", "type", Tag("client_finished"), default="client_finished"),
            Field(
                "reasons",
                "reasons",
                Array(TEXT),
                nullable=True,
                values=("success", "errored", "interrupted"),
            ),
        )
