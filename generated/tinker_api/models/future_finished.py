"""FutureFinished. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Tag,
)

__all__ = ["FutureFinished"]


@frozen(kw_only=True, getstate_setstate=False)
class FutureFinished(Model):
    """A request whose result can be fetched. Era 0.36.0 only.

    Attributes:
        state: Tag of this type; readers of era 0.36.0 refuse an entry without it.
        request_id: Id of the ended request.
        response_payload_uncompressed_size: Size of the result in bytes.
    """

    state: Literal["finished"] = field(default="finished")
    request_id: str
    response_payload_uncompressed_size: int | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("state", "state", Tag("finished"), required=True, default="finished"),
            Field("request_id", "request_id", TEXT, required=True),
            Field(
                "response_payload_uncompressed_size",
                "response_payload_uncompressed_size",
                INTEGER,
                nullable=True,
            ),
        )
