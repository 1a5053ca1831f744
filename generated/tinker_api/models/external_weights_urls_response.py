"""ExternalWeightsUrlsResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    MOMENT,
    TEXT,
    Table,
)

__all__ = ["ExternalWeightsUrlsResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class ExternalWeightsUrlsResponse(Model):
    """Where to download the files of an external checkpoint. Era 0.36.0 only.

    Attributes:
        urls: Labels as text, by name.
        expires: When the addresses stop working.
    """

    urls: dict[str, str]
    expires: datetime.datetime
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("urls", "urls", Table(TEXT), required=True),
            Field("expires", "expires", MOMENT, required=True),
        )
