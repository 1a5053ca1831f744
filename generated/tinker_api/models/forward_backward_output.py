"""ForwardBackwardOutput. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    NUMBER,
    TEXT,
    Array,
    Object,
    Table,
)

__all__ = ["ForwardBackwardOutput"]


@frozen(kw_only=True, getstate_setstate=False)
class ForwardBackwardOutput(Model):
    """Loss values and metrics of one training request, in the JSON form of era 0.4.1; era 0.36.0
    answers in protobuf only.

    Attributes:
        loss_fn_output_type: Name of the shape the outputs have.
        loss_fn_outputs: One map of named tensors per example, in the order of the request.
        metrics: Numbers by name.
    """

    loss_fn_output_type: str
    loss_fn_outputs: list[dict[str, models.TensorData]]
    metrics: dict[str, float] = field(default=Factory(dict))
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .tensor_data import TensorData

        return (
            Field("loss_fn_output_type", "loss_fn_output_type", TEXT, required=True),
            Field(
                "loss_fn_outputs",
                "loss_fn_outputs",
                Array(Table(Object(TensorData))),
                required=True,
            ),
            Field("metrics", "metrics", Table(NUMBER), default={}),
        )
