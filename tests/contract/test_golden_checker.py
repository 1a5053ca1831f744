"""The traffic checker itself: each of its complaints can be provoked."""

from __future__ import annotations

import base64

import pytest
from contract import golden

HEARTBEAT = {
    "version": "0.36.0",
    "method": "POST",
    "path": "/api/v1/session_heartbeat",
    "headers": [["Content-Type", "application/json"], ["X-Idempotency-Key", "k"]],
    "body": '{"session_id":"s","type":"session_heartbeat"}',
    "response_status": 200,
    "response_content_type": "application/json",
    "response_body": '{"type":"session_heartbeat"}',
}
PROTOBUF = [["content-type", "application/x-protobuf"]]
WRONG = {
    "no such operation": {"path": "/api/v1/heartbeat"},
    "is not marked for era": {"path": "/api/v1/forward"},
    "query parameter 'x' is not documented": {"path": "/api/v1/session_heartbeat?x=1"},
    "header parameter 'x-tinker-x' is not documented": {"headers": [["X-Tinker-X", "1"]]},
    "the body is missing": {"body": None},
    "request body of type 'text/plain'": {"headers": [["Content-Type", "text/plain"]]},
    "request does not fit the document": {"body": '{"session_id":1}'},
    "Additional properties": {"body": '{"session_id":"s","extra":1}'},
    "status 304 is not documented": {"response_status": 304},
    "reply of type 'text/csv'": {"response_content_type": "text/csv"},
    "the reply is not JSON": {"response_body": "{"},
    "reply does not fit the document": {"response_body": '{"type":"other"}'},
    "Error": {"path": "/api/v1/forward_backward", "headers": PROTOBUF, "body_b64": "/w=="},
    "differs from the recorder's own reading": {
        "path": "/api/v1/forward_backward",
        "headers": PROTOBUF,
        "body_b64": base64.b64encode(b"\n\x01m").decode(),
        "body_decoded": 'model_id: "n"',
    },
    "fields the .proto file does not know": {
        "path": "/api/v1/forward_backward",
        "headers": PROTOBUF,
        "body_b64": base64.b64encode(b"\xc2\x3e\x01m").decode(),
    },
}


def test_a_good_record_passes():
    """M1: the record that the others spoil is itself in order."""
    outcome = golden.check_records([HEARTBEAT])
    assert (outcome.failures, outcome.unknown) == ([], [])
    assert outcome.counts["JSON requests"] == outcome.counts["JSON replies"] == 1


@pytest.mark.parametrize("complaint", WRONG)
def test_wrong_records_are_found(complaint):
    """M1: each way a record can be wrong is reported."""
    failures = golden.check_records([HEARTBEAT | WRONG[complaint]]).failures
    assert any(complaint in failure for failure in failures), failures


def test_missing_required_query_parameter_is_found():
    """M35: billing needs both ends of its period."""
    reply = {"body": None, "method": "GET", "response_body": '{"data":[]}'}
    spoiled = HEARTBEAT | reply | {"path": "/api/v1/billing/usage/events?starting_on=yesterday"}
    failures = golden.check_records([spoiled]).failures
    assert any("'ending_before' is missing" in failure for failure in failures)
    assert any("starting_on" in failure and "date-time" in failure for failure in failures)


def test_only_cut_off_replies_are_passed_over():
    """M1: an unreadable reply is passed over only when the recorder cut it, and is counted."""
    text = '{"type":"' + "x" * golden.RECORDED_CHARACTERS
    cut = HEARTBEAT | {"response_body": text[: golden.RECORDED_CHARACTERS]}
    outcome = golden.check_records([cut])
    assert outcome.failures == []
    assert outcome.counts["replies cut off by the recorder"] == 1
    assert outcome.counts["JSON replies"] == 0


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (True, 1), (None, {}), ({"a": 1}, {"a": 1, "b": None}), ([1], [1, 1])],
)
def test_json_values_differ_by_type(left, right):
    """M4: an integer, a float and a boolean are different values; so are absent and null."""
    assert not golden.same_json(left, right)
    assert golden.same_json(left, left)
