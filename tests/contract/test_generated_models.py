"""The generated records: reading, remembering, writing, comparing, hiding."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
from typing import Any

import numpy as np
import pytest
import tinker_api
from contract.document import load_document
from rows import for_each
from tinker_api import models
from tinker_api.base import Model
from tinker_api.errors import ParseError
from tinker_api.models import (
    AdamParams,
    AuthTokenResponse,
    Checkpoint,
    CreateModelRequest,
    Datum,
    EncodedTextChunk,
    FinishSessionRequest,
    ForwardBackwardInput,
    ForwardBackwardOutput,
    ImageChunk,
    ModelInput,
    RequestFailedResponse,
    SampledSequence,
    SampleRequest,
    SamplingParams,
    SaveWeightsRequest,
    SetCheckpointTtlRequest,
    TensorData,
    TryAgainResponse,
    parse_model_input_chunk,
    parse_optimizer_config,
    parse_session_status,
)
from tinker_api.types import Unknown, dumps, loads

EXAMPLES = [
    (getattr(models, name), example)
    for name, schema in load_document()["components"]["schemas"].items()
    for example in schema.get("examples", [])
    if isinstance(getattr(models, name, None), type)
]
PROMPT = ModelInput(chunks=[EncodedTextChunk(tokens=[1])])


def same(left: Any, right: Any) -> bool:
    """Compare JSON values as text, so that 1 and 1.0 differ."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def test_examples_cover_most_schemas() -> None:
    """M1: the examples below are really there."""
    assert len(EXAMPLES) > 100


@for_each(EXAMPLES, lambda model, _: model.__name__)
def test_reading_and_writing_gives_the_same_json(model: type[Model], example: Any) -> None:
    """M4: what was absent stays absent, what was null stays null, what is new is kept."""
    assert same(model.from_dict(example).to_dict(), example)
    more = {**example, "brand_new": {"a": [1, None]}}
    assert model.from_dict(more).additional_properties["brand_new"] == {"a": [1, None]}
    assert same(model.from_dict(more).to_dict(), more)
    for item in model._layout().fields:
        if not item.required:
            nulled = {**example, item.key: None}
            assert same(model.from_dict(nulled).to_dict(), nulled)
            without = {key: value for key, value in example.items() if key != item.key}
            assert same(model.from_dict(without).to_dict(), without)


@for_each(EXAMPLES, lambda model, _: model.__name__)
def test_records_copy_compare_and_pickle(model: type[Model], example: Any) -> None:
    """M16: a record survives copies and processes with what it remembers."""
    record = model.from_dict(example)
    for twin in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert twin == record
        assert same(twin.to_dict(), example)


def test_absent_reads_as_the_documented_default() -> None:
    """M14: users never meet a sentinel."""
    params = AdamParams.from_dict({})
    assert (params.learning_rate, params.beta1, params.beta2, params.eps) == (
        1e-4,
        0.9,
        0.95,
        1e-12,
    )
    assert params.to_dict() == {}
    request = CreateModelRequest.from_dict(
        {"session_id": "s", "model_seq_id": 0, "base_model": "b"}
    )
    assert request.lora_config is None
    assert request.optimizer_config == parse_optimizer_config({"type": "adamw"})


