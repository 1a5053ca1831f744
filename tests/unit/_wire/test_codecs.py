"""Both codecs: what goes out is what the server reads, what comes in is what users get."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tinker_api.errors import ParseError
from tinker_api.operations import OPTIM_STEP
from tinker_proto import tinker_pb2 as pb

from tinker_ext import Datum, ModelInput, SamplingParams, TensorData
from tinker_ext._wire import json_codec, payload, proto_codec, results
from tinker_ext._wire.json_codec import SampleOptions, sample_body
from tinker_ext._wire.payload import Body, seal_proto
from tinker_ext.clients.training import step_fields
from tinker_ext.errors import FeatureMissingError, InvalidInputError
from tinker_ext.types import (
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    PromptProvenanceSpan,
    SampledProvenanceSpan,
)

TOKENS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20)
FLOATS = hnp.arrays(np.float32, st.integers(1, 8), elements=st.floats(-1e3, 1e3, width=32))


def datum(tokens, weights=None):
    weights = np.ones(len(tokens), np.float32) if weights is None else weights
    return Datum(ModelInput.from_ints(tokens), {"target_tokens": tokens, "weights": weights})


def sampled(*arguments):
    return orjson.loads(sample_body(*arguments))


def stepped(params):
    return OPTIM_STEP.prepare(model_id="M", **step_fields(params)).body


def test_a_null_metric_of_a_step_is_nan():
    """M28: encoders write null for what is not finite; the step was taken all the same."""
    body = {"metrics": {"grad_norm:mean": None, "lr:mean": 0.5}}
    step = results.read_json(OPTIM_STEP, body)
    assert np.isnan(step.metrics.pop("grad_norm:mean"))
    assert step.metrics == {"lr:mean": 0.5}
    assert body["metrics"]["grad_norm:mean"] is None
    assert results.read_json(OPTIM_STEP, {"metrics": None}).metrics is None
    with pytest.raises(ParseError, match="number"):
        results.read_json(OPTIM_STEP, {"metrics": {"a": "1"}})


@given(TOKENS, st.integers(1, 2**31 - 1))
def test_both_wires_carry_the_same_batch(tokens, seq_id):
    """M27: tokens, tensors and seq_id survive both encodings."""
    batch = [datum(tokens)]
    config = {"clip": 0.5, "mode": "x"}
    body = orjson.loads(
        json_codec.encode_forward("M", batch, "ppo", config, forward_only=False).render(seq_id)
    )
    message = pb.ForwardBackwardRequest.FromString(
        proto_codec.encode_forward("M", batch, "ppo", config, forward_only=False).render(seq_id)
    )
    assert body["seq_id"] == message.seq_id == seq_id
    assert body["model_id"] == message.model_id == "M"
    inner = body["forward_backward_input"]
    assert inner["loss_fn"] == message.loss_fn == "ppo"
    assert inner["loss_fn_config"] == config
    assert dict(message.loss_fn_config) == {"clip": 0.5}
    assert message.loss_fn_config_v2["mode"].text == "x"
    (one,) = inner["data"]
    (two,) = message.data
    assert one["model_input"]["chunks"] == [{"tokens": tokens, "type": "encoded_text"}]
    assert np.frombuffer(two.model_input[0].encoded_text.tokens, "<i4").tolist() == tokens
    target = two.loss_fn_inputs["target_tokens"]
    assert one["loss_fn_inputs"]["target_tokens"]["data"] == tokens
    assert np.frombuffer(target.dense, "<i8").tolist() == tokens
    assert list(target.shape) == one["loss_fn_inputs"]["target_tokens"]["shape"] == [len(tokens)]


@given(st.integers(0, 2**31 - 1))
def test_a_sealed_message_is_one_message(seq_id):
    """M20: adding the number afterwards gives the same message as setting it."""
    head = pb.ForwardBackwardRequest(model_id="M").SerializeToString()
    parsed = pb.ForwardBackwardRequest.FromString(b"".join(seal_proto([head], seq_id)))
    assert parsed == pb.ForwardBackwardRequest(model_id="M", seq_id=seq_id)


def test_zstd_bodies_read_back():
    """M27: a compressed body is the same body."""
    import zstandard

    sent = proto_codec.encode_forward(
        "M", [datum([1, 2])], "cross_entropy", None, forward_only=True, zstd=True
    )
    raw = zstandard.ZstdDecompressor().decompress(sent.render(3))
    assert sent.content(3) == sent.render(3)
    message = pb.ForwardBackwardRequest.FromString(raw)
    assert message.forward_only
    assert message.seq_id == 3
    assert ("Content-Encoding", "zstd") in sent.headers


def test_every_kind_of_chunk():
    """M10: images, audio and pointers go where the wire can carry them."""
    chunks = [
        EncodedTextChunk(tokens=[1]),
        ImageChunk(data=b"\x89PNG", format="png", expected_tokens=3),
        DmelChunk(dmel=b"\x00\x01\x02"),
    ]
    whole = Datum(ModelInput(chunks=chunks), {"target_tokens": [1]})
    body = json_codec.model_input_json(whole.model_input)
    assert [c["type"] for c in body["chunks"]] == ["encoded_text", "image", "dmel"]
    assert body["chunks"][1] == {
        "data": "iVBORw==",
        "format": "png",
        "type": "image",
        "expected_tokens": 3,
    }
    sent = proto_codec.encode_forward("M", [whole], "x", None, forward_only=False)
    message = pb.ForwardBackwardRequest.FromString(sent.render(1))
    assert message.data[0].model_input[1].image.expected_tokens == 3
    assert message.data[0].model_input[2].dmel.dmel == b"\x00\x01\x02"
    pointer = ModelInput(chunks=[ImageAssetPointerChunk(location="gs://a", format="png")])
    assert json_codec.model_input_json(pointer)["chunks"][0]["location"] == "gs://a"
    with pytest.raises(FeatureMissingError):
        proto_codec.encode_forward("M", [Datum(pointer)], "x", None, forward_only=False)


def test_spans_and_sparse_tensors():
    """M8: provenance and CSR tensors travel as protobuf; JSON gets the dense form."""
    values = np.zeros((3, 20), np.int64)
    values[1, 7] = 5
    one = Datum(
        ModelInput.from_ints([1, 2, 3]),
        {"target_tokens": TensorData.compressed(values)},
        [PromptProvenanceSpan(sequence_id="a", length=3)],
        [SampledProvenanceSpan(sequence_id="b", offset=1, length=3)],
    )
    assert one.loss_fn_inputs["target_tokens"].is_sparse
    sent = proto_codec.encode_forward("M", [one], "x", None, forward_only=False)
    message = pb.ForwardBackwardRequest.FromString(sent.render(1)).data[0]
    assert message.model_input_spans[0].prompt_tokens.sequence_id == "a"
    assert message.loss_fn_input_spans[0].sampled_tokens.offset == 1
    assert message.loss_fn_inputs["target_tokens"].HasField("sparse_csr")
    body = orjson.loads(
        json_codec.encode_forward("M", [one], "x", None, forward_only=True).render(1)
    )
    dense = body["forward_input"]["data"][0]["loss_fn_inputs"]["target_tokens"]
    assert dense["shape"] == [3, 20]
    assert sum(dense["data"]) == 5


def test_a_sparse_float_tensor_keeps_its_dtype():
    """M8: what is stored of a sparse float32 tensor travels as float32, on both wires."""
    sparse = TensorData(
        data=[0.5, -2.25],
        dtype="float32",
        shape=[2, 4],
        sparse_crow_indices=[0, 1, 2],
        sparse_col_indices=[1, 3],
    )
    assert (sparse.dtype, sparse.data) == ("float32", [0.5, -2.25])
    one = Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [[1] * 4] * 2, "weights": sparse})
    sent = proto_codec.encode_forward("M", [one], "x", None, forward_only=False)
    weights = pb.ForwardBackwardRequest.FromString(sent.render(1)).data[0].loss_fn_inputs["weights"]
    assert weights.dtype == pb.DTYPE_FLOAT32
    assert np.frombuffer(weights.sparse_csr.values, "<f4").tolist() == [0.5, -2.25]
    assert proto_codec._full_tensor(weights) == sparse
    text = json_codec.encode_forward("M", [one], "x", None, forward_only=True).render(1)
    dense = orjson.loads(text)["forward_input"]["data"][0]["loss_fn_inputs"]["weights"]
    assert dense["dtype"] == "float32"
    assert dense["data"] == [0, 0.5, 0, 0, 0, 0, 0, -2.25]
    assert json_codec.decode_tensor(orjson.loads(json_codec.dumps(json_codec.tensor_json(sparse))))


def test_text_that_is_written_later_is_the_text_of_the_call():
    """M20: changing the batch after the call changes nothing of what is sent."""
    made = datum([1, 2, 3])
    now = json_codec.encode_forward("M", [made], "x", None, forward_only=False)
    later = json_codec.encode_forward("M", [made], "x", None, forward_only=False, later=True)
    made.loss_fn_inputs["weights"] = TensorData(data=[9.0], dtype="float32")
    made.model_input.chunks.clear()
    assert later.work == later.size > 0 == now.work
    assert later.render(7) == now.render(7) == bytes(later.content(7))
    assert later.head == now.head


@given(st.lists(st.binary(max_size=40)), st.integers(1, 64))
def test_blocks_of_a_body_are_the_body(pieces, block_bytes):
    """M20: a body read in blocks is the same every time, whatever its parts are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "BLOCK_BYTES", block_bytes)
        body = Body([memoryview(piece) if len(piece) % 2 else piece for piece in pieces])
        assert b"".join(body) == b"".join(body) == bytes(body) == b"".join(pieces)
        assert len(body) == len(bytes(body))


