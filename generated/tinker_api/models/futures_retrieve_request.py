"""FuturesRetrieveRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    INTEGER,
    NUMBER,
    TEXT,
    Array,
    Object,
)

__all__ = ["FuturesRetrieveRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class FuturesRetrieveRequest(Model):
    """Asks for all news since a cursor about the requests of one target. Era 0.36.0 only.

    Attributes:
        target: Watches the samples of one user of a sampling session. Era 0.36.0 only.
        prev_cursor: Cursor of the previous reply; 0 at the start.
        timeout: Longest time, in seconds, the server should hold the call.
        retrieved_request_ids: Requests whose results the client has fetched since the last call.
    """

    target: models.SamplingSessionFuturesTarget
    prev_cursor: int = field(default=0)
    timeout: float | None = field(default=None)
    retrieved_request_ids: list[str] = field(default=Factory(list))
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .sampling_session_futures_target import SamplingSessionFuturesTarget

        return (
            Field("target", "target", Object(SamplingSessionFuturesTarget), required=True),
            Field("prev_cursor", "prev_cursor", INTEGER, default=0),
            Field("timeout", "timeout", NUMBER, nullable=True),
            Field("retrieved_request_ids", "retrieved_request_ids", Array(TEXT), default=[]),
        )
