"""CancelFutureRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["CancelFutureRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CancelFutureRequest(Model):
    """Gives up a queued request. Era 0.36.0 only.

    Attributes:
        request_id: Id of the request.
    """

    request_id: str
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (Field("request_id", "request_id", TEXT, required=True),)
