"""Traffic recorded from both official SDKs fits the document and survives the generated code."""

from __future__ import annotations

import pytest
from contract import document as doc
from contract import golden

DATA = doc.REPOSITORY / "tests" / "data" / "golden"
RECORDINGS = sorted(DATA.glob("wire-*.jsonl"))
RECORDED = {
    "wire-0.36.0-cli": 108,
    "wire-0.36.0-main": 95,
    "wire-0.4.1-cli": 22,
    "wire-0.4.1-main": 61,
}


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda path: path.stem)
def outcome(request):
    found = golden.check_file(request.param)
    assert found.counts["records"] == RECORDED[request.param.stem]
    return found


def test_recorded_traffic_fits(outcome):
    """M1, M2, M27: every recorded body validates, parses and serialises to an equal value."""
    assert outcome.failures == []


def test_nothing_recorded_is_unknown(outcome):
    """M2: the generated endpoint recognises every recorded reply."""
    assert outcome.unknown == []


def test_no_recorded_reply_is_left_out(outcome):
    """M1: replies the recorder cut off are the only ones not checked, and there are none."""
    assert outcome.counts["replies cut off by the recorder"] == 0
    assert outcome.counts["requests without a reply"] == 0


def test_every_recording_is_there():
    """M29: both eras, library and command line."""
    assert {path.stem for path in RECORDINGS} == set(RECORDED)
