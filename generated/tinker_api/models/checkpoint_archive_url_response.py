"""CheckpointArchiveUrlResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    MOMENT,
    TEXT,
)

__all__ = ["CheckpointArchiveUrlResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class CheckpointArchiveUrlResponse(Model):
    """Where to download a checkpoint as one archive. Never sent over HTTP: the client builds it
    from the headers of a redirect. Era 0.4.1 only.

    Attributes:
        url: Download address.
        expires: When the address stops working.
    """

    url: str
    expires: datetime.datetime
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("url", "url", TEXT, required=True),
            Field("expires", "expires", MOMENT, required=True),
        )
