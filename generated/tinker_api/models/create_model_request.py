"""CreateModelRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    ANYTHING,
    INTEGER,
    TEXT,
    Choice,
    Object,
    Table,
    Tag,
)

__all__ = ["CreateModelRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class CreateModelRequest(Model):
    """Creates a trainable model on top of a base model; answered with a future.

    Attributes:
        session_id: Session to create the model in.
        model_seq_id: Number of this model within the session, counted by the client from 0.
        base_model: Name of the base model.
        user_metadata: Free-form labels kept with the training run.
        lora_config: Size and reach of the LoRA adapter.
        optimizer_config: Family of optimizer. An object without a tag means adamw; a tag not listed belongs
            to a family this document does not know. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    session_id: str
    model_seq_id: int
    base_model: str
    user_metadata: dict[str, Any] | None = field(default=None)
    lora_config: models.LoraConfig | None = field(default=None)
    optimizer_config: models.OptimizerConfig = field(
        default=Factory(lambda self: self._absent("optimizer_config"), takes_self=True)
    )
    type: Literal["create_model"] = field(default="create_model")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .adam_optimizer_config import AdamOptimizerConfig
        from .dimuon_optimizer_config import DimuonOptimizerConfig
        from .lora_config import LoraConfig
        from .optimizer_config_base import OptimizerConfigBase

        return (
            Field("session_id", "session_id", TEXT, required=True),
            Field("model_seq_id", "model_seq_id", INTEGER, required=True),
            Field("base_model", "base_model", TEXT, required=True),
            Field("user_metadata", "user_metadata", Table(ANYTHING), nullable=True),
            Field("lora_config", "lora_config", Object(LoraConfig), nullable=True),
            Field(
                "optimizer_config",
                "optimizer_config",
                Choice(
                    models=(
                        AdamOptimizerConfig,
                        DimuonOptimizerConfig,
                        OptimizerConfigBase,
                    )
                ),
                default={"type": "adamw"},
            ),
            Field("type", "type", Tag("create_model"), default="create_model"),
        )
