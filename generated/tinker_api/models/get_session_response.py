"""GetSessionResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Array,
    Table,
)

__all__ = ["GetSessionResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class GetSessionResponse(Model):
    """What a session holds. Era 0.36.0 only.

    Attributes:
        training_run_ids: Runs created in it.
        sampler_ids: Sampling sessions opened in it.
        user_metadata: Labels given when it was opened.
        display_name: Human-readable name.
    """

    training_run_ids: list[str]
    sampler_ids: list[str]
    user_metadata: dict[str, str] | None = field(default=None)
    display_name: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("training_run_ids", "training_run_ids", Array(TEXT), required=True),
            Field("sampler_ids", "sampler_ids", Array(TEXT), required=True),
            Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),
            Field("display_name", "display_name", TEXT, nullable=True),
        )
