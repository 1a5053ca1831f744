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


NEWER = {
    "number": b"\x68\xac\x02",
    "eight bytes": b"\x69" + b"\xff" * 8,
    "text": b"\x6a\x03abc",
    "four bytes": b"\x6d" + b"\xff" * 4,
}


@pytest.mark.parametrize("kind", NEWER)
@pytest.mark.parametrize("large", [0, 1 << 20])
def test_fields_of_a_newer_server_are_passed_over(monkeypatch, kind, large):
    """M15: of whatever kind, before and behind what is known, in results of any size."""
    monkeypatch.setattr(proto_codec, "_LARGE_BYTES", large)
    message = pb.ForwardBackwardOutput(loss_fn_output_type="a:b", metrics={"loss:sum": 1.5})
    batched = message.loss_fn_outputs.add(num_datums=1).fields["logprobs"]
    batched.data, batched.dtype = np.arange(3, dtype="<f4").tobytes(), pb.DTYPE_FLOAT32
    batched.offsets = np.array([0, 12], "<i8").tobytes()
    known = message.SerializeToString()
    for content in (NEWER[kind] + known, known + NEWER[kind], NEWER[kind] * 3 + known):
        output = proto_codec.decode_forward(content)
        assert output.metrics == {"loss:sum": 1.5}
        assert output.loss_fn_outputs[0]["logprobs"].data == [0.0, 1.0, 2.0]
    for content in (known + NEWER[kind][:-1], known + b"\x6b", known[:-1]):
        with pytest.raises(ValueError, match="not a"):
            proto_codec.decode_forward(content)
