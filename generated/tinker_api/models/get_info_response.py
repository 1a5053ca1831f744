"""GetInfoResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Choice,
    Object,
    Tag,
)

__all__ = ["GetInfoResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class GetInfoResponse(Model):
    """Description of a model, given at once and not through a future.

    Attributes:
        type: Tag of this type.
        model_data: Architecture facts of a model.
        model_id: Model meant.
        optimizer_config: Family of optimizer. An object without a tag means adamw; a tag not listed belongs
            to a family this document does not know. Era 0.36.0 only.
        is_lora: Whether the model is an adapter over its base.
        lora_rank: Rank of the adapter.
        model_name: Name of the base model.
    """

    type: Literal["get_info"] | None = field(default=None)
    model_data: models.ModelData
    model_id: str
    optimizer_config: models.OptimizerConfig = field(
        default=Factory(lambda self: self._absent("optimizer_config"), takes_self=True)
    )
    is_lora: bool | None = field(default=None)
    lora_rank: int | None = field(default=None)
    model_name: str | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .adam_optimizer_config import AdamOptimizerConfig
        from .dimuon_optimizer_config import DimuonOptimizerConfig
        from .model_data import ModelData
        from .optimizer_config_base import OptimizerConfigBase

        return (
            Field("type", "type", Tag("get_info"), nullable=True),
            Field("model_data", "model_data", Object(ModelData), required=True),
            Field("model_id", "model_id", TEXT, required=True),
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
            Field("is_lora", "is_lora", BOOLEAN, nullable=True),
            Field("lora_rank", "lora_rank", INTEGER, nullable=True),
            Field("model_name", "model_name", TEXT, nullable=True),
        )
