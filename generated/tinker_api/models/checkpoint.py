"""Checkpoint. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    MOMENT,
    TEXT,
    Table,
)

__all__ = ["Checkpoint"]


@frozen(kw_only=True, getstate_setstate=False)
class Checkpoint(Model):
    """One saved checkpoint.

    Attributes:
        checkpoint_id: Kind and name of the checkpoint within its run, joined by a slash.
        checkpoint_type: What a checkpoint is for. Era 0.4.1 knows training and sampler; external exists in
            era 0.36.0 only. Further values may appear.
        time: When it was saved.
        tinker_path: Address of the checkpoint.
        size_bytes: Size of the files.
        public: Whether everybody may load it.
        user_metadata: Labels kept with the checkpoint. Era 0.36.0 only.
        expires_at: When it will be deleted. Era 0.36.0 only.
    """

    checkpoint_id: str
    checkpoint_type: str
    time: datetime.datetime
    tinker_path: str
    size_bytes: int | None = field(default=None)
    public: bool = field(default=False)
    user_metadata: dict[str, str] | None = field(default=None)
    expires_at: datetime.datetime | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("checkpoint_id", "checkpoint_id", TEXT, required=True),
            Field("checkpoint_type", "checkpoint_type", TEXT, required=True),
            Field("time", "time", MOMENT, required=True),
            Field("tinker_path", "tinker_path", TEXT, required=True),
            Field("size_bytes", "size_bytes", INTEGER, nullable=True),
            Field("public", "public", BOOLEAN, default=False),
            Field("user_metadata", "user_metadata", Table(TEXT), nullable=True),
            Field("expires_at", "expires_at", MOMENT, nullable=True),
        )
