"""TensorData. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model, one_of
from ..codec import (
    INTEGER,
    NUMBER,
    TEXT,
    Array,
)

__all__ = ["TensorData"]


@frozen(kw_only=True, getstate_setstate=False)
class TensorData(Model):
    """A dense or sparse tensor as flat numbers. Era 0.36.0 uses this JSON form inside sampling
    requests only and protobuf for all other tensors.

    Attributes:
        data: The values in row-major order; of a sparse tensor, the stored values only.
        dtype: Type of the values of a tensor. Requests keep to these; a result may one day bring
            another.
        shape: Length of each dimension; absent or null means one dimension.
        sparse_crow_indices: Row pointers of a sparse tensor in compressed-row form. Era 0.36.0 only.
        sparse_col_indices: Column of each stored value of a sparse tensor. Era 0.36.0 only.
    """

    data: list[float]
    dtype: models.TensorDtype | str = field(validator=one_of("int64", "float32"))
    shape: list[int] | None = field(default=None)
    sparse_crow_indices: list[int] | None = field(default=None)
    sparse_col_indices: list[int] | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("data", "data", Array(NUMBER), required=True),
            Field("dtype", "dtype", TEXT, required=True, values=("int64", "float32")),
            Field("shape", "shape", Array(INTEGER), nullable=True),
            Field("sparse_crow_indices", "sparse_crow_indices", Array(INTEGER), nullable=True),
            Field("sparse_col_indices", "sparse_col_indices", Array(INTEGER), nullable=True),
        )
