"""LoadWeightsRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    TEXT,
    Choice,
    Table,
    Tag,
)

__all__ = ["LoadWeightsRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class LoadWeightsRequest(Model):
    """Loads a checkpoint into a model; answered with a future. The model is named by model_id with
    seq_id or, in era 0.36.0, created on the way by session_id with model_seq_id.

    Attributes:
        model_id: Model to load into. Era 0.4.1 requires it; era 0.36.0 may name the session instead.
        seq_id: Number of this request among all training and weight requests of the model, counted
            from 1. A repeat with the same number is the same request.
        session_id: Session to create the model in. Era 0.36.0 only.
        model_seq_id: Number of the model to create within the session. Era 0.36.0 only.
        base_model: Base of the model to create. Era 0.36.0 only.
        user_metadata: Free-form labels of the model to create. Era 0.36.0 only.
        path: Address of the checkpoint.
        optimizer: Whether the state of the optimizer is loaded too. Era 0.36.0 only, and always sent
            there.
        optimizer_config: Optimizer family of the model to create. Era 0.36.0 only.
        weights_access_token: Secret that opens a checkpoint of somebody else. Era 0.36.0 only.
        type: Tag of this type. Era 0.36.0 always sends it; era 0.4.1 leaves it out.
    """

    model_id: str | None = field(default=None)
    seq_id: int | None = field(default=None)
    session_id: str | None = field(default=None)
    model_seq_id: int | None = field(default=None)
    base_model: str | None = field(default=None)
    user_metadata: dict[str, Any] | None = field(default=None)
    path: str
    optimizer: bool | None = field(default=None)
    optimizer_config: models.OptimizerConfig | None = field(default=None)
    weights_access_token: str | None = field(default=None, repr=False)
    type: Literal["load_weights"] = field(default="load_weights")
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .adam_optimizer_config import AdamOptimizerConfig
        from .dimuon_optimizer_config import DimuonOptimizerConfig
        from .optimizer_config_base import OptimizerConfigBase

        return (
            Field("model_id", "model_id", TEXT, nullable=True),
            Field("seq_id", "seq_id", INTEGER, nullable=True),
            Field("session_id", "session_id", TEXT, nullable=True),
            Field("model_seq_id", "model_seq_id", INTEGER, nullable=True),
            Field("base_model", "base_model", TEXT, nullable=True),
            Field("user_metadata", "user_metadata", Table(ANYTHING), nullable=True),
            Field("path", "path", TEXT, required=True),
            Field("optimizer", "optimizer", BOOLEAN),
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
                nullable=True,
            ),
            Field("weights_access_token", "weights_access_token", TEXT, nullable=True),
            Field("type", "type", Tag("load_weights"), default="load_weights"),
        )
