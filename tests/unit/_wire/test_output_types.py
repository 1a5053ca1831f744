"""The type of a forward result: what follows the last colon, and what stands for none."""

import pytest
from tinker_proto import tinker_pb2 as pb

from tinker_ext._wire import proto_codec


@pytest.mark.parametrize(
    ("sent", "outputs", "read"),
    [
        ("a:b", True, "b"),
        ("b", True, "b"),
        ("b", False, "b"),
        ("a:b:c", False, "c"),
        ("", True, ""),
        ("", False, "ArrayRecord"),
        ("a:", True, ""),
    ],
)
def test_the_type_of_a_result(sent, outputs, read):
    """M9: only a result without outputs and without a type is given the usual one."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type=sent)
    if outputs:
        batched = message.loss_fn_outputs.add(num_datums=1).fields["logprobs"]
        batched.data, batched.dtype = bytes(4), pb.DTYPE_FLOAT32
        batched.offsets = bytes(8) + (4).to_bytes(8, "little")
    decoded = proto_codec.decode_forward(message.SerializeToString())
    assert decoded.loss_fn_output_type == read
    assert bool(decoded.loss_fn_outputs) is outputs