def test_a_large_batch_leaves_without_being_joined():
    """M20: what leaves in blocks is what is written as one piece."""
    batch = [datum(list(range(3000))) for _ in range(12)]
    sent = proto_codec.encode_forward("M", batch, "x", None, forward_only=False)
    content = sent.content(5)
    assert isinstance(content, Body)
    assert len(content) == len(sent.render(5))
    assert b"".join(content) == sent.render(5)
    assert max(map(len, content)) < 2 * payload.BLOCK_BYTES


def test_what_the_wire_cannot_carry_is_refused():
    """M7: NaN in JSON and token ids beyond int32 fail before sending."""
    bad = datum([1], np.array([np.inf], np.float32))
    with pytest.raises(InvalidInputError):
        json_codec.encode_forward("M", [bad], "x", None, forward_only=False)
    proto_codec.encode_forward("M", [bad], "x", None, forward_only=False)  # bit-exact here
    with pytest.raises(InvalidInputError):
        proto_codec.encode_forward("M", [datum([2**31])], "x", None, forward_only=False)


@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_results_of_both_wires_are_equal(rows):
    """M27: the same numbers come back from JSON and protobuf, as views or lists."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="a:b", metrics={"loss:sum": 1.5})
    record = message.loss_fn_outputs.add(num_datums=len(rows))
    batched = record.fields["logprobs"]
    batched.data = b"".join(row.tobytes() for row in rows)
    batched.offsets = np.cumsum([0] + [row.nbytes for row in rows]).astype("<i8").tobytes()
    batched.dtype = pb.DTYPE_FLOAT32
    from_proto = proto_codec.decode_forward(message.SerializeToString())
    from_json = json_codec.decode_forward(
        orjson.loads(
            orjson.dumps(
                {
                    "loss_fn_output_type": "b",
                    "loss_fn_outputs": [
                        {"logprobs": {"data": row, "dtype": "float32", "shape": [len(row)]}}
                        for row in rows
                    ],
                    "metrics": {"loss:sum": 1.5},
                },
                option=orjson.OPT_SERIALIZE_NUMPY,
            )
        )
    )
    assert from_proto == from_json


def forward_result(rows):
    message = pb.ForwardBackwardOutput(loss_fn_output_type="a:b", metrics={"loss:sum": 1.5})
    for name in ("logprobs", "other"):
        record = message.loss_fn_outputs.add(num_datums=len(rows))
        batched = record.fields[name]
        batched.data = b"".join(row.tobytes() for row in rows)
        batched.offsets = np.cumsum([0] + [row.nbytes for row in rows]).astype("<i8").tobytes()
        batched.dtype = pb.DTYPE_FLOAT32
    return message.SerializeToString()


@pytest.mark.parametrize("large", [0, 1 << 20])
def test_results_are_views_of_the_bytes_that_arrived(large, monkeypatch):
    """M27: the values of a large result are not copied, and those of a small one are the same."""
    monkeypatch.setattr(proto_codec, "_LARGE_BYTES", large)
    content = forward_result([np.arange(5, dtype=np.float32)] * 3)
    arrived = np.frombuffer(content, np.uint8)
    for output in proto_codec.decode_forward(content).loss_fn_outputs:
        (tensor,) = output.values()
        assert np.shares_memory(tensor.array, arrived) == (large == 0)
        assert not tensor.array.flags.writeable
        assert tensor.data == [0.0, 1.0, 2.0, 3.0, 4.0]
        back = Datum(ModelInput.from_ints([1] * 5), {"logprobs": tensor.array})
        assert back.loss_fn_inputs["logprobs"].array.flags.aligned


@given(st.lists(FLOATS, max_size=3), st.data())
def test_a_damaged_result_is_read_as_the_runtime_reads_it(rows, data):
    """M27: setting the values aside loses nothing, and takes nothing for a message that is not."""
    raw = bytearray(forward_result(rows))
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw)
    try:
        whole = pb.ForwardBackwardOutput.FromString(raw)
    except DecodeError:
        with pytest.raises(ValueError, match=r"."):
            proto_codec.decode_forward(raw)
        return
    aside = []
    try:
        light = proto_codec._set_aside(memoryview(raw), proto_codec._DATA, aside)
    except ValueError as error:
        if "wire type" in str(error):  # a group, which no server sends
            return
        raise
    again = pb.ForwardBackwardOutput.FromString(light)
    for record in again.loss_fn_outputs:
        for batched in record.fields.values():
            if batched.data:
                batched.data = bytes(aside[int.from_bytes(batched.data, "little")])
    # The runtime keeps what it does not know, such as an entry of a map with a field too many.
    for message in (again, whole):
        message.DiscardUnknownFields()
    assert again == whole or np.isnan(list(whole.metrics.values())).any()


def test_bfloat16_and_int32_are_widened():
    """M27: the dtypes only servers send are read into float32 and int64."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    record = message.loss_fn_outputs.add(num_datums=1)
    half = np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16
    for name, data, dtype in (
        ("b", half.astype("<u2").tobytes(), pb.DTYPE_BFLOAT16),
        ("i", np.array([7, -1], "<i4").tobytes(), pb.DTYPE_INT32),
    ):
        record.fields[name].data = data
        record.fields[name].offsets = np.array([0, len(data)], "<i8").tobytes()
        record.fields[name].dtype = dtype
    (output,) = proto_codec.decode_forward(message.SerializeToString()).loss_fn_outputs
    assert output["b"].tolist() == [1.5, -2.0]
    assert output["i"].tolist() == [7, -1]
    assert output["i"].dtype == "int64"