def test_built_records_leave_out_what_was_not_given() -> None:
    """M4: required properties, tags and what is always sent; other defaults and None are not."""
    adam = {"learning_rate": 0.0001, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
    assert AdamParams().to_dict() == adam
    assert AdamParams(weight_decay=0.5).to_dict() == {**adam, "weight_decay": 0.5}
    assert AdamParams.from_dict({}).to_dict() == {}
    assert SaveWeightsRequest(model_id="m", ttl_seconds=None).to_dict() == {
        "model_id": "m",
        "type": "save_weights",
    }
    assert EncodedTextChunk(tokens=[1]).to_dict() == {"tokens": [1], "type": "encoded_text"}
    assert Datum(model_input=PROMPT, loss_fn_inputs={}).to_dict() == {
        "model_input": PROMPT.to_dict()
    }


@pytest.mark.parametrize("value", [None, True, False])
def test_prompt_logprobs_has_three_states(value: bool | None) -> None:
    """M4: absent, false and true are different requests."""
    body = SampleRequest(
        prompt=PROMPT, sampling_params=SamplingParams(), prompt_logprobs=value
    ).to_dict()
    assert body.get("prompt_logprobs") is value
    assert ("prompt_logprobs" in body) is (value is not None)


def test_null_is_sent_where_it_means_something() -> None:
    """M4: a null ttl removes the expiry; a null detail says there is none."""
    assert SetCheckpointTtlRequest(ttl_seconds=None).to_dict() == {"ttl_seconds": None}
    reason = models.ClientSessionFinishSuccess()
    assert FinishSessionRequest(reason=reason, detail=None).to_dict()["detail"] is None


def test_request_enums_are_closed() -> None:
    """M3: a typo fails at the call and the message lists what is known."""
    with pytest.raises(
        ValueError, match=r"loss_fn is 'ppoo'; use one of 'cross_entropy', .*'custom'"
    ):
        ForwardBackwardInput(data=[], loss_fn="ppoo")
    with pytest.raises(ValueError, match="dtype"):
        TensorData(data=[1], dtype="int32")
    assert models.LOSS_FN_TYPE_VALUES == (
        "cross_entropy",
        "importance_sampling",
        "ppo",
        "cispo",
        "dro",
        "gspo",
        "stable_reinforce",
        "custom",
    )


@pytest.mark.parametrize(
    ("model", "body", "name"),
    [
        (SampledSequence, {"stop_reason": "brand_new", "tokens": [1]}, "stop_reason"),
        (
            TryAgainResponse,
            {"type": "try_again", "request_id": "r", "queue_state": "new"},
            "queue_state",
        ),
        (RequestFailedResponse, {"error": "e", "category": "Quota"}, "category"),
    ],
)
def test_response_enums_are_open(model: type[Model], body: dict[str, Any], name: str) -> None:
    """M3: a new value survives the round trip as plain text."""
    record = model.from_dict(body)
    assert getattr(record, name) == body[name]
    assert record.to_dict() == body


def test_unions_follow_the_tag_then_the_keys() -> None:
    """M2: era 0.4.1 sends chunks without a tag; a new tag is kept as Unknown."""
    assert isinstance(parse_model_input_chunk({"tokens": [1]}), EncodedTextChunk)
    assert isinstance(parse_model_input_chunk({"data": "aGk=", "format": "png"}), ImageChunk)
    new = {"type": "audio", "tokens": [1]}
    assert parse_model_input_chunk(new) == Unknown(new)
    assert ModelInput.from_dict({"chunks": [new]}).to_dict() == {"chunks": [new]}
    with pytest.raises(ParseError, match="tokens"):
        parse_model_input_chunk({"type": "encoded_text"})
    other = {"type": "brand_new", "since": 3}
    assert parse_session_status(other) == Unknown(other)


def test_unknown_optimizers_pass_through() -> None:
    """M14: a family the document does not know keeps its settings."""
    raw = {"type": "muon", "momentum": 0.9}
    parsed = parse_optimizer_config(raw)
    assert parsed.to_dict() == raw


@pytest.mark.parametrize(
    ("model", "body", "where"),
    [
        (TensorData, {"data": "oops", "dtype": "int64"}, "data: expected an array, found str"),
        (TensorData, {"data": [1, "x"], "dtype": "int64"}, "data[1]: expected a number, found str"),
        (
            TensorData,
            {"data": [1, None], "dtype": "int64"},
            "data[1]: expected a number, found null",
        ),
        (TensorData, {"data": [True], "dtype": "int64"}, "data[0]: expected a number, found bool"),
        (TensorData, {"dtype": "int64"}, "TensorData needs the key 'data'"),
        (TensorData, {"data": [1], "dtype": 3}, "dtype: expected a string, found int"),
        (SamplingParams, {"max_tokens": 1.5}, "max_tokens: expected an integer, found float"),
        (
            EncodedTextChunk,
            {"tokens": [1], "type": "image"},
            "type: expected the tag 'encoded_text'",
        ),
        (ModelInput, {"chunks": {}}, "chunks: expected an array, found dict"),
        (ModelInput, [1], "expected an object for ModelInput, found list"),
        (
            ForwardBackwardOutput,
            {"loss_fn_output_type": "t", "loss_fn_outputs": [{"a": {"data": 1, "dtype": "int64"}}]},
            "loss_fn_outputs[0].a.data: expected an array, found int",
        ),
    ],
)
def test_wrong_types_are_typed_errors(model: type[Model], body: Any, where: str) -> None:
    """M2: the error says where; it never repeats the value."""
    with pytest.raises(ParseError) as caught:
        model.from_dict(body)
    assert str(caught.value) == where
    assert str(pickle.loads(pickle.dumps(caught.value))) == where


def test_numbers_stay_as_they_were_sent() -> None:
    """M4: 1 and 1.0 are the same number and different bytes."""
    for text in ('{"max_tokens":3.0}', '{"temperature":1}', '{"temperature":1.0}'):
        assert dumps(SamplingParams.from_dict(loads(text)).to_dict()).decode() == text


def test_times_are_datetimes_and_keep_their_text() -> None:
    """M35: users get datetimes; the text on the wire does not change."""
    example = next(example for model, example in EXAMPLES if model is Checkpoint)
    for text in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456+02:00"):
        record = Checkpoint.from_dict({**example, "time": text})
        assert record.time == datetime.datetime.fromisoformat(text)
        assert record.to_dict()["time"] == text
    with pytest.raises(ParseError, match="date-time"):
        Checkpoint.from_dict({**example, "time": "yesterday"})


def test_long_lists_are_not_copied() -> None:
    """M7: lists of numbers and arrays are passed by reference."""
    data = list(range(5000))
    assert TensorData.from_dict({"data": data, "dtype": "int64"}).data is data
    array: Any = np.arange(6, dtype=np.int64)
    assert np.shares_memory(TensorData(data=array, dtype="int64").to_dict()["data"], array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(4).reshape(2, 2),
        np.arange(8)[::2] // 2,
        np.arange(4, dtype=">i8"),
        np.asfortranarray(np.arange(4).reshape(2, 2).T).T,
    ],
)
def test_arrays_of_any_layout_become_flat_lists(array: Any) -> None:
    """M7: strided, two-dimensional and foreign-endian arrays are written flat."""
    body = loads(dumps(TensorData(data=array, dtype="int64").to_dict()))
    assert body["data"] == array.reshape(-1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": float("nan")}, "a is NaN"),
        ({"a": [1.0, float("inf")]}, r"a\[1\] is NaN"),
        ({"a": [1, float("nan")]}, r"a\[1\] is NaN"),
        ({"a": [None, float("nan")]}, r"a\[1\] is NaN"),
        ({"a": {"b": np.array([0, np.nan], dtype=np.float32)}}, "a.b is NaN"),
        ([(1.0, float("-inf"))], r"\[0\]\[1\] is NaN"),
    ],
)
def test_numbers_json_cannot_carry_are_refused(value: Any, where: str) -> None:
    """M7: orjson alone would silently write null."""
    with pytest.raises(ValueError, match=where):
        dumps(value)


def test_big_finite_numbers_are_not_refused() -> None:
    """M7: the one-pass check may overflow; the numbers are still fine."""
    assert loads(dumps([1e308, 1e308])) == [1e308, 1e308]


def test_secrets_are_not_shown() -> None:
    """M33: a token is readable as an attribute and in no repr."""
    record = AuthTokenResponse.from_dict({"jwt": "tml-very-secret"})
    assert record.jwt == "tml-very-secret"
    assert "secret" not in repr(record)


def test_depth_bombs_are_typed_errors() -> None:
    """M2: hostile nesting is refused, not a RecursionError."""
    with pytest.raises(ParseError):
        loads("[" * 100_000)
    with pytest.raises(ParseError):
        loads("[" * 100_000 + "NaN")


def test_everything_public_is_listed_and_lazy() -> None:
    """M39: importing the package imports no record, no httpx, no numpy."""
    for module in (tinker_api, models):
        assert set(module.__all__) <= set(dir(module))
        for name in module.__all__:
            assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="no_such_name"):
            module.no_such_name  # noqa: B018
