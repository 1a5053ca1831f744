"""Requests of a run under faults and over a crash: what is sent, written down, and sent again.

M20 F20: see `transcript.py`.
"""

from __future__ import annotations

import asyncio

import pytest
from in_process import adam, client, run
from stub_server import StubServer
from transcripts.transcript import check, transcript

from tinker_ext.clients import models
from tinker_ext.journal import Journal, JournalError
from tinker_ext.journal.recorder import Recorder

RULES = ("dedupe", "strict", "ignore", "late", "dedupe?", "ignore?")
CRASHES = {
    "before its results are there": ("fb2 opt sleep:1 close | fb2 opt save", {"r1 1": "held"}),
    "while an answer is missing": (
        "fb2 opt sleep:1 close | fb2 opt save",
        {"forward_backward 2": "held"},
    ),
    "after a refusal": ("fb2 opt wait close | fb2 opt", {"forward_backward 2": "refused"}),
    "after a lost answer": (
        "opt opt wait close | opt opt opt",
        {"optim_step 1-2": "lost", "forward 1-2": "lost"},
    ),
    "after a step that failed": ("load opt wait close | load opt", {"load_weights 1": "fails"}),
}


@pytest.mark.parametrize("name", CRASHES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore:load_state")
def test_a_run_that_goes_on(rule, name, tmp_path):
    """Every request, pause and word, and what the journal has of it, is as it is on file."""
    calls, plan = CRASHES[name]
    found = transcript(rule, calls, plan, journal=tmp_path / "j")
    check("journal", f"{rule}, {name}", found)


def test_a_body_that_is_written_anew_is_recorded_anew(tmp_path):
    """As above, where the server does not read the first one."""
    calls, plan = "fb2 sleep:1 close | fb2 opt", {"protobuf 1-9": "unread", "r2 1": "held"}
    flags = {"sample_use_retrieve_futures": False}
    found = transcript("dedupe", calls, plan, flags, wire="auto", journal=tmp_path / "j")
    check("journal", "another wire", found)


def test_parts_behind_a_lost_one_are_recorded_when_they_are_sent(tmp_path):
    """As above, where a whole call waits for the server to come back."""
    found = transcript(
        "dedupe",
        "fb3 wait sleep:9 opt wait",
        {"forward_backward 1-40": "lost"},
        journal=tmp_path / "j",
    )
    check("journal", "parts behind a lost one", found)


def test_every_process_numbers_what_it_makes_from_a_place_of_its_own(tmp_path):
    """M20: three processes go on with a run; none of them gives a number that another has given."""

    async def scenario():
        numbers = []
        for life in range(3):
            async with client(StubServer()) as service:
                workspace, journal = service._workspace, Journal(tmp_path / "j")
                if life == 0:
                    journal.note("model", session="S", model="M", number=0, seq=1, step=0)
                recorder = Recorder(workspace.server, journal)
                await workspace.submit(models._attach(workspace, recorder, journal.state.model))
                numbers += [workspace.session.next_sampling_session_seq_id() for _ in range(2)]
                assert workspace.session.session_id == "S"
                journal.close()
        return numbers

    numbers = run(scenario)
    assert len(set(numbers)) == 6
    assert sorted(numbers) == numbers


def test_nothing_leaves_after_a_request_that_could_not_be_written_down(tmp_path, monkeypatch):
    """M20: a full disk ends the queue; the journal could not tell a later process what happened."""

    async def scenario():
        stub = StubServer(config={"seq_ids": "dedupe"})
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            journal = Journal(tmp_path / "j")
            journal.note("model", session="S", model="M", number=0, seq=1, step=0)
            training.queue.recorder = Recorder(service._workspace.server, journal)
            await (await training.optim_step_async(adam()))
            leaving, refusals = journal.leaving, [JournalError("no space left")]

            def full(*arguments, **named):
                if refusals:
                    raise refusals.pop()
                return leaving(*arguments, **named)

            monkeypatch.setattr(journal, "leaving", full)
            futures = [await training.optim_step_async(adam()) for _ in range(3)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            journal.close()
            return ends, stub.counts["optim_step"]

    ends, sent = run(scenario)
    assert [type(end) for end in ends] == [JournalError] * 3
    assert sent == 1
