"""Datum. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    Array,
    Object,
    Table,
)

__all__ = ["Datum"]


@frozen(kw_only=True, getstate_setstate=False)
class Datum(Model):
    """One training example: what the model reads and what the loss needs.

    Attributes:
        model_input: What a model reads: pieces of text, image or audio in order.
        loss_fn_inputs: Tensors a loss needs for one example, by name.
        model_input_spans: Where the pieces of the model input came from; given together with
            loss_fn_input_spans. Only the protobuf body carries it. Era 0.36.0 only.
        loss_fn_input_spans: Where the pieces of the loss inputs came from; given together with
            model_input_spans. Only the protobuf body carries it. Era 0.36.0 only.
    """

    model_input: models.ModelInput
    loss_fn_inputs: dict[str, models.TensorData] = field(default=Factory(dict))
    model_input_spans: list[models.ProvenanceSpan] | None = field(default=None)
    loss_fn_input_spans: list[models.ProvenanceSpan] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .model_input import ModelInput
        from .provenance_span import ProvenanceSpan
        from .tensor_data import TensorData

        return (
            Field("model_input", "model_input", Object(ModelInput), required=True),
            Field("loss_fn_inputs", "loss_fn_inputs", Table(Object(TensorData)), default={}),
            Field(
                "model_input_spans",
                "model_input_spans",
                Array(Object(ProvenanceSpan)),
                nullable=True,
            ),
            Field(
                "loss_fn_input_spans",
                "loss_fn_input_spans",
                Array(Object(ProvenanceSpan)),
                nullable=True,
            ),
        )
