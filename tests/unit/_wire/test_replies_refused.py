"""Replies that contradict themselves, on either wire: refused with the numbers that do not fit.

M27: a table, a list or a count that is not as long as it says is never filled up or cut.
"""

from __future__ import annotations

import numpy as np
import pytest
from tinker_proto import tinker_pb2 as pb

from tinker_ext import Datum, EncodedTextChunk, ModelInput, TensorData
from tinker_ext._wire import json_codec, proto_codec
from tinker_ext._wire.results import check_ids
from tinker_ext.errors import InvalidInputError


def sampled(**more):
    return {"stop_reason": "stop", "tokens": [1, 2], **more}


JSON = [
    (sampled(logprobs=[-1.0]), "2 tokens with 1 logprobs"),
    (sampled(logprobs=[-1.0] * 3), "2 tokens with 3 logprobs"),
    (sampled(topk_logprobs=[[[1, -1.0]]]), "expected a list of 2 rows"),
    (sampled(topk_logprobs={"0": 1}), "expected a list of 2 rows"),
    (sampled(topk_sampled_logprobs=[None] * 3), "expected a list of 2 rows"),
    (sampled(stop_reason=None), "expected a string"),
    (sampled(sequence_id=7), "expected a string"),
]


@pytest.mark.parametrize(("sequence", "why"), JSON)
def test_sequences_in_json(sequence, why):
    """As many logprobs and rows as tokens."""
    with pytest.raises(ValueError, match=why):
        json_codec.decode_sample({"sequences": [sequence], "type": "sample"})


def test_rows_of_nothing_are_no_table():
    """What a server has nothing to say of is None, not a table of zeros."""
    for rows in ([None, None], [[], []], [], None):
        found = json_codec.decode_sample({"sequences": [sampled(topk_logprobs=rows)]})
        assert found.sequences[0].topk_logprobs_np is None
    found = json_codec.decode_sample({"sequences": [sampled(topk_logprobs=[None, [[7, -1.0]]])]})
    assert found.sequences[0].topk_logprobs_np.token_ids.tolist() == [[0], [7]]


def message(**sequence):
    fields = {"stop_reason": pb.STOP_REASON_STOP, "tokens": np.array([1, 2], "<i4").tobytes()}
    return pb.SampleResponse(sequences=[pb.SampledSequence(**{**fields, **sequence})])


def table(n, k, ids, values):
    return pb.TopkLogprobs(
        length=n,
        k=k,
        token_ids=np.arange(ids, dtype="<i4").tobytes(),
        logprobs=np.zeros(values, "<f4").tobytes(),
    )


PROTO = [
    (message(logprobs=np.zeros(1, "<f4").tobytes()), "2 tokens with 1 logprobs"),
    (message(tokens=b"12345"), "5 bytes are no whole number"),
    (message(stop_reason=99), "unknown stop reason 99"),
    (message(topk_sampled_logprobs=table(1, 2, 2, 2)), "1 rows of top-k logprobs for 2 tokens"),
    (message(topk_sampled_logprobs=table(2, 2, 3, 4)), "2 × 2 table with 3 ids and 4 logprobs"),
    (message(topk_sampled_logprobs=table(2, 2, 4, 3)), "2 × 2 table with 4 ids and 3 logprobs"),
]


@pytest.mark.parametrize(("reply", "why"), PROTO)
def test_sequences_in_protobuf(reply, why):
    """As above."""
    with pytest.raises(ValueError, match=why):
        proto_codec.decode_sample(reply.SerializeToString())


def test_an_empty_table_in_protobuf_is_not_one():
    """Nor is one without columns."""
    for n, k in ((0, 3), (2, 0)):
        reply = message(topk_sampled_logprobs=table(n, k, 0, 0))
        found = proto_codec.decode_sample(reply.SerializeToString())
        assert found.sequences[0].topk_logprobs_np is None


def outputs(count, **columns):
    made = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    record = made.loss_fn_outputs.add(num_datums=count)
    for name, lengths in columns.items():
        ends = np.cumsum([0, *lengths]) * 4
        record.fields[name].data = np.zeros(sum(lengths), "<f4").tobytes()
        record.fields[name].offsets = ends.astype("<i8").tobytes()
        record.fields[name].dtype = pb.DTYPE_FLOAT32
    return made.SerializeToString()


def test_outputs_have_a_tensor_for_every_datum():
    """M27: and a count without any is believed within reason."""
    found = proto_codec.decode_forward(outputs(2, a=[1, 2], b=[3, 4])).loss_fn_outputs
    assert [[len(each["a"].tolist()), len(each["b"].tolist())] for each in found] == [
        [1, 3],
        [2, 4],
    ]
    found = proto_codec.decode_forward(outputs(0, a=[1, 2])).loss_fn_outputs
    assert [len(each["a"].tolist()) for each in found] == [1, 2]
    assert proto_codec.decode_forward(outputs(3)).loss_fn_outputs == [{}, {}, {}]
    with pytest.raises(ValueError, match="a: 2 tensors for 3 datums"):
        proto_codec.decode_forward(outputs(3, a=[1, 2]))
    with pytest.raises(ValueError, match="b: 1 tensors for 2 datums"):
        proto_codec.decode_forward(outputs(2, a=[1, 2], b=[3]))
    with pytest.raises(ValueError, match="70000 datums without a tensor"):
        proto_codec.decode_forward(outputs(70_000))


@pytest.mark.parametrize("dtype", [0, 99])
def test_a_tensor_of_a_type_that_nobody_knows(dtype):
    """M27: its bytes are not guessed at, whether it has any or not."""
    made = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    field = made.loss_fn_outputs.add(num_datums=1).fields["a"]
    field.data, field.dtype = bytes(8), dtype
    field.offsets = np.array([0, 8], "<i8").tobytes()
    with pytest.raises(ValueError, match=f"unknown dtype {dtype}"):
        proto_codec.decode_forward(made.SerializeToString())


def test_a_column_without_offsets_has_no_tensors():
    """M27: so it fits no datum."""
    made = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    made.loss_fn_outputs.add(num_datums=1).fields["a"].dtype = pb.DTYPE_FLOAT32
    with pytest.raises(ValueError, match="a: 0 tensors for 1 datums"):
        proto_codec.decode_forward(made.SerializeToString())


def test_ids_that_are_empty():
    """M15: a reply with one names nothing that could be asked for."""

    class Reply:
        model_id = "m"

    assert check_ids(Reply).model_id == "m"
    Reply.model_id = ""
    with pytest.raises(ValueError, match="model_id is empty"):
        check_ids(Reply)


def test_what_users_build_is_an_argument_of_any_operation():
    """F47: prompts, chunks, datums and tensors, also inside of lists and dicts."""
    prompt = ModelInput.from_ints([1])
    chunk = EncodedTextChunk(tokens=[1])
    tensor = TensorData(data=[1.0], dtype="float32", shape=[1])
    datum = Datum(prompt, {"target_tokens": [2]})
    form = json_codec.json_form(
        {"a": [prompt, chunk], "b": {"c": tensor}, "d": datum, "e": (1, "x")}
    )
    assert form["a"] == [{"chunks": [form["a"][1]]}, {"type": "encoded_text", "tokens": [1]}]
    assert form["b"]["c"]["shape"] == [1]
    assert set(form["d"]) == {"model_input", "loss_fn_inputs"}
    assert list(form["e"]) == [1, "x"]
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        json_codec.dumps({"a": object()})
