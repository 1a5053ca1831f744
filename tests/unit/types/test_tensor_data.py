"""TensorData: dense, sparse, round trips, equality and pickles."""

import copy
import pickle

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinker_ext.errors import InvalidInputError
from tinker_ext.types import TensorData

ARRAYS = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.int8, np.int64]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@given(ARRAYS)
def test_numpy_round_trip(array):
    """M8: to_numpy gives back shape and values, and data is the flat list of them."""
    tensor = TensorData.from_numpy(array)
    back = tensor.to_numpy()
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    assert len(tensor.data) == array.size
    nested = np.array(tensor.tolist(), dtype=back.dtype).reshape(back.shape)
    np.testing.assert_array_equal(nested, back)


@given(ARRAYS)
def test_pickle_and_copy(array):
    """M8: a tensor equals its pickle and its copies."""
    tensor = TensorData.from_numpy(array)
    assert pickle.loads(pickle.dumps(tensor)) == tensor
    assert copy.deepcopy(tensor) == tensor
    assert hash(copy.copy(tensor)) == hash(tensor)


def test_shape_absent_is_one_dimension():
    """M8: without a shape nothing is reshaped and the shape stays absent."""
    tensor = TensorData(data=[1, 2, 3], dtype="int64")
    assert tensor.shape is None
    assert tensor.to_numpy().shape == (3,)
    assert tensor.tolist() == tensor.data == [1, 2, 3]


def test_an_absent_shape_equals_the_written_one():
    """M8: [3] and an absent shape mean the same tensor; other shapes do not."""
    flat = TensorData(data=[1, 2], dtype="int64")
    assert flat == TensorData(data=[1, 2], dtype="int64", shape=[2])
    assert flat != TensorData(data=[1, 2], dtype="int64", shape=[1, 2])
    assert flat != TensorData(data=[1, 2], dtype="float32")
    assert flat != TensorData(data=[1, 3], dtype="int64")
    assert flat != [1, 2]


@pytest.mark.parametrize(
    ("data", "dtype", "shape", "nested"),
    [
        ([1, 2, 3, 4], "int64", [2, 2], [[1, 2], [3, 4]]),
        ([[1, 2], [3, 4]], "int64", None, [[1, 2], [3, 4]]),
        ([1, 2], "float32", [2], [1.0, 2.0]),
        ([7], "int64", [], 7),
        ([], "float32", [0, 3], []),
    ],
)
def test_constructor(data, dtype, shape, nested):
    """M8: lists are laid out by the shape; numbers get the dtype."""
    tensor = TensorData(data=data, dtype=dtype, shape=shape)
    assert tensor.dtype == dtype
    assert tensor.tolist() == nested


def test_missing_arguments():
    """M7: a list says nothing about its dtype, so it must be given."""
    with pytest.raises(TypeError, match="dtype"):
        TensorData(data=[1])
    with pytest.raises(TypeError, match="data"):
        TensorData(dtype="int64")
    assert TensorData(data=np.ones(2)).dtype == "float32"


@pytest.mark.parametrize("shape", [[3], [2, 2], [-3], [-1, -3]])
def test_wrong_shape(shape):
    """M8: values that do not fill the shape are refused at once."""
    with pytest.raises(InvalidInputError, match="do not fill"):
        TensorData(data=[1, 2, 3, 4, 5], dtype="int64", shape=shape)


def test_frozen_and_read_only():
    """M8: neither fields nor values can be changed through a tensor."""
    source = np.ones(2, dtype=np.float32)
    tensor = TensorData.from_numpy(source)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        tensor.dtype = "int64"
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0] = 2
    tensor.to_numpy()[0] = 5
    assert tensor.data == source.tolist() == [1.0, 1.0]
    assert source.flags.writeable


def test_arrays_are_kept_until_they_are_settled():
    """F56: the caller's array is used as it is, and copied once it is to be sent."""
    source = np.ones(2, np.float32)
    for make in (TensorData.from_numpy, TensorData, TensorData.keep):
        source[:] = 1
        tensor = make(source)
        source[0] = 7
        assert tensor.data == tensor.tolist() == [7.0, 1.0]
        tensor.settle()
        source[0] = 8
        assert tensor.data == tensor.tolist() == [7.0, 1.0]
        with pytest.raises(ValueError, match="read-only"):
            tensor.array[0] = 2
        values = tensor.array
        tensor.settle()
        assert tensor.array is values


def test_arrays_in_pieces_are_copied_at_once():
    """M7: strided memory cannot travel as it is."""
    source = np.arange(6)
    tensor = TensorData.from_numpy(source[::2])
    source[:] = 9
    assert tensor.data == [0, 2, 4]


def test_data_is_a_plain_list():
    """M8: the list holds Python numbers, so that it can be joined, sliced and printed."""
    data = TensorData.from_numpy(np.array([1, 2])).data
    assert type(data) is list
    assert type(data[0]) is int
    prefix = [0]
    assert prefix + data == [0, 1, 2]


SPARSE = {
    "data": [5, 6],
    "dtype": "int64",
    "shape": [2, 4],
    "sparse_crow_indices": [0, 1, 2],
    "sparse_col_indices": [1, 3],
}


