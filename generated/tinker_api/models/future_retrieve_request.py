"""FutureRetrieveRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    TEXT,
)

__all__ = ["FutureRetrieveRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class FutureRetrieveRequest(Model):
    """Asks for the result of one queued request; the server may hold the call until there is news.

    Attributes:
        request_id: Id from the promise.
        allow_metadata_only: Whether the server may answer with the size of a large result before the result. Era
            0.36.0 only.
    """

    request_id: str
    allow_metadata_only: bool = field(default=False)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("request_id", "request_id", TEXT, required=True),
            Field("allow_metadata_only", "allow_metadata_only", BOOLEAN, default=False),
        )
