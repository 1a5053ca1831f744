"""The values of a tensor are its own: nobody changes them through it."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext.types import TensorData

MADE = {
    "list": lambda: TensorData([1, 2, 3, 4], "int64"),
    "shaped list": lambda: TensorData([1.0, 2.0, 3.0, 4.0], "float32", [2, 2]),
    "array": lambda: TensorData(np.arange(4)),
    "narrow array": lambda: TensorData(np.arange(4, dtype=np.int16)),
    "numpy": lambda: TensorData.from_numpy(np.ones((2, 2))),
    "float32": lambda: TensorData.from_numpy(np.ones(4, np.float32)),
    "other order": lambda: TensorData.from_numpy(np.ones((3, 4), np.float32).T),
    "kept": lambda: TensorData.keep(np.arange(4)),
    "kept of a part": lambda: TensorData.keep(np.arange(8)[::2]),
    "adopted": lambda: TensorData.adopt(np.arange(4)),
    "compressed": lambda: TensorData.compressed(np.array([[1, 0], [0, 2]])),
    "dense again": lambda: TensorData.compressed(np.array([[1, 0], [0, 2]])).to_dense(),
}


@pytest.mark.parametrize("way", MADE)
def test_values_cannot_be_changed(way):
    """M27: a tensor may be sent later, or twice."""
    array = MADE[way]().array
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array.reshape(-1)[0] = 9


@pytest.mark.parametrize(
    ("made", "shape", "values"),
    [
        (lambda: TensorData.adopt(np.arange(4)), [4], [0, 1, 2, 3]),
        (lambda: TensorData.adopt(np.arange(4), (2, 2)), [2, 2], [[0, 1], [2, 3]]),
        (lambda: TensorData.adopt(np.arange(4).reshape(2, 2)), [2, 2], [[0, 1], [2, 3]]),
        (lambda: TensorData.adopt(np.arange(4).reshape(2, 2), (4,)), [4], [0, 1, 2, 3]),
        (lambda: TensorData(np.arange(4).reshape(2, 2)), [2, 2], [[0, 1], [2, 3]]),
        (lambda: TensorData(np.arange(4), shape=[2, 2]), [2, 2], [[0, 1], [2, 3]]),
        (lambda: TensorData(np.arange(4).reshape(2, 2), shape=[4]), [4], [0, 1, 2, 3]),
        (lambda: TensorData([[0, 1], [2, 3]], "int64"), [2, 2], [[0, 1], [2, 3]]),
    ],
)
def test_the_shape_is_the_given_one_or_that_of_the_values(made, shape, values):
    """M27: a shape wins over that of the array; without one a matrix stays a matrix."""
    tensor = made()
    assert tensor.tolist() == values
    assert list(tensor.array.shape) == shape
    assert tensor.shape is None or list(tensor.shape) == shape
    assert (tensor.shape is None) <= (len(shape) == 1)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("make", [np.matrix, np.ma.array])
def test_an_array_of_another_class_is_sent_as_a_plain_one(make):
    """M27: a matrix stays two-dimensional whatever is done with it, and a mask is not sent."""
    tensor = TensorData.from_numpy(make([[1, 2], [3, 4]], np.int64))
    tensor.settle()
    assert type(tensor.array) is np.ndarray
    assert tensor.data == [1, 2, 3, 4]


def test_numbers_of_a_reply_are_listed_once():
    """M42: they cannot change; those of an array that can are listed each time."""
    fixed = TensorData.from_numpy(np.frombuffer(np.arange(3).tobytes(), np.int64))
    assert fixed.data is fixed.data
    own = np.arange(3)
    tensor = TensorData.from_numpy(own)
    assert tensor.data == [0, 1, 2]
    own[0] = 7
    assert tensor.data == [7, 1, 2]
