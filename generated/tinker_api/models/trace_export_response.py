"""TraceExportResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
)

__all__ = ["TraceExportResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class TraceExportResponse(Model):
    """State of a trace export; ask again while it is pending. Era 0.36.0 only.

    Attributes:
        status: How far a trace export is. Era 0.36.0 only. Further values may appear.
        url: Where to download the trace, once ready.
        error: What went wrong, once failed.
    """

    status: str
    url: str | None = field(default=None)
    error: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("status", "status", TEXT, required=True),
            Field("url", "url", TEXT, nullable=True),
            Field("error", "error", TEXT, nullable=True),
        )