def test_rows_without_columns_are_read():
    """M27: a trailing shape of nothing is one."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    record = message.loss_fn_outputs.add(num_datums=1)
    record.fields["none"].offsets = np.array([0, 0], "<i8").tobytes()
    record.fields["none"].dtype = pb.DTYPE_FLOAT32
    record.fields["none"].trailing_shape.append(0)
    (output,) = proto_codec.decode_forward(message.SerializeToString()).loss_fn_outputs
    assert output["none"].tolist() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda b: setattr(b, "offsets", np.array([0, 400], "<i8").tobytes()),
        lambda b: setattr(b, "offsets", np.array([8, 0], "<i8").tobytes()),
        lambda b: setattr(b, "offsets", b"123"),
        lambda b: setattr(b, "dtype", pb.DTYPE_UNSPECIFIED),
        lambda b: b.trailing_shape.append(-1),
        lambda b: b.trailing_shape.append(3),
    ],
)
def test_lies_about_shape_are_found(change):
    """M27: offsets, dtypes and shapes that do not fit raise instead of giving wrong numbers."""
    message = pb.ForwardBackwardOutput(loss_fn_output_type="x")
    record = message.loss_fn_outputs.add(num_datums=1)
    batched = record.fields["logprobs"]
    batched.data = np.zeros(2, "<f4").tobytes()
    batched.offsets = np.array([0, 8], "<i8").tobytes()
    batched.dtype = pb.DTYPE_FLOAT32
    change(batched)
    with pytest.raises(ValueError, match=r"."):
        proto_codec.decode_forward(message.SerializeToString())


@pytest.mark.parametrize(
    "tensor",
    [
        {"data": ["1.5"], "dtype": "float32"},
        {"data": [1.5], "dtype": "int64"},
        {"data": [[1.0]], "dtype": "float32"},
        {"data": [1.0], "dtype": "float16"},
        {"data": [1.0, 2.0], "dtype": "float32", "shape": [3]},
        {"data": [1e300], "dtype": "float32"},
        {"data": [None, 1e300], "dtype": "float32"},
        {"data": 3, "dtype": "float32"},
        {"data": [2**70], "dtype": "int64"},
    ],
)
def test_lies_in_json_tensors_are_found(tensor):
    """M8: swapped types and wrong shapes never become numbers silently."""
    with pytest.raises((ValueError, OverflowError)):
        json_codec.decode_tensor(tensor)


@pytest.mark.parametrize("outputs", [{}, "", None, 0])
def test_outputs_of_another_kind_are_no_empty_list(outputs):
    """M13: nothing but a list says that there are no outputs."""
    with pytest.raises(ValueError, match="expected a list"):
        json_codec.decode_forward({"loss_fn_output_type": "t", "loss_fn_outputs": outputs})
    with pytest.raises(ValueError, match="expected a list"):
        json_codec.decode_sample({"sequences": outputs})


def test_a_sample_request_says_only_what_was_asked():
    """M4: fields of the second era are absent unless set; tags are always there."""
    prompt = ModelInput.from_ints([1])
    plain = sampled({"base_model": "m"}, None, prompt, 1, SamplingParams())
    assert set(plain) == {"num_samples", "prompt", "sampling_params", "base_model", "type"}
    assert plain["sampling_params"] == {"temperature": 1, "top_k": -1, "top_p": 1}
    full = sampled(
        {"sampling_session_id": "x"},
        0,
        prompt,
        1,
        SamplingParams(stop="a", max_tokens=1, seed=2),
        SampleOptions(prompt_logprobs=True, topk_prompt_logprobs=3),
    )
    assert full["seq_id"] == 0
    assert full["prompt_logprobs"] is True
    assert full["sampling_params"]["stop"] == ["a"]
    assert "prompt_alt_tokens_k" not in full


def test_adam_sends_new_keys_only_when_set():
    """M4 M14: weight_decay and grad_clip_norm stay away from servers that do not know them."""
    from tinker_ext import AdamParams, DimuonParams
    from tinker_ext.types.optimizer import OptimParamsBase

    plain = stepped(AdamParams())["adam_params"]
    assert plain == {"learning_rate": 1e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
    full = stepped(AdamParams(weight_decay=0.1, grad_clip_norm=1.0))
    assert full["adam_params"]["weight_decay"] == 0.1
    assert stepped(DimuonParams(learning_rate=0.1))["optimizer_params"] == {
        "type": "dimuon",
        "learning_rate": 0.1,
        "grad_clip_norm": 0.0,
        "beta1": 0.9,
    }
    other = stepped(OptimParamsBase(type="lion", rate=1))
    assert other["optimizer_params"] == {"type": "lion", "rate": 1}


@given(
    st.lists(TOKENS, min_size=1, max_size=3),
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)),
)
def test_a_plain_datum_is_what_the_generated_messages_write(chunks, values):
    """M27: bodies written around their arrays mean the same as generated messages."""
    from tinker_ext._wire import proto_codec

    one = Datum(
        ModelInput(chunks=[EncodedTextChunk(tokens=tokens) for tokens in chunks]),
        {
            "target_tokens": chunks[0],
            "weights": TensorData(data=values.reshape(-1), dtype="float32"),
            "advantages": TensorData.from_numpy(values.T),
            "": TensorData(data=[], dtype="float32"),
        },
    )
    parts = []
    size = proto_codec.write_datum(parts, one)
    joined = b"".join(parts)
    assert size == len(joined)
    assert proto_codec._write_plain([], one) is not None
    written = pb.ForwardBackwardRequest.FromString(joined)
    expected = pb.ForwardBackwardRequest()
    expected.data.append(pb.Datum.FromString(proto_codec._message(one)))
    assert written == expected