def test_sparse_decodes_with_pad_value():
    """M8: a CSR tensor reads as a dense one filled with pad_value."""
    tensor = TensorData(**SPARSE)
    assert tensor.tolist(pad_value=-1) == [[-1, 5, -1, -1], [-1, -1, -1, 6]]
    assert tensor.to_numpy().sum() == 11
    assert tensor.data == [5, 6]
    assert tensor.sparse_crow_indices == [0, 1, 2]
    assert tensor.sparse_col_indices == [1, 3]
    assert tensor.to_dense() == TensorData.from_numpy(tensor.to_numpy())
    assert pickle.loads(pickle.dumps(tensor)) == tensor
    assert tensor != tensor.to_dense()
    dense = tensor.to_dense()
    assert dense.to_dense() is dense


@pytest.mark.parametrize(
    "change",
    [
        {"shape": None},
        {"shape": [8]},
        {"sparse_crow_indices": [0, 1]},
        {"sparse_crow_indices": [0, 2, 1]},
        {"sparse_crow_indices": [1, 1, 2]},
        {"sparse_col_indices": [1, 4]},
        {"sparse_col_indices": [-1, 0]},
        {"sparse_col_indices": [1]},
        {"sparse_col_indices": None},
    ],
)
def test_broken_sparse_is_refused(change):
    """M8: inconsistent CSR indices fail at construction."""
    with pytest.raises(InvalidInputError):
        TensorData(**{**SPARSE, **change})


@given(
    hnp.arrays(
        np.int64,
        st.tuples(st.integers(0, 6), st.integers(0, 6)),
        elements=st.sampled_from([-1, -1, -1, -1, 0, 3]),
    )
)
def test_compression_loses_nothing(array):
    """M8: sparse or dense, whichever is smaller, the values come back with the same pad."""
    tensor = TensorData.compressed(array.copy(), pad_value=-1)
    np.testing.assert_array_equal(tensor.to_numpy(pad_value=-1), array)
    rows, cols = array.shape
    stored = np.count_nonzero(array != -1)
    assert tensor.is_sparse == (rows + 1 + 2 * stored < rows * cols)


@pytest.mark.parametrize("shape", [(), (9,), (3, 3, 3)])
def test_only_tables_are_compressed(shape):
    """M8: anything else is taken as it is."""
    tensor = TensorData.compressed(np.zeros(shape, np.float32))
    assert not tensor.is_sparse
    assert tensor == TensorData.from_numpy(np.zeros(shape, np.float32))
    assert tensor.to_numpy().shape == shape


def test_adopt_refuses_other_dtypes():
    """M7: the door without a copy takes wire dtypes only."""
    with pytest.raises(InvalidInputError, match="float64"):
        TensorData.adopt(np.ones(2))


def test_repr_is_short():
    """M8: the text shows dtype, shape and a few values."""
    text = repr(TensorData.from_numpy(np.arange(1000)))
    assert "int64" in text
    assert "1000" in text
    assert len(text) < 120


@pytest.mark.parametrize("shape", [5, 1.5, ["a"], [None], [float("inf")], object()])
def test_bad_shapes(shape):
    """M30: a shape that is not one is a ValueError."""
    with pytest.raises(InvalidInputError, match="shape"):
        TensorData(data=[1], dtype="int64", shape=shape)


@pytest.mark.parametrize("pad", [0.5, True, "0", None, 1.0])
@pytest.mark.parametrize("tensor", [TensorData(**SPARSE), TensorData(data=[1], dtype="int64")])
def test_pad_value_is_an_integer(tensor, pad):
    """F52: what fills a sparse tensor is an integer, as with the official package."""
    for read in (tensor.to_numpy, tensor.tolist, tensor.to_dense):
        with pytest.raises(TypeError, match="pad_value"):
            read(pad_value=pad)
    with pytest.raises(TypeError, match="pad_value"):
        TensorData.compressed(np.zeros((2, 2), np.int64), pad)
    assert tensor.tolist(np.int32(0)) == tensor.tolist(0)


def test_fractions_are_never_cut_off():
    """M7: a float in a list of integers is taken only if it is whole."""
    with pytest.raises(InvalidInputError, match=r"2\.7"):
        TensorData(data=[1.0, 2.7], dtype="int64")
    with pytest.raises(InvalidInputError, match=r"2\.7"):
        TensorData(data=[1, 2.7], dtype="int64")
    with pytest.raises(InvalidInputError, match=r"2\.7"):
        TensorData(data=np.array([1.0, 2.7]), dtype="int64")
    assert TensorData(data=[1.0, 2.0], dtype="int64").data == [1, 2]


def test_read_only_memory_is_not_copied():
    """M8: the bytes of a reply are used as they are; what somebody can write to is copied."""
    reply = np.frombuffer(bytes(16), np.float32)
    assert np.shares_memory(TensorData.from_numpy(reply).array, reply)
    assert np.shares_memory(TensorData.from_numpy(reply[1:]).array, reply)
    source = np.ones(4, np.float32)
    view = source.view()
    view.flags.writeable = False
    tensor = TensorData.from_numpy(view)
    source[0] = 7
    assert tensor.data == [1.0] * 4


def test_pickles_of_earlier_releases():
    """M8: the state of a pickle is what it was."""
    state = TensorData(data=[1, 2], dtype="int64", shape=[2]).__getstate__()
    assert sorted(state) == ["_list", "_shape", "array", "col", "crow", "dtype"]


def test_zeros_are_left_out_of_a_sparse_tensor_by_default():
    """M8: `from_torch_sparse` without a pad value leaves out zeros."""
    dense = np.zeros((3, 50), np.float32)
    dense[1, 7] = 1.0
    sparse = TensorData.from_torch_sparse(dense)
    assert (sparse.sparse_col_indices, sparse.data) == ([7], [1.0])
    np.testing.assert_array_equal(sparse.to_numpy(), dense)
