"""WeightsInfoResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Choice,
)

__all__ = ["WeightsInfoResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class WeightsInfoResponse(Model):
    """What is needed to create a model that fits a checkpoint. Era 0.36.0 only.

    Attributes:
        base_model: Base of the checkpoint.
        optimizer_config: Family of optimizer. An object without a tag means adamw; a tag not listed belongs
            to a family this document does not know. Era 0.36.0 only.
        is_lora: Whether the checkpoint is an adapter.
        lora_rank: Rank of the adapter.
        train_unembed: Whether the output projection has an adapter.
        train_mlp: Whether the feed-forward layers have adapters.
        train_attn: Whether the attention layers have adapters.
    """

    base_model: str
    optimizer_config: models.OptimizerConfig = field(
        default=Factory(lambda self: self._absent("optimizer_config"), takes_self=True)
    )
    is_lora: bool
    lora_rank: int | None = field(default=None)
    train_unembed: bool | None = field(default=None)
    train_mlp: bool | None = field(default=None)
    train_attn: bool | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .adam_optimizer_config import AdamOptimizerConfig
        from .dimuon_optimizer_config import DimuonOptimizerConfig
        from .optimizer_config_base import OptimizerConfigBase

        return (
            Field("base_model", "base_model", TEXT, required=True),
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
            Field("is_lora", "is_lora", BOOLEAN, required=True),
            Field("lora_rank", "lora_rank", INTEGER, nullable=True),
            Field("train_unembed", "train_unembed", BOOLEAN, nullable=True),
            Field("train_mlp", "train_mlp", BOOLEAN, nullable=True),
            Field("train_attn", "train_attn", BOOLEAN, nullable=True),
        )
