"""TensorData and Datum with torch tensors."""

import numpy as np
import pytest
import torch

from tinker_ext.errors import InvalidInputError
from tinker_ext.types import Datum, EncodedTextChunk, ModelInput, TensorData

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_floats(dtype):
    """M7: any torch float becomes float32, bfloat16 included."""
    tensor = TensorData.from_torch(torch.tensor([[0.5, -2.0]], dtype=dtype))
    assert (tensor.dtype, tensor.shape) == ("float32", [1, 2])
    assert tensor.tolist() == [[0.5, -2.0]]
    assert tensor.to_torch().dtype == torch.float32
    assert tensor.to_torch().shape == (1, 2)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_ints(dtype):
    """M7: signed integers become int64."""
    tensor = TensorData.from_torch(torch.tensor([1, -2], dtype=dtype))
    assert tensor.dtype == "int64"
    assert tensor.to_torch().tolist() == [1, -2]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_refused(dtype):
    """M7: bool and unsigned are refused with the fix."""
    with pytest.raises(InvalidInputError, match="astype"):
        TensorData.from_torch(torch.ones(2, dtype=dtype))


def test_views_and_gradients():
    """M7: strided, 0-d, sparse and grad-carrying tensors work; they are kept until sent."""
    base = torch.arange(12.0).reshape(3, 4).requires_grad_(True)
    assert TensorData.from_torch(base.T[::2]).tolist() == base.detach().T[::2].tolist()
    assert TensorData.from_torch(torch.tensor(3.0)).shape == []
    assert TensorData.from_torch(torch.eye(2).to_sparse_csr()).tolist() == [[1, 0], [0, 1]]
    source = torch.zeros(2)
    tensor = TensorData.from_torch(source)
    source[0] = 1
    tensor.to_torch()[1] = 5  # a copy
    assert tensor.data == [1.0, 0.0]


def test_out_of_range():
    """M7: float64 values that float32 cannot hold are refused."""
    with pytest.raises(InvalidInputError, match="float32"):
        TensorData.from_torch(torch.tensor([1e300], dtype=torch.float64))


def test_sparse_round_trip():
    """M8: padding is left out and comes back with the same pad value."""
    rows = torch.tensor([[1, -1, -1, -1, -1, -1], [4, 3, -1, -1, -1, -1]])
    tensor = TensorData.from_torch_sparse(rows, pad_value=-1)
    assert tensor.data == [1, 4, 3]
    assert tensor.sparse_crow_indices == [0, 1, 3]
    assert tensor.sparse_col_indices == [0, 0, 1]
    assert torch.equal(tensor.to_torch(pad_value=-1), rows)
    dense = TensorData.from_torch_sparse(torch.tensor([[1, 2], [4, 3]]))
    assert dense.sparse_crow_indices is None


def test_datum_takes_torch():
    """M9: torch tensors in loss inputs; wide 2-D targets are compressed, others are not."""
    datum = Datum(
        ModelInput.from_ints(torch.tensor([1, 2])),
        {
            "target_tokens": torch.zeros(2, 8, dtype=torch.long),
            "logprobs": torch.zeros(2, 8),
            "weights": torch.ones(2, dtype=torch.bfloat16),
        },
    )
    assert datum.loss_fn_inputs["target_tokens"].is_sparse
    assert not datum.loss_fn_inputs["logprobs"].is_sparse
    assert datum.loss_fn_inputs["weights"].tolist() == [1.0, 1.0]
    assert datum.model_input.to_ints() == [1, 2]


def test_tokens_from_torch():
    """M10: a one-dimensional integer tensor is accepted as tokens."""
    assert EncodedTextChunk(tokens=torch.tensor([1, 2])).tokens == [1, 2]
    with pytest.raises(InvalidInputError):
        EncodedTextChunk(tokens=torch.ones(2, 2, dtype=torch.long))


def test_list_of_scalars():
    """M9: a list of 0-d tensors works like a list of numbers."""
    datum = Datum(ModelInput.from_ints([1, 2]), {"advantages": [torch.tensor(1.0), 2.0]})
    np.testing.assert_array_equal(datum.loss_fn_inputs["advantages"].to_numpy(), [1.0, 2.0])


@pytest.mark.parametrize("pad", [0.5, True, "0"])
def test_pad_value_is_an_integer(pad):
    """F52: what is left out of a sparse tensor is an integer, as with the official package."""
    rows = torch.zeros(2, 8, dtype=torch.int64)
    with pytest.raises(TypeError, match="pad_value"):
        TensorData.from_torch_sparse(rows, pad_value=pad)
    with pytest.raises(TypeError, match="pad_value"):
        TensorData.from_torch_sparse(rows).to_torch(pad_value=pad)


def test_sparse_floats_keep_their_dtype():
    """M8: what is stored of a sparse float tensor is float32."""
    rows = torch.zeros(2, 8)
    rows[1, 3] = 0.5
    tensor = TensorData.from_torch_sparse(rows)
    assert (tensor.is_sparse, tensor.dtype, tensor.data) == (True, "float32", [0.5])
    assert torch.equal(tensor.to_torch(), rows)
