"""SaveWeightsForSamplerResponseInternal. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    TEXT,
    Tag,
)

__all__ = ["SaveWeightsForSamplerResponseInternal"]


@frozen(kw_only=True, getstate_setstate=False)
class SaveWeightsForSamplerResponseInternal(Model):
    """Result of saving for sampling as the server sends it: path for a lasting save,
    sampling_session_id for an ephemeral one.

    Attributes:
        path: Address of the checkpoint.
        sampling_session_id: Sampling session that was opened.
        type: Tag of this type.
    """

    path: str | None = field(default=None)
    sampling_session_id: str | None = field(default=None)
    type: Literal["save_weights_for_sampler"] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("path", "path", TEXT, nullable=True),
            Field("sampling_session_id", "sampling_session_id", TEXT, nullable=True),
            Field("type", "type", Tag("save_weights_for_sampler"), nullable=True),
        )
