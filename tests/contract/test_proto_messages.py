"""The .proto file has the messages, field numbers and types of the binary wire, and no others."""

from __future__ import annotations

import re

import pytest
from contract import document as doc
from google.protobuf import descriptor_pb2
from tinker_proto import tinker_pb2

# message: fields as "number name type"; "oneof:" goes before the members of a choice
MESSAGES = {
    "ForwardBackwardRequest": "1 model_id string; 2 seq_id int32; 3 data repeated Datum; "
    "4 loss_fn string; 5 loss_fn_config map<string,double>; 6 forward_only bool; "
    "7 loss_fn_config_v2 map<string,LossConfigValue>",
    "LossConfigValue": "oneof value: 1 number double; oneof value: 2 text string",
    "Datum": "1 model_input repeated Chunk; 2 loss_fn_inputs map<string,Tensor>; "
    "3 model_input_spans repeated ProvenanceSpan; 4 loss_fn_input_spans repeated ProvenanceSpan",
    "Chunk": "oneof chunk: 1 encoded_text EncodedTextChunk; oneof chunk: 2 image ImageChunk; "
    "oneof chunk: 3 dmel DmelChunk",
    "EncodedTextChunk": "1 tokens bytes",
    "ImageChunk": "1 data bytes; 2 format string; 3 expected_tokens optional int32; "
    "4 override_dimensions optional ImageDimensions",
    "ImageDimensions": "1 width uint32; 2 height uint32",
    "DmelChunk": "1 dmel bytes",
    "Tensor": "oneof encoding: 1 dense bytes; oneof encoding: 2 sparse_csr SparseCsr; "
    "3 dtype DType; 4 shape repeated int64",
    "SparseCsr": "1 values bytes; 2 crow_indices bytes; 3 col_indices bytes",
    "ProvenanceSpan": "oneof span: 1 prompt_tokens PromptProvenanceSpan; "
    "oneof span: 2 sampled_tokens SampledProvenanceSpan",
    "PromptProvenanceSpan": "1 sequence_id string; 2 offset int64; 3 length int64",
    "SampledProvenanceSpan": "1 sequence_id string; 2 offset int64; 3 length int64",
    "ForwardBackwardOutput": "1 loss_fn_output_type string; "
    "2 loss_fn_outputs repeated ArrayRecord; 3 metrics map<string,double>",
    "ArrayRecord": "1 type_tag string; 2 fields map<string,BatchedTensor>; 3 num_datums int64",
    "BatchedTensor": "1 data bytes; 2 offsets bytes; 3 dtype DType; "
    "4 trailing_shape repeated int64",
    "SampleResponse": "1 sequences repeated SampledSequence; 2 prompt_logprobs optional bytes; "
    "3 topk_prompt_logprobs optional TopkLogprobs; 4 prompt_cache_hit_tokens int32; "
    "5 target_prompt_logprobs optional Tensor; 6 prompt_alt_tokens optional PromptAltTokens",
    "SampledSequence": "1 stop_reason StopReason; 2 tokens bytes; 3 logprobs optional bytes; "
    "4 topk_sampled_logprobs optional TopkLogprobs",
    "TopkLogprobs": "1 token_ids bytes; 2 logprobs bytes; 3 k uint32; 4 length uint32",
    "PromptAltTokens": "1 tokens Tensor; 2 logprobs Tensor",
    "SamplingParams": "1 max_tokens optional int32; 2 seed optional uint64; "
    "3 temperature optional float; 4 top_k optional int32; 5 top_p optional float; "
    "oneof stop: 6 stop_strs StopStrings; oneof stop: 7 stop_tokens StopTokens",
    "StopStrings": "1 values repeated string",
    "StopTokens": "1 values repeated int32",
}
ENUMS = {
    "DType": ["DTYPE_UNSPECIFIED", "DTYPE_FLOAT32", "DTYPE_INT64", "DTYPE_INT32", "DTYPE_BFLOAT16"],
    "StopReason": ["STOP_REASON_STOP", "STOP_REASON_LENGTH"],
}
TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string"}
TYPES |= {12: "bytes", 13: "uint32"}
FILE = tinker_pb2.DESCRIPTOR


def kind(field):
    if field.message_type is not None:
        return field.message_type.name
    return field.enum_type.name if field.enum_type is not None else TYPES[field.type]


def describe(message):
    copy = descriptor_pb2.DescriptorProto()
    message.CopyToProto(copy)
    many = {field.name for field in copy.field if field.label == field.LABEL_REPEATED}
    lines = []
    for field in message.fields:
        choice = field.containing_oneof
        optional = choice is not None and choice.name == f"_{field.name}"
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            text = f"map<{kind(key)},{kind(value)}>"
        else:
            repeated = "repeated " if field.name in many else "optional " if optional else ""
            text = repeated + kind(field)
        prefix = f"oneof {choice.name}: " if choice is not None and not optional else ""
        lines.append(f"{prefix}{field.number} {field.name} {text}")
    return "; ".join(lines)


def test_package_and_messages():
    """M27: the package and its messages are those of W§2.4."""
    assert FILE.package == "tinker_public"
    assert set(FILE.message_types_by_name) == set(MESSAGES)


@pytest.mark.parametrize("name", MESSAGES)
def test_fields(name):
    """M27: every field has the number and type of W§2.4."""
    assert describe(FILE.message_types_by_name[name]) == MESSAGES[name]


def test_enums():
    """M27: enumerations count from zero in the order of W§2.4."""
    found = {
        name: [value.name for value in enum.values]
        for name, enum in FILE.enum_types_by_name.items()
    }
    assert found == ENUMS
    for enum in FILE.enum_types_by_name.values():
        assert [value.number for value in enum.values] == list(range(len(enum.values)))


def test_compiled_messages_are_those_of_the_source():
    """M5: the compiled module was made from the .proto file that is in the repository."""
    source = (doc.REPOSITORY / "openapi" / "tinker.proto").read_text(encoding="utf-8")
    assert set(re.findall(r"^message (\w+)", source, re.M)) == set(MESSAGES)
    assert set(re.findall(r"^enum (\w+)", source, re.M)) == set(ENUMS)
    for message in FILE.message_types_by_name.values():
        for field in message.fields:
            assert re.search(rf"\b{field.name} = {field.number};", source), field.full_name
