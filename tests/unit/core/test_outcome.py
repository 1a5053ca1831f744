"""Every reply of retrieve_future as a table: what it means, and that nothing crashes the reader."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinker_api.operations import OPERATIONS

from tinker_ext._transport.messages import Reply
from tinker_ext.core import polling as outcome
from tinker_ext.errors import (
    APIResponseValidationError,
    APIStatusError,
    FutureExpiredError,
    NotFoundError,
    RequestFailedError,
    TinkerError,
)
from tinker_ext.types.enums import RequestErrorCategory

BY_RESULT = {op.result: op for op in OPERATIONS.values() if op.result}
JSON = {"content-type": "application/json"}
FORWARD = {"loss_fn_output_type": "t", "loss_fn_outputs": [], "metrics": {}}


def read(status, body, headers=JSON, kind="OptimStepResponse"):
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return outcome.parse(BY_RESULT[kind], Reply(status, headers, content), "r1")


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"type": "try_again", "request_id": "r1", "queue_state": "active"}, outcome.Pending),
        (408, {"queue_state": "paused_capacity", "queue_state_reason": "full"}, outcome.Pending),
        (408, b"", outcome.Pending),
        (408, b"<html>", outcome.Pending),
        (408, [1], outcome.Pending),
        (200, {"status": "complete_metadata", "response_payload_size": 5}, outcome.MetadataOnly),
        (200, {"error": "no", "category": "user"}, outcome.Failed),
        (200, {"error": None}, outcome.Failed),
        (200, {"metrics": None}, outcome.Ready),
        (200, {"metrics": {"a:sum": 1}}, outcome.Ready),
        (200, b"not json", outcome.Broken),
        (200, b"", outcome.Broken),
        (200, [], outcome.Broken),
        (400, {"detail": "rank too large"}, outcome.Broken),
        (400, {"error": "rank too large"}, outcome.Broken),
        (400, {"error": "rank too large", "category": "user"}, outcome.Failed),
        (400, b"", outcome.FromElsewhere),
        (403, {}, outcome.Failed),
        (404, {"detail": "Future not found"}, FutureExpiredError),
        (410, {}, FutureExpiredError),
        (422, {"detail": []}, outcome.Failed),
        (404, {"detail": "no checkpoint tinker://x"}, NotFoundError),
        (404, {"detail": "Failed to retrieve future: no checkpoint x"}, NotFoundError),
        (404, {"detail": "Failed to retrieve future: Future not found"}, FutureExpiredError),
        (404, {"detail": "Future with request ID 7 not found."}, FutureExpiredError),
        (404, b"<html>", outcome.FromElsewhere),
        (405, b"", outcome.FromElsewhere),
        (409, {"detail": "seq_id 3 was used"}, outcome.Failed),
        (200, {"status": "pending"}, outcome.Broken),
        (200, {"type": "brand_new"}, outcome.Broken),
        (200, FORWARD, outcome.Broken),
    ],
)
def test_each_reply_has_one_meaning(status, body, expected):
    """F2 F4 F5 M2 M22: status, content type, try_again, metadata, error, then the expected type."""
    answer = read(status, body)
    assert isinstance(answer.error if issubclass(expected, TinkerError) else answer, expected)


def test_details_are_kept():
    """M2: queue state, reason, size, message, category and id reach the caller."""
    pending = read(408, {"queue_state": "paused_capacity", "queue_state_reason": "full"})
    assert (pending.queue_state, pending.reason, pending.immediate) == (
        "paused_capacity",
        "full",
        False,
    )
    assert read(200, {"type": "try_again", "request_id": "r1", "queue_state": "x"}).immediate
    sized = read(200, {"status": "complete_metadata", "response_payload_size": 5})
    assert sized.size == 5
    for status in (200, 400):
        failed = read(status, {"error": "no", "category": "User"}).error
        assert isinstance(failed, RequestFailedError)
        assert (failed.message, failed.category, failed.request_id) == (
            "no",
            RequestErrorCategory.User,
            "r1",
        )
    unsorted = read(400, {"detail": "no"}).error
    assert (unsorted.message, unsorted.request_id, unsorted.in_doubt) == ("no", "r1", True)
    assert read(200, {"error": "x", "category": "new"}).error.category == "unknown"
    assert isinstance(read(410, {}).error, FutureExpiredError)
    assert isinstance(read(403, {}).error, APIStatusError)


def test_a_result_of_another_kind_is_not_misread():
    """M2: a body is never silently read as the wrong class."""
    wrong = read(200, {"metrics": {}}, kind="ForwardBackwardOutput")
    assert isinstance(wrong, outcome.Broken)
    assert isinstance(wrong.error, APIResponseValidationError)
    assert "ForwardBackwardOutput" in str(wrong.error)
    assert isinstance(read(200, FORWARD, kind="ForwardBackwardOutput"), outcome.Ready)
    proto = {"content-type": "application/x-protobuf"}
    assert isinstance(read(200, b"\x00", proto), outcome.Broken)
    assert isinstance(read(200, b"\xff\xff", proto, "SampleResponse"), outcome.Broken)
    assert isinstance(read(200, b"", proto, "SampleResponse"), outcome.Ready)


KINDS = ["OptimStepResponse", "ForwardBackwardOutput", "SampleResponse", "CreateModelResponse"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metrics", "loss_fn_outputs", "sequences", "data", "dtype", "shape", "type", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([200, 201, 400, 404, 408, 409, 410, 418]),
    VALUES,
    st.sampled_from(KINDS),
)
def test_no_reply_crashes_the_reader(status, body, kind):
    """M2: whatever JSON a server sends, the answer is an outcome and errors are ours."""
    try:
        content = orjson.dumps(body)
    except TypeError:  # integers beyond 64 bits cannot be written
        return
    answer = read(status, content, kind=kind)
    error = getattr(answer, "error", None)
    assert error is None or isinstance(error, TinkerError)


@given(st.binary(max_size=60), st.sampled_from(KINDS[1:3]))
def test_no_bytes_crash_the_protobuf_reader(content, kind):
    """M2 M27: arbitrary bytes labelled as protobuf are a result or a typed error."""
    answer = read(200, content, {"content-type": "application/x-protobuf"}, kind)
    assert isinstance(answer, (outcome.Ready, outcome.Broken))


def test_deep_nesting_is_refused():
    """M2: a body nested 100,000 deep is unreadable, not a crash."""
    assert isinstance(read(200, b"[" * 100_000), outcome.Broken)
