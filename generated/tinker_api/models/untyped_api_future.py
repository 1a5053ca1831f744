"""UntypedAPIFuture. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Array,
)

__all__ = ["UntypedAPIFuture"]


@frozen(kw_only=True, getstate_setstate=False)
class UntypedAPIFuture(Model):
    """Promise of a result: the server has queued the request, and the result is fetched by its id.

    Attributes:
        request_id: Id to poll with.
        model_id: Model the request concerns, when there is one.
        sample_sequence_ids: For samples, one id per sequence that will be returned. Era 0.36.0 only.
    """

    request_id: str
    model_id: str | None = field(default=None)
    sample_sequence_ids: list[str] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("request_id", "request_id", TEXT, required=True),
            Field("model_id", "model_id", TEXT, nullable=True),
            Field("sample_sequence_ids", "sample_sequence_ids", Array(TEXT), nullable=True),
        )
