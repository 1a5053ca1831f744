"""FutureFailed. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["FutureFailed"]


@frozen(kw_only=True, getstate_setstate=False)
class FutureFailed(Model):
    """A request that failed; the reason comes with its result. Era 0.36.0 only.

    Attributes:
        state: Tag of this type; readers of era 0.36.0 refuse an entry without it.
        request_id: Id of the ended request.
    """

    state: Literal["failed"] = field(default="failed")
    request_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("state", "state", Tag("failed"), required=True, default="failed"),
            Field("request_id", "request_id", TEXT, required=True),
        )
