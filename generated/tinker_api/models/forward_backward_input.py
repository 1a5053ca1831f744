"""ForwardBackwardInput. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    NUMBER,
    TEXT,
    Array,
    Choice,
    Object,
    Table,
)

__all__ = ["ForwardBackwardInput"]


@frozen(kw_only=True, getstate_setstate=False)
class ForwardBackwardInput(Model):
    """A batch of training examples and the loss to compute on it.

    Attributes:
        data: The examples, in order.
        loss_fn: Loss to compute. Era 0.4.1 knows cross_entropy, importance_sampling and ppo; era
            0.36.0 knows all.
        loss_fn_config: Settings of the loss. Numbers in both eras; text values in era 0.36.0 only.
    """

    data: list[models.Datum]
    loss_fn: models.LossFnType = field(
        validator=one_of(
            "cross_entropy",
            "importance_sampling",
            "ppo",
            "cispo",
            "dro",
            "gspo",
            "stable_reinforce",
            "custom",
        )
    )
    loss_fn_config: dict[str, float | str] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .datum import Datum

        return (
            Field("data", "data", Array(Object(Datum)), required=True),
            Field(
                "loss_fn",
                "loss_fn",
                TEXT,
                required=True,
                values=(
                    "cross_entropy",
                    "importance_sampling",
                    "ppo",
                    "cispo",
                    "dro",
                    "gspo",
                    "stable_reinforce",
                    "custom",
                ),
            ),
            Field(
                "loss_fn_config",
                "loss_fn_config",
                Table(
                    Choice(
                        others=(
                            NUMBER,
                            TEXT,
                        )
                    )
                ),
                nullable=True,
            ),
        )
