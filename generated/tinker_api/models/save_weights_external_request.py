"""SaveWeightsExternalRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Array,
    Tag,
)

__all__ = ["SaveWeightsExternalRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsExternalRequest(Model):
    """Saves the model in a form meant for download; answered with a future. Era 0.36.0 only.

    Attributes:
        model_id: Model meant.
        path: Name of the checkpoint within the run.
        seq_id: Number of this request among all training and weight requests of the model, counted
            from 1. A repeat with the same number is the same request.
        ttl_seconds: Seconds until the checkpoint is deleted; absent keeps it.
        age_encryption_recipients: Public keys, in the form of the age tool, for which the files are encrypted.
        type: Tag of this type.
    """

    model_id: str
    path: str
    seq_id: int | None = field(default=None)
    ttl_seconds: int | None = field(default=None)
    age_encryption_recipients: list[str] | None = field(default=None)
    type: Literal["save_weights_external"] = field(default="save_weights_external")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("model_id", "model_id", TEXT, required=True),
            Field("path", "path", TEXT, required=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
            Field("ttl_seconds", "ttl_seconds", INTEGER, nullable=True),
            Field(
                "age_encryption_recipients", "age_encryption_recipients", Array(TEXT), nullable=True
            ),
            Field("type", "type", Tag("save_weights_external"), default="save_weights_external"),
        )
