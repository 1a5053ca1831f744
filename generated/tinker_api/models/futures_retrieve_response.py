"""FuturesRetrieveResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    Array,
    Choice,
)

__all__ = ["FuturesRetrieveResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class FuturesRetrieveResponse(Model):
    """Requests that ended since the given cursor. Era 0.36.0 only.

    Attributes:
        completions: One entry per ended request.
        cursor: Where to continue.
    """

    completions: list[models.FutureCompletion]
    cursor: int
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .future_failed import FutureFailed
        from .future_finished import FutureFinished

        return (
            Field(
                "completions",
                "completions",
                Array(
                    Choice(
                        models=(
                            FutureFinished,
                            FutureFailed,
                        )
                    )
                ),
                required=True,
            ),
            Field("cursor", "cursor", INTEGER, required=True),
        )
