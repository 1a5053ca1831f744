"""M2: what each awkward `retrieve_future` body is read as, and that none is read as a wrong class.

Every row is read twice: without an expectation (the class is certain, or it is `Unknown`), and as a
poller does it, with the class its operation yields. Order and rules: decision order of the union in
the document.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from contract import document as doc
from rows import for_each
from tinker_api import models
from tinker_api.base import Model
from tinker_api.errors import ParseError, UnexpectedBody
from tinker_api.models import (
    CreateCustomLossResponse,
    CreateModelResponse,
    ForwardBackwardOutput,
    FutureMetadataOnly,
    LoadWeightsResponse,
    OptimStepResponse,
    RequestFailedResponse,
    SampleResponse,
    SaveWeightsForSamplerResponseInternal,
    SaveWeightsResponse,
    TryAgainResponse,
    UnloadModelResponse,
    parse_future_retrieve_response,
)
from tinker_api.models.future_retrieve_response import member_of
from tinker_api.operations import OPERATIONS, RETRIEVE_FUTURE
from tinker_api.types import Unknown, dumps

from tinker_ext._wire import proto_codec

JSON = {"content-type": "application/json"}
PENDING = {"type": "try_again", "request_id": "r", "queue_state": "active"}
SEQUENCE = {"stop_reason": "stop", "tokens": [1, 2]}
FORWARD = {"loss_fn_output_type": "TensorData", "loss_fn_outputs": [], "metrics": {"loss:sum": 1}}

# body, class without expectation, expected class, class with expectation
ROWS: list[tuple[Any, Any, Any, Any]] = [
    # still pending
    (PENDING, TryAgainResponse, OptimStepResponse, TryAgainResponse),
    (
        {**PENDING, "queue_state": "paused_capacity"},
        TryAgainResponse,
        SampleResponse,
        TryAgainResponse,
    ),
    (
        {**PENDING, "queue_state": "brand_new"},
        TryAgainResponse,
        OptimStepResponse,
        TryAgainResponse,
    ),
    ({**PENDING, "queue_state_reason": "busy"}, TryAgainResponse, SampleResponse, TryAgainResponse),
    ({**PENDING, "queue_state_reason": None}, TryAgainResponse, SampleResponse, TryAgainResponse),
    ({**PENDING, "metrics": {"a": 1}}, TryAgainResponse, OptimStepResponse, TryAgainResponse),
    ({**PENDING, "path": "tinker://x"}, TryAgainResponse, SaveWeightsResponse, TryAgainResponse),
    ({**PENDING, "error": "odd"}, TryAgainResponse, OptimStepResponse, TryAgainResponse),
    (
        {**PENDING, "status": "complete_metadata"},
        TryAgainResponse,
        SampleResponse,
        TryAgainResponse,
    ),
    ({**PENDING, "eta": {"s": 3}}, TryAgainResponse, ForwardBackwardOutput, TryAgainResponse),
    # only the size
    (
        {"status": "complete_metadata", "response_payload_size": 7},
        FutureMetadataOnly,
        SampleResponse,
        FutureMetadataOnly,
    ),
    (
        {"status": "complete_metadata", "response_payload_size": 0, "error": "late"},
        FutureMetadataOnly,
        SampleResponse,
        FutureMetadataOnly,
    ),
    (
        {"status": "complete_metadata", "response_payload_size": 7, "metrics": {}},
        FutureMetadataOnly,
        OptimStepResponse,
        FutureMetadataOnly,
    ),
    # failed
    (
        {"error": "boom", "category": "server"},
        RequestFailedResponse,
        OptimStepResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "category": "quota"},
        RequestFailedResponse,
        LoadWeightsResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "category": "User"},
        RequestFailedResponse,
        LoadWeightsResponse,
        RequestFailedResponse,
    ),
    ({"error": "boom"}, RequestFailedResponse, LoadWeightsResponse, RequestFailedResponse),
    ({"error": None}, RequestFailedResponse, OptimStepResponse, RequestFailedResponse),
    ({"error": ""}, RequestFailedResponse, OptimStepResponse, RequestFailedResponse),
    (
        {"error": "boom", "category": None},
        RequestFailedResponse,
        OptimStepResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "path": "tinker://x"},
        RequestFailedResponse,
        SaveWeightsResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "metrics": {"a": 1}},
        RequestFailedResponse,
        OptimStepResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "type": "save_weights"},
        RequestFailedResponse,
        SaveWeightsResponse,
        RequestFailedResponse,
    ),
    (
        {"error": "boom", "type": "brand_new"},
        RequestFailedResponse,
        OptimStepResponse,
        RequestFailedResponse,
    ),
    ({"error": {"deep": 1}}, ParseError, OptimStepResponse, ParseError),
    # results with a tag
    (
        {"type": "create_model", "model_id": "m"},
        CreateModelResponse,
        CreateModelResponse,
        CreateModelResponse,
    ),
    (
        {"type": "unload_model", "model_id": "m"},
        UnloadModelResponse,
        UnloadModelResponse,
        UnloadModelResponse,
    ),
    (
        {"type": "save_weights", "path": "p"},
        SaveWeightsResponse,
        SaveWeightsResponse,
        SaveWeightsResponse,
    ),
    (
        {"type": "load_weights", "path": "p"},
        LoadWeightsResponse,
        LoadWeightsResponse,
        LoadWeightsResponse,
    ),
    ({"type": "load_weights"}, LoadWeightsResponse, LoadWeightsResponse, LoadWeightsResponse),
    (
        {"type": "save_weights_for_sampler", "path": None, "sampling_session_id": "s"},
        SaveWeightsForSamplerResponseInternal,
        SaveWeightsForSamplerResponseInternal,
        SaveWeightsForSamplerResponseInternal,
    ),
    ({"type": "sample", "sequences": [SEQUENCE]}, SampleResponse, SampleResponse, SampleResponse),
    # results that contradict the expectation: never read as the expected class
    ({"type": "save_weights", "path": "p"}, SaveWeightsResponse, LoadWeightsResponse, ParseError),
    (
        {"type": "create_model", "model_id": "m"},
        CreateModelResponse,
        UnloadModelResponse,
        ParseError,
    ),
    ({"type": "sample", "sequences": []}, SampleResponse, ForwardBackwardOutput, ParseError),
    ({"type": "save_weights", "path": "p"}, SaveWeightsResponse, OptimStepResponse, ParseError),
    ({"type": "load_weights"}, LoadWeightsResponse, ForwardBackwardOutput, ParseError),
    ({"sequences": [SEQUENCE]}, SampleResponse, OptimStepResponse, ParseError),
    ({"sequences": [SEQUENCE]}, SampleResponse, LoadWeightsResponse, ParseError),
    ({"type": "optim_step", "metrics": {}}, Unknown, OptimStepResponse, OptimStepResponse),
    # results without a tag that only one class describes
    ({"sequences": [SEQUENCE]}, SampleResponse, SampleResponse, SampleResponse),
    ({"sequences": []}, SampleResponse, SampleResponse, SampleResponse),
    ({"sequences": [], "brand_new": 1}, SampleResponse, SampleResponse, SampleResponse),
    (FORWARD, ForwardBackwardOutput, ForwardBackwardOutput, ForwardBackwardOutput),
    (
        {**FORWARD, "brand_new": 1},
        ForwardBackwardOutput,
        ForwardBackwardOutput,
        ForwardBackwardOutput,
    ),
    ({"metrics": {"step:mean": 1.5}}, OptimStepResponse, OptimStepResponse, OptimStepResponse),
    ({"metrics": None}, OptimStepResponse, OptimStepResponse, OptimStepResponse),
    # results that several classes describe, or none
    ({}, Unknown, OptimStepResponse, OptimStepResponse),
    ({}, Unknown, LoadWeightsResponse, LoadWeightsResponse),
    ({"path": "p"}, Unknown, SaveWeightsResponse, SaveWeightsResponse),
    ({"path": "p"}, Unknown, LoadWeightsResponse, LoadWeightsResponse),
    ({"path": "p", "type": None}, Unknown, LoadWeightsResponse, LoadWeightsResponse),
    ({"model_id": "m"}, Unknown, CreateModelResponse, CreateModelResponse),
    ({"model_id": "m"}, Unknown, UnloadModelResponse, UnloadModelResponse),
    ({"brand_new": 1}, Unknown, OptimStepResponse, ParseError),
    ({"metrics": {}, "brand_new": 1}, Unknown, OptimStepResponse, OptimStepResponse),
    ({"metrics": None, "type": None}, Unknown, OptimStepResponse, OptimStepResponse),
    # F2: states, tags and keys that are not those of a finished step
    ({"status": "pending"}, Unknown, OptimStepResponse, ParseError),
    ({"status": "pending"}, Unknown, LoadWeightsResponse, ParseError),
    ({"status": "pending", "metrics": {}}, Unknown, OptimStepResponse, ParseError),
    ({"status": "pending", "type": "optim_step"}, Unknown, OptimStepResponse, ParseError),
    (
        {"status": "pending", "type": "load_weights"},
        LoadWeightsResponse,
        LoadWeightsResponse,
        ParseError,
    ),
    (
        {"status": "pending", "type": "load_weights", "path": "p"},
        LoadWeightsResponse,
        LoadWeightsResponse,
        ParseError,
    ),
    (
        {"future_id": "3", "status": "pending", "request_id": "3"},
        Unknown,
        OptimStepResponse,
        ParseError,
    ),
    ({"type": "brand_new"}, Unknown, OptimStepResponse, ParseError),
    ({"type": 5, "metrics": {}}, Unknown, OptimStepResponse, ParseError),
    (FORWARD, ForwardBackwardOutput, OptimStepResponse, ParseError),
    (FORWARD, ForwardBackwardOutput, LoadWeightsResponse, ParseError),
    ({"model_id": "m", "base_model": "b"}, Unknown, OptimStepResponse, ParseError),
    ({"request_id": "r"}, Unknown, OptimStepResponse, ParseError),
    ({"request_id": "r", "queue_state": "active"}, Unknown, OptimStepResponse, ParseError),
    ({"detail": "not yet"}, Unknown, LoadWeightsResponse, ParseError),
    ({"path": "p"}, Unknown, OptimStepResponse, ParseError),
    ({}, Unknown, SaveWeightsForSamplerResponseInternal, ParseError),
    (
        {"path": None, "sampling_session_id": None, "type": "save_weights_for_sampler"},
        SaveWeightsForSamplerResponseInternal,
        SaveWeightsForSamplerResponseInternal,
        ParseError,
    ),
    ({}, Unknown, SaveWeightsResponse, ParseError),
    # what SkyRL adds to its results
    (
        {"model_id": "m", "status": "unloaded", "type": "unload_model"},
        UnloadModelResponse,
        UnloadModelResponse,
        UnloadModelResponse,
    ),
    (
        {"model_id": "m", "base_model": "b", "lora_config": {"rank": 8}},
        Unknown,
        CreateModelResponse,
        CreateModelResponse,
    ),
    (
        {**FORWARD, "type": "forward_backward"},
        Unknown,
        ForwardBackwardOutput,
        ForwardBackwardOutput,
    ),
    ({"metrics": {"a": 1}, "brand_new": 1}, Unknown, OptimStepResponse, OptimStepResponse),
    ({"type": "brand_new", "metrics": {"a": 1}}, Unknown, CreateCustomLossResponse, ParseError),
    ({"type": "brand_new", "path": "p"}, Unknown, SaveWeightsResponse, ParseError),
    ({"type": "brand_new", "sequences": []}, Unknown, SampleResponse, ParseError),
    (
        {"type": "TRY_AGAIN", "request_id": "r", "queue_state": "a"},
        Unknown,
        SampleResponse,
        ParseError,
    ),
    ({"status": "complete"}, Unknown, SampleResponse, ParseError),
    ({"queue_state": "active"}, Unknown, SampleResponse, ParseError),
    # values of the wrong type
    (
        {"type": "try_again", "request_id": 5, "queue_state": "active"},
        ParseError,
        SampleResponse,
        ParseError,
    ),
    ({"sequences": [{**SEQUENCE, "tokens": "oops"}]}, ParseError, SampleResponse, ParseError),
    ({"sequences": [{**SEQUENCE, "tokens": [1, "x"]}]}, ParseError, SampleResponse, ParseError),
    ({"sequences": {}}, ParseError, SampleResponse, ParseError),
    ({"sequences": None}, ParseError, SampleResponse, ParseError),
    ({"metrics": {"a": "b"}}, ParseError, OptimStepResponse, ParseError),
    ({"metrics": [1]}, ParseError, OptimStepResponse, ParseError),
    # not objects
    ([], Unknown, SampleResponse, ParseError),
    (None, Unknown, SampleResponse, ParseError),
    ("done", Unknown, SampleResponse, ParseError),
    (3, Unknown, OptimStepResponse, ParseError),
]


def test_the_table_is_long_enough() -> None:
    """M2: at least forty different awkward bodies."""
    assert len({dumps(body) for body, *_ in ROWS}) >= 40


@for_each(ROWS)
def test_body_is_never_read_as_a_wrong_class(
    body: Any, alone: type, expected: Any, with_expectation: type
) -> None:
    """M2: the class is the certain one, `Unknown`, or a typed error; nothing gets lost."""
    for wanted, read in (
        (alone, lambda: parse_future_retrieve_response(body)),
        (with_expectation, lambda: parse_future_retrieve_response(body, expected)),
    ):
        if wanted is ParseError:
            with pytest.raises(ParseError):
                read()
        else:
            parsed = read()
            assert type(parsed) is wanted
            assert dumps(parsed.to_dict()) == dumps(reorder(body, parsed.to_dict()))


@for_each(row[:2] for row in ROWS)
def test_the_call_reads_the_same(body: Any, alone: type) -> None:
    """M2: the generated call agrees with the reader, and its errors are typed too."""
    content = dumps(body)
    if alone is ParseError:
        with pytest.raises(UnexpectedBody):
            RETRIEVE_FUTURE.read(200, JSON, content)
    else:
        parsed = RETRIEVE_FUTURE.read(200, JSON, content)
        assert type(parsed) is alone


MEMBERS: list[type[Model]] = [
    getattr(models, name)
    for name in dict.fromkeys(
        ref["$ref"].rpartition("/")[2]
        for ref in doc.load_document()["components"]["schemas"]["FutureRetrieveResponse"]["anyOf"]
    )
]
WAITING = (TryAgainResponse, FutureMetadataOnly, RequestFailedResponse)
RESULTS = [member for member in MEMBERS if member not in WAITING]
# Without their tags some results look like others: the keys alone cannot tell them apart.
ALIKE = {
    ("CreateModelResponse", "UnloadModelResponse"),
    ("UnloadModelResponse", "CreateModelResponse"),
    ("LoadWeightsResponse", "CreateModelResponse"),
    ("LoadWeightsResponse", "UnloadModelResponse"),
    ("LoadWeightsResponse", "SaveWeightsResponse"),
    ("LoadWeightsResponse", "SaveWeightsExternalResponseInternal"),
    ("SaveWeightsResponse", "LoadWeightsResponse"),
    ("SaveWeightsResponse", "SaveWeightsExternalResponseInternal"),
    ("SaveWeightsForSamplerResponseInternal", "SaveWeightsResponse"),
    ("SaveWeightsForSamplerResponseInternal", "LoadWeightsResponse"),
    ("SaveWeightsForSamplerResponseInternal", "SaveWeightsExternalResponseInternal"),
    ("SaveWeightsExternalResponseInternal", "SaveWeightsResponse"),
    ("SaveWeightsExternalResponseInternal", "LoadWeightsResponse"),
}


def examples(member: type[Model]) -> list[dict[str, Any]]:
    """Return the examples that the document gives for a member."""
    found = doc.load_document()["components"]["schemas"][member.__name__]["examples"]
    return [dict(example) for example in found]


def verdict(body: Any, expected: type[Model]) -> str:
    """Return what a body is taken for; the decision, the reader and the table agree."""
    row = next(row for row in OPERATIONS.values() if row.result == expected.__name__)
    found = []
    for read in (
        lambda: member_of(body, expected),
        lambda: member_of(body, expected.__name__),
        lambda: row.member_of(body),
        lambda: type(parse_future_retrieve_response(body, expected)).__name__,
        lambda: type(row.parse_result(dumps(body))).__name__,
    ):
        try:
            found.append(read())
        except ParseError as error:
            found.append(str(error))
    assert len(set(found)) == 1, found
    refused = found[0].startswith(f"expected {expected.__name__}, found")
    return "refused" if refused else found[0]


@for_each(itertools.product(RESULTS, MEMBERS))
def test_only_the_awaited_member_is_taken(expected: type[Model], member: type[Model]) -> None:
    """F2, M2: every member against every example of every other one."""
    for body in examples(member):
        right = member in (expected, *WAITING)
        assert verdict(body, expected) == (member.__name__ if right else "refused"), body
        if member in WAITING:
            continue
        bare = {key: value for key, value in body.items() if key != "type"}
        alike = right or (expected.__name__, member.__name__) in ALIKE
        assert verdict(bare, expected) == (expected.__name__ if alike else "refused"), bare


@for_each(RESULTS)
def test_an_unknown_tag_or_state_is_never_a_result(expected: type[Model]) -> None:
    """F2, M2: also on an object that otherwise is the awaited member."""
    for body in ({}, *examples(expected)):
        bare = {key: value for key, value in body.items() if key != "type"}
        assert verdict({**body, "type": "brand_new"}, expected) == "refused"
        for state in ("pending", "queued", "complete", "COMPLETE_METADATA", 5):
            assert verdict({**bare, "status": state}, expected) == "refused"


@for_each(RESULTS)
def test_more_keys_than_documented_do_no_harm(expected: type[Model]) -> None:
    """M2, M28: a newer server may tell more; a null tag or state tells nothing."""
    for body in examples(expected):
        more = {**body, "brand_new": {"a": 1}, "eta": None, "status": None}
        assert verdict(more, expected) == expected.__name__
        assert verdict({**body, "type": None}, expected) == expected.__name__


def test_an_empty_object_is_a_step_or_a_load_only() -> None:
    """M2: servers answer so when they have nothing to tell."""
    taken = [member for member in RESULTS if verdict({}, member) == member.__name__]
    assert taken == [LoadWeightsResponse, OptimStepResponse]


def test_a_protobuf_result_of_another_operation_is_refused() -> None:
    """F2, M2: the messages of both results share field numbers; neither is read as the other."""
    from tinker_proto import tinker_pb2

    sample = tinker_pb2.SampleResponse()
    for reason in (0, 1):
        sample.sequences.add(tokens=b"\x01\0\0\0\x41\0\0\0", stop_reason=reason)
    forward = tinker_pb2.ForwardBackwardOutput(loss_fn_output_type="x:ArrayRecord")
    forward.metrics["loss:sum"] = 1.0
    with pytest.raises(ValueError, match="not a ForwardBackwardOutput"):
        proto_codec.decode_forward(sample.SerializeToString())
    with pytest.raises(ValueError, match="not a SampleResponse"):
        proto_codec.decode_sample(forward.SerializeToString())
    assert proto_codec.decode_forward(forward.SerializeToString()).metrics == {"loss:sum": 1.0}


def reorder(body: Any, like: Any) -> Any:
    """Return the body with the key order of another object, so that bytes can be compared."""
    if not isinstance(body, dict):
        return body
    assert set(body) == set(like)
    return {key: body[key] for key in like}
