"""TensorDtype. Generated file: run `nox -s regenerate` instead of editing it."""

from typing import Literal, TypeAlias

TensorDtype: TypeAlias = Literal[
    "int64",
    "float32",
]

TENSOR_DTYPE_VALUES: tuple[TensorDtype, ...] = (
    "int64",
    "float32",
)

__all__ = ["TENSOR_DTYPE_VALUES", "TensorDtype"]
