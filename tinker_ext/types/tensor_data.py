"""`TensorData`: one tensor of a request or result, dense or sparse, with numpy inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np
import numpy.typing as npt
from tinker_api.models import TensorDtype

from tinker_ext import tensors
from tinker_ext._later import Later
from tinker_ext.errors import InvalidInputError

if TYPE_CHECKING:
    import torch
else:
    torch = Later("torch")

_VALUES_IN_REPR = 6


@attrs.frozen(init=False, eq=False, repr=False)
class TensorData:
    """A tensor of int64 or float32 values.

    Lists are copied. An array or tensor that can travel as it is is kept, as the official SDK does,
    and copied when it is first sent (`settle`): nothing that is under way changes with it. `shape`
    None means one dimension. With the two index lists the tensor is sparse (CSR): `data` then holds
    the stored values only, and the reading methods fill the rest with `pad_value`.

    Args:
        data: Values: a flat or nested list, or an array.
        dtype: `int64` or `float32`. May be left out when `data` is an array.
        shape: Dimensions; by default those of `data`.
        sparse_crow_indices: Row pointers of a CSR tensor, one more than rows.
        sparse_col_indices: Column of every stored value of a CSR tensor.

    Raises:
        TypeError: `data` or `dtype` is missing.
        InvalidInputError: The values do not fit the dtype or the shape.

    Example:
        >>> tensor = TensorData(data=[1, 2, 3, 4], dtype="int64", shape=[2, 2])
        >>> tensor.tolist()
        [[1, 2], [3, 4]]
    """

    array: npt.NDArray[Any]
    """Read-only values: shaped as `shape`, or flat when that is None or the tensor is sparse."""
    dtype: TensorDtype
    _shape: tuple[int, ...] | None
    crow: npt.NDArray[np.int64] | None
    """Row pointers as an array; None when dense."""
    col: npt.NDArray[np.int64] | None
    """Column numbers as an array; None when dense."""
    _list: list[int] | list[float] | None

    def __init__(
        self,
        data: Sequence[Any] | npt.NDArray[Any] | None = None,
        dtype: TensorDtype | None = None,
        shape: Sequence[int] | None = None,
        sparse_crow_indices: Sequence[int] | npt.NDArray[Any] | None = None,
        sparse_col_indices: Sequence[int] | npt.NDArray[Any] | None = None,
    ) -> None:
        if data is None:
            raise TypeError("TensorData needs `data`.")
        if dtype is None and not hasattr(data, "dtype"):
            raise TypeError('TensorData needs `dtype` with a list: "int64" or "float32".')
        array = tensors.to_array(data, dtype, what="TensorData", keep=True)
        if (sparse_crow_indices is None) != (sparse_col_indices is None):
            raise InvalidInputError(
                "A sparse TensorData needs sparse_crow_indices and sparse_col_indices together."
            )
        if sparse_crow_indices is None:
            self._set(array, shape if shape is not None or array.ndim == 1 else array.shape)
            return
        crow = tensors.to_array(sparse_crow_indices, "int64", what="sparse_crow_indices")
        col = tensors.to_array(sparse_col_indices, "int64", what="sparse_col_indices")
        _check_csr(array, shape, crow, col)
        self._set(array, shape, crow, col)

    def _set(
        self,
        array: npt.NDArray[Any],
        shape: Sequence[int] | None,
        crow: npt.NDArray[np.int64] | None = None,
        col: npt.NDArray[np.int64] | None = None,
    ) -> None:
        dims = shape if shape is None or type(shape) is tuple else _dims(shape)
        if crow is None and dims is not None and array.shape != dims:
            array = _reshape(array, dims)
        if array.flags.writeable:
            array.setflags(write=False)
        _put_array(self, array)
        _put_dtype(self, "int64" if array.dtype.kind == "i" else "float32")
        _put_shape(self, dims)
        _put_crow(self, crow)
        _put_col(self, col)
        _put_list(self, None)

    @classmethod
    def constant(
        cls, array: npt.NDArray[Any], dtype: TensorDtype, dims: tuple[int, ...] | None
    ) -> Self:
        """Take read-only values of that dtype and shape: quick, and nothing is checked."""
        # Written out, without a call that could be avoided: batches have thousands of these.
        tensor = _new(cls)
        _put_array(tensor, array)
        _put_dtype(tensor, dtype)
        _put_shape(tensor, dims)
        _put_crow(tensor, None)
        _put_col(tensor, None)
        _put_list(tensor, None)
        return tensor

    @classmethod
    def adopt(cls, array: npt.NDArray[Any], shape: Sequence[int] | None = None) -> Self:
        """Take over an int64 or float32 array, without a copy.

        Args:
            array: The values; made read-only, so pass a view of an array that is not yours.
            shape: Dimensions; None with a one-dimensional array leaves the shape absent.
        """
        if tensors.wire_name(array.dtype) is None:
            raise InvalidInputError(f"TensorData.adopt: {array.dtype} is not int64 or float32.")
        tensor = cls.__new__(cls)
        tensor._set(array, shape if shape is not None or array.ndim == 1 else array.shape)
        return tensor

    @classmethod
    def keep(cls, array: npt.NDArray[Any]) -> Self | None:
        """Take a numpy array that can travel as it is; None when it has to be converted."""
        name = tensors.wire_name(array.dtype)
        return None if name is None else cls.constant(tensors.kept(array), name, array.shape)

    @classmethod
    def copied(cls, array: npt.NDArray[Any]) -> Self | None:
        """The same as `keep` and then `settle`."""
        name = tensors.wire_name(array.dtype)
        if name is None:
            return None
        copy = array.copy()
        copy.setflags(False)  # type: ignore[call-arg]  # a name takes longer than the rest
        return cls.constant(copy, name, copy.shape)

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> Self:
        """Take a numpy array of any float or signed integer type and any shape."""
        values = tensors.to_array(array, what="TensorData.from_numpy", keep=True)
        return cls.adopt(values, values.shape)

    @classmethod
    def from_torch(cls, tensor: torch.Tensor) -> Self:
        """Take a torch tensor; bfloat16 and other floats become float32."""
        values = tensors.to_array(tensor, what="TensorData.from_torch", keep=True)
        return cls.adopt(values, values.shape)

    @classmethod
    def from_torch_sparse(cls, tensor: torch.Tensor, pad_value: int = 0) -> Self:
        """Take a 2-D torch tensor, leaving out `pad_value` where that makes it smaller.

        A tensor that would not get smaller, or is not 2-D, is taken as it is.

        Raises:
            TypeError: `pad_value` is not an integer.
        """
        values = tensors.to_array(tensor, what="TensorData.from_torch_sparse", keep=True)
        return cls.compressed(values, pad_value)

    @classmethod
    def compressed(cls, values: npt.NDArray[Any], pad_value: int = 0) -> Self:
        """The smaller of the dense and the CSR form of an array of int64 or float32."""
        pad_value = _pad(pad_value)
        if values.ndim != 2:
            return cls.adopt(values, values.shape)
        keep = values != pad_value
        rows, cols = values.shape
        stored = int(np.count_nonzero(keep))
        # The rule by which the official client chooses: index and value count against cells.
        if rows + 1 + 2 * stored >= rows * cols:
            return cls.adopt(values, values.shape)
        crow = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(np.count_nonzero(keep, axis=1), out=crow[1:])
        sparse = cls.__new__(cls)
        sparse._set(values[keep], values.shape, crow, np.nonzero(keep)[1].astype(np.int64))
        return sparse

    def settle(self) -> None:
        """Copy what is still the caller's memory: from here on nobody can change the values."""
        array = self.array
        settled = tensors.frozen_copy(array)
        if settled is not array:
            _put_array(self, settled)
            _put_list(self, None)

    @property
    def shape(self) -> list[int] | None:
        """Dimensions; None means one dimension."""
        return None if self._shape is None else list(self._shape)

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The same as `shape`, as a tuple."""
        return self._shape

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Dimensions, also of a tensor whose `shape` is None."""
        return self.array.shape if self._shape is None else self._shape

    @property
    def data(self) -> list[int] | list[float]:
        """The stored values as a flat list of Python numbers."""
        if self._list is not None:
            return self._list
        values: list[int] | list[float] = self.array.ravel().tolist()
        if tensors.is_constant(self.array):
            _put_list(self, values)
        return values

    @property
    def is_sparse(self) -> bool:
        """Whether the tensor is stored as CSR."""
        return self.crow is not None

    @property
    def sparse_crow_indices(self) -> list[int] | None:
        """Row pointers of a CSR tensor; None when dense."""
        return None if self.crow is None else self.crow.tolist()

    @property
    def sparse_col_indices(self) -> list[int] | None:
        """Columns of a CSR tensor; None when dense."""
        return None if self.col is None else self.col.tolist()

    def to_numpy(self, pad_value: int = 0) -> npt.NDArray[Any]:
        """A new array of shape `shape`; `pad_value` fills what a sparse tensor leaves out.

        Raises:
            TypeError: `pad_value` is not an integer.
        """
        pad_value = _pad(pad_value)
        if self.crow is None or self.col is None or self._shape is None:
            return self.array.copy()
        dense = np.full(self._shape, pad_value, dtype=self.array.dtype)
        rows = np.repeat(np.arange(self._shape[0]), np.diff(self.crow))
        dense[rows, self.col] = self.array
        return dense

    def to_dense(self, pad_value: int = 0) -> TensorData:
        """The same tensor without sparse indices; itself when it is dense."""
        pad_value = _pad(pad_value)
        if not self.is_sparse:
            return self
        return TensorData.adopt(self.to_numpy(pad_value), self._shape)

    def to_torch(self, pad_value: int = 0) -> torch.Tensor:
        """A new torch tensor of the same dtype and shape.

        Raises:
            ImportError: torch is not installed.
        """
        tensor: torch.Tensor = tensors.to_torch(self.to_numpy(pad_value))
        return tensor

    def tolist(self, pad_value: int = 0) -> list[Any]:
        """Nested lists following `shape` (a bare number when the shape is empty)."""
        pad_value = _pad(pad_value)
        values: list[Any] = (self.to_numpy(pad_value) if self.is_sparse else self.array).tolist()
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorData):
            return NotImplemented
        return (
            (self.dtype, self.full_shape) == (other.dtype, other.full_shape)
            and np.array_equal(self.array, other.array, equal_nan=True)
            and self.sparse_crow_indices == other.sparse_crow_indices
            and self.sparse_col_indices == other.sparse_col_indices
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.full_shape, self.array.size))

    def __repr__(self) -> str:
        flat = self.array.ravel()
        shown = ", ".join(str(value) for value in flat[:_VALUES_IN_REPR].tolist())
        if flat.size > _VALUES_IN_REPR:
            shown += f", … {flat.size} values"
        sparse = ", sparse" if self.is_sparse else ""
        return f"TensorData(data=[{shown}], dtype={self.dtype!r}, shape={self.shape}{sparse})"


