"""What of a request's body a journal compares when the request is made again (M20)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import orjson
import pytest

from tinker_ext._wire.payload import Payload
from tinker_ext.journal import Journal, JournalError
from tinker_ext.journal.recorder import Recorder, as_recorded


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
