"""CreateSamplingSessionRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    INTEGER,
    TEXT,
    Tag,
)

__all__ = ["CreateSamplingSessionRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateSamplingSessionRequest(Model):
    """Asks for a sampler over a base model or over saved sampler weights; give exactly one of the
    two.

    Attributes:
        session_id: Session to open the sampler in.
        sampling_session_seq_id: Number of this sampler within the session, counted by the client; repeating it
            returns the same sampler.
        base_model: Name of the untuned model to sample from.
        model_path: Address of the sampler weights to load.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    session_id: str
    sampling_session_seq_id: int
    base_model: str | None = field(default=None)
    model_path: str | None = field(default=None)
    type: Literal["create_sampling_session"] = field(default="create_sampling_session")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("session_id", "session_id", TEXT, required=True),
            Field("sampling_session_seq_id", "sampling_session_seq_id", INTEGER, required=True),
            Field("base_model", "base_model", TEXT, nullable=True),
            Field("model_path", "model_path", TEXT, nullable=True),
            Field(
                "type", "type", Tag("create_sampling_session"), default="create_sampling_session"
            ),
        )
