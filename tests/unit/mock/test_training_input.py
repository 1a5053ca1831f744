"""M8, M9: training data from JSON and protobuf becomes the same arrays; nonsense is named."""

import numpy as np
import pytest
from tinker_proto import tinker_pb2 as pb

from tinker_ext.mock.training_input import BadInput, from_json, from_proto


def tensor(**fields):
    """A ForwardBackwardInput with one tensor called x."""
    item = {"model_input": {"chunks": [{"tokens": [1]}]}, "loss_fn_inputs": {"x": fields}}
    return {"data": [item], "loss_fn": "cross_entropy"}


def read(**fields):
    return from_json(tensor(**fields), forward_only=False).examples[0].inputs["x"]


def test_shapes():
    """M8: no shape is one dimension; a shape reshapes."""
    assert read(data=[1, 2, 3, 4], dtype="int64").shape == (4,)
    array = read(data=[1, 2, 3, 4], dtype="float32", shape=[2, 2])
    assert (array.shape, array.dtype) == ((2, 2), np.float32)
    with pytest.raises(BadInput, match=r"data\[0\].loss_fn_inputs.x: 4 values"):
        read(data=[1, 2, 3, 4], dtype="int64", shape=[3])


def test_sparse():
    """M8: CSR becomes dense; broken indices are named."""
    sparse = {
        "data": [5.0, 6.0],
        "dtype": "float32",
        "shape": [2, 3],
        "sparse_crow_indices": [0, 1, 2],
        "sparse_col_indices": [2, 0],
    }
    assert read(**sparse).tolist() == [[0, 0, 5], [6, 0, 0]]
    for change in (
        {"sparse_crow_indices": [0, 2, 1]},
        {"sparse_col_indices": [3, 0]},
        {"shape": [3, 3]},
    ):
        with pytest.raises(BadInput, match="x:"):
            read(**{**sparse, **change})


def test_media_become_stand_in_tokens():
    """M10: a picture takes as many tokens as it declares, in both eras' words."""
    for extra in ({"expected_tokens": 3}, {"tokens": 3, "height": 1, "width": 1}):
        chunks = [{"tokens": [1, 2]}, {"data": "iVBORw==", "format": "png", **extra}]
        item = {"model_input": {"chunks": chunks}, "loss_fn_inputs": {}}
        batch = from_json({"data": [item], "loss_fn": "ppo"}, forward_only=True)
        assert len(batch.examples[0].tokens) == 5
        assert batch.token_count == 5


def test_protobuf_reads_like_json():
    """M27: every field of the message, numbers and texts of the loss config included."""
    message = pb.ForwardBackwardRequest(model_id="m", seq_id=7, loss_fn="ppo")
    message.loss_fn_config["clip"] = 0.2
    message.loss_fn_config_v2["clip"].number = 0.3
    message.loss_fn_config_v2["mode"].text = "x"
    item = message.data.add()
    item.model_input.add().encoded_text.tokens = np.array([1, 2], "<i4").tobytes()
    item.model_input.add().image.expected_tokens = 2
    sparse = item.loss_fn_inputs["x"]
    sparse.dtype = pb.DTYPE_INT64
    sparse.shape.extend([1, 2])
    sparse.sparse_csr.values = np.array([9], "<i8").tobytes()
    sparse.sparse_csr.crow_indices = np.array([0, 1], "<i8").tobytes()
    sparse.sparse_csr.col_indices = np.array([1], "<i8").tobytes()
    model_id, seq, batch = from_proto(message.SerializeToString())
    assert (model_id, seq, batch.loss_fn) == ("m", 7, "ppo")
    assert batch.config == {"clip": 0.3, "mode": "x"}
    assert len(batch.examples[0].tokens) == 4
    assert batch.examples[0].inputs["x"].tolist() == [[0, 9]]


@pytest.mark.parametrize("body", [b"\xff\xff", b"\x0a\x05ab"])
def test_noise_is_no_message(body):
    """M27: bytes that are no message are refused as such."""
    with pytest.raises(BadInput, match="not a ForwardBackwardRequest"):
        from_proto(body)


def test_half_a_number_is_named():
    """M27: a tensor whose bytes are no whole number of values says so."""
    message = pb.ForwardBackwardRequest()
    tensor_ = message.data.add().loss_fn_inputs["weights"]
    tensor_.dense, tensor_.dtype = b"abc", pb.DTYPE_FLOAT32
    with pytest.raises(BadInput, match=r"data\[0\].loss_fn_inputs.weights: 3 bytes"):
        from_proto(message.SerializeToString())
