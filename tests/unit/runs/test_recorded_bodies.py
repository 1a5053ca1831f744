"""What of a request's body a journal compares when the request is made again (M20)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from tinker_api.operations import FORWARD_BACKWARD

from tinker_ext._wire import results
from tinker_ext._wire.payload import Payload
from tinker_ext.journal import Journal, JournalError
from tinker_ext.journal.recorder import Recorder, _small, as_recorded
from tinker_ext.types import ForwardBackwardOutput, TensorData


def recorded(operation, body, wire=None):
    written = orjson.dumps(body)
    payload = Payload(operation, [written], lambda parts, seq_id: parts, len(written), wire=wire)
    request = SimpleNamespace(call=object(), operation=operation, seq_id=7, payload=payload)
    record = as_recorded(request)
    assert (record["op"], record["seq"]) == (operation, 7)
    return record


def test_a_sampler_of_a_repeated_step_may_have_another_number_of_the_session():
    """M20: the session has gone on counting; everything else must be as it was."""
    body = {"path": "p", "model_id": "m", "seq_id": 3}
    first = recorded("save_weights_for_sampler", body | {"sampling_session_seq_id": 1})
    assert recorded("save_weights_for_sampler", body | {"sampling_session_seq_id": 2}) == first
    assert recorded("save_weights_for_sampler", body) == first
    assert recorded("save_weights_for_sampler", dict(reversed(body.items()))) == first
    other = recorded("save_weights_for_sampler", body | {"path": "q"})
    assert other["digest"] != first["digest"]


@pytest.mark.parametrize("operation", ["save_weights", "optim_step", "forward_backward"])
def test_other_bodies_are_compared_byte_by_byte(operation):
    """M20: a step that is not repeated as it was is refused; a save is known by its name."""
    first = recorded(operation, {"path": "p", "sampling_session_seq_id": 1})
    again = recorded(operation, {"path": "p", "sampling_session_seq_id": 2})
    assert first["digest"] != again["digest"]
    assert first["name"] == ("p" if operation == "save_weights" else None)
    assert first["wire"] is None


def test_a_journal_that_cannot_be_rewritten_stays_long_and_a_mistake_is_shown(tmp_path, caplog):
    """M20: a full disk is reported and the run goes on; an error of ours is not taken for one."""
    journal = Journal(tmp_path / "j")
    journal.plan({"base_model": "m", "rank": 4, "seed": 1})
    journal.note("model", session="s", model="s:train:0", number=0, seq=1, step=0)
    journal.long_bytes = 0
    raised = JournalError("the disk is full")

    def rewrite(record):
        raise raised

    journal.file.rewrite = rewrite
    journal.step_done(0, 3, {})
    assert "the disk is full" in caplog.text
    assert journal.state.next_step == 1
    raised = KeyError("ours")
    with pytest.raises(KeyError):
        journal.step_done(1, 5, {})
    journal.long_bytes = journal.file.size + 10_000
    journal.step_done(2, 7, {})  # not long: not rewritten
    journal.close()


@pytest.mark.parametrize("raised", [JournalError("the disk is full"), KeyError("ours")])
def test_a_refusal_that_cannot_be_recorded_is_told_and_a_mistake_is_shown(tmp_path, caplog, raised):
    """M20: of a full disk there is a line in the log; an error of ours is not taken for one."""
    journal = Journal(tmp_path / "j")
    journal.plan({"base_model": "m", "rank": 4, "seed": 1})
    recorder = Recorder(SimpleNamespace(), journal)
    recorder._new.add(7)
    journal.state.requests[7] = object()

    def note(*args, **fields):
        raise raised

    journal.note = note
    request = SimpleNamespace(seq_id=7)
    if isinstance(raised, JournalError):
        recorder.refused(request)
        assert "the disk is full" in caplog.text
    else:
        with pytest.raises(KeyError):
            recorder.refused(request)


@pytest.mark.parametrize("raised", [JournalError("the disk is full"), KeyError("ours")])
def test_what_happened_and_cannot_be_recorded_is_told(tmp_path, caplog, raised):
    """M20: the request has been sent; after a crash it is in doubt."""
    journal = Journal(tmp_path / "j")
    journal.plan({"base_model": "m", "rank": 4, "seed": 1})

    async def offload(size, fn):
        return fn()

    def note(*args, **fields):
        raise raised

    journal.note = note
    recorder = Recorder(SimpleNamespace(runtime=SimpleNamespace(offload=offload)), journal)
    if isinstance(raised, JournalError):
        asyncio.run(recorder._afterwards("got", seq=7))
        assert "the disk is full" in caplog.text
    else:
        with pytest.raises(KeyError):
            asyncio.run(recorder._afterwards("got", seq=7))
    journal.close()


@pytest.mark.parametrize(
    ("sizes", "kept"), [((4096,), True), ((4000, 96), True), ((4097,), False), ((4000, 97), False)]
)
def test_results_of_four_thousand_numbers_are_kept(tmp_path, sizes, kept):
    """M20: servers forget results after minutes; larger ones would make the journal long."""
    noted = []
    rows = [np.linspace(-1, 0, size, dtype=np.float32) for size in sizes]
    outputs = [{"logprobs": TensorData(data=row)} for row in rows]
    value = ForwardBackwardOutput("x", outputs, {"loss:sum": 2.0})

    async def offload(size, fn):
        return fn()

    async def wait():
        return value

    journal = SimpleNamespace(
        state=SimpleNamespace(requests={}), note=lambda kind, **fields: noted.append(fields)
    )
    recorder = Recorder(SimpleNamespace(runtime=SimpleNamespace(offload=offload)), journal)
    request = SimpleNamespace(seq_id=7)
    assert asyncio.run(recorder.result(request, FORWARD_BACKWARD, wait)) is value
    ((seq, recorded),) = [each.values() for each in noted]
    assert seq == 7
    assert (recorded is not None) is kept
    if kept:
        again = orjson.loads(orjson.dumps(recorded))
        assert results.read_json(FORWARD_BACKWARD, again) == value


def test_a_sparse_result_is_asked_for_again(tmp_path):
    """M20: its places are not in the journal."""
    sparse = TensorData(
        data=[0.5],
        dtype="float32",
        shape=[2, 2],
        sparse_crow_indices=[0, 1, 1],
        sparse_col_indices=[1],
    )
    assert _small(FORWARD_BACKWARD, ForwardBackwardOutput("x", [{"logprobs": sparse}])) is None
