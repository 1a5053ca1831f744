"""Values of a result cannot be changed, whatever type they travelled in."""

from __future__ import annotations

import numpy as np
import pytest
from tinker_proto import tinker_pb2 as pb

from tinker_ext._wire import proto_codec


@pytest.mark.parametrize(
    ("dtype", "data", "values"),
    [
        (pb.DTYPE_FLOAT32, np.array([1.5, 2.0], "<f4"), [1.5, 2.0]),
        (pb.DTYPE_INT64, np.array([1, -2], "<i8"), [1, -2]),
        (pb.DTYPE_INT32, np.array([1, -2], "<i4"), [1, -2]),
        (pb.DTYPE_BFLOAT16, np.array([0x3F80, 0xC000], "<u2"), [1.0, -2.0]),
    ],
)
def test_no_value_of_a_result_can_be_changed(dtype, data, values):
    """M27: also where a narrow type was widened, so that the values are no view of the reply."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="a:b")
    record = message.loss_fn_outputs.add(num_datums=1)
    batched = record.fields["logprobs"]
    batched.data, batched.dtype = data.tobytes(), dtype
    batched.offsets = np.array([0, data.nbytes], "<i8").tobytes()
    (output,) = proto_codec.decode_forward(message.SerializeToString()).loss_fn_outputs
    array = output["logprobs"].array
    assert array.tolist() == values
    assert not array.flags.writeable
    assert array.base is None or not np.asarray(array).flags.writeable