_new = object.__new__
# A frozen class takes its values through its slots; object.__setattr__ looks each of them up.
_put_array, _put_dtype, _put_shape, _put_crow, _put_col, _put_list = (
    TensorData.__dict__[name].__set__
    for name in ("array", "dtype", "_shape", "crow", "col", "_list")
)


def _pad(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"pad_value must be an integer, not {value!r}.")
    return int(value)


def _dims(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(map(int, shape))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"TensorData: shape must be a list of whole numbers, not {shape!r}."
        ) from None


def _reshape(array: npt.NDArray[Any], dims: tuple[int, ...]) -> npt.NDArray[Any]:
    size = math.prod(dims)
    if size != array.size or any(n < 0 for n in dims):
        raise InvalidInputError(
            f"TensorData: {array.size} values do not fill shape {list(dims)} ({size} values)."
        )
    return array.reshape(dims)


def _check_csr(
    values: npt.NDArray[Any],
    shape: Sequence[int] | None,
    crow: npt.NDArray[np.int64],
    col: npt.NDArray[np.int64],
) -> None:
    if shape is None or len(shape) != 2:
        raise InvalidInputError("A sparse TensorData needs a shape of two dimensions.")
    rows, cols = shape
    if values.ndim != 1 or crow.shape != (rows + 1,) or col.shape != values.shape:
        raise InvalidInputError(
            f"Sparse TensorData of shape {list(shape)}: need {rows + 1} row pointers (got "
            f"{crow.size}) and one column for each of {values.size} values (got {col.size})."
        )
    if crow[0] != 0 or crow[-1] != values.size or (np.diff(crow) < 0).any():
        raise InvalidInputError(
            f"Sparse TensorData: row pointers must rise from 0 to {values.size}."
        )
    if col.size and (col.min() < 0 or col.max() >= cols):
        raise InvalidInputError(f"Sparse TensorData: columns must lie in 0 … {cols - 1}.")
