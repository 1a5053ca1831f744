"""CopyWeightsRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
)

__all__ = ["CopyWeightsRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CopyWeightsRequest(Model):
    """Copies a checkpoint into another project or under a model of the session; answered at once.
    Era 0.36.0 only.

    Attributes:
        session_id: Session under which the copy is filed.
        model_seq_id: Number of the model within the session that the copy belongs to.
        destination_project_id: Project that receives the copy.
        source_path: Address of the checkpoint to copy.
        ttl_seconds: Seconds until the copy is deleted; absent keeps it.
        weights_access_token: Secret that opens a checkpoint of somebody else; clients send it in a header
            instead.
    """

    session_id: str | None = field(default=None)
    model_seq_id: int | None = field(default=None)
    destination_project_id: str | None = field(default=None)
    source_path: str
    ttl_seconds: int | None = field(default=None)
    weights_access_token: str | None = field(default=None, repr=False)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("session_id", "session_id", TEXT, nullable=True),
            Field("model_seq_id", "model_seq_id", INTEGER, nullable=True),
            Field("destination_project_id", "destination_project_id", TEXT, nullable=True),
            Field("source_path", "source_path", TEXT, required=True),
            Field("ttl_seconds", "ttl_seconds", INTEGER, nullable=True),
            Field("weights_access_token", "weights_access_token", TEXT, nullable=True),
        )
