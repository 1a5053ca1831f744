"""What a journal amounts to: where a run stands, what is in doubt, what it can go back to."""

from __future__ import annotations

import contextlib

import pytest

from tinker_ext.journal import Journal, JournalError

MODEL = "s:train:0"
PLAN = {"base_model": "m", "rank": 4, "seed": 1}


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.plan(PLAN)
    journal.note("model", session="s", model=MODEL, number=0, seq=1, step=0, url="http://x")
    yield journal
    journal.close()


def do(journal, seq, operation, value=None, name=None):
    journal.leaving(operation, seq, f"d{seq}", name=name, wire="json")
    journal.note("take", seq=seq, request_id=f"r{seq}")
    journal.note("done", seq=seq, value=value)


def save(journal, seq, name):
    do(journal, seq, "save_weights", {"path": f"tinker://{MODEL}/weights/{name}"}, name)


def reopened(journal):
    journal.close()
    return Journal(journal.file.path)


def test_a_new_journal_is_at_its_beginning(tmp_path):
    """M20: nobody has worked on it, and the first request of a model gets number 1."""
    with contextlib.closing(Journal(tmp_path / "new")) as fresh:
        state = fresh.state
    assert (state.attached, state.next_step, state.next_seq_id) == (0, 0, 1)
    assert (state.model, state.plan, state.ended, state.gradients) == (None, None, None, False)


def test_doubt_ends_with_the_answer(journal):
    """M20: a request is in doubt from before it leaves until its answer was seen."""
    journal.leaving("optim_step", 1, "d")
    assert reopened(journal).state.in_doubt == [1]


def test_an_accepted_request_is_known_after_a_crash(journal):
    """M20: the same request again gets the id of the first; another body is refused."""
    do(journal, 1, "forward_backward")
    again = reopened(journal)
    assert again.leaving("forward_backward", 1, "d1", wire="json") == "r1"
    with pytest.raises(JournalError, match="with other data"):
        again.leaving("forward_backward", 1, "other", wire="json")
    with pytest.raises(JournalError, match="is optim_step now"):
        again.leaving("optim_step", 1, "d1", wire="json")
    again.close()


def test_a_refused_request_frees_its_number(journal):
    """M20: what the server refused is not in doubt, and its number takes another body."""
    journal.leaving("optim_step", 1, "d")
    journal.note("void", seq=1)
    assert journal.state.in_doubt == []
    assert journal.leaving("forward", 1, "e") is None


def test_a_step_moves_the_cursor(journal):
    """M20: after a complete step the run goes on with the next, with the notes of then."""
    do(journal, 1, "forward_backward")
    do(journal, 2, "optim_step", {})
    journal.step_done(0, 3, {"cursor": 1})
    state = reopened(journal).state
    assert (state.next_step, state.next_seq_id, state.notes, state.requests) == (
        1,
        3,
        {"cursor": 1},
        {},
    )


def steps(journal, *rows):
    """Steps given as lists of operations; returns where the run could go back to."""
    seq = 0
    for step, row in enumerate(rows):
        for operation in row.split():
            seq += 1
            kind, _, name = operation.partition("=")
            if kind == "save":
                save(journal, seq, name)
            else:
                do(journal, seq, {"fb": "forward_backward", "opt": "optim_step"}.get(kind, kind))
        journal.step_done(step, seq + 1, {})
    again = reopened(journal)
    again.close()
    return [(c.path.rsplit("/", 1)[1], c.next_step) for c in again.state.checkpoints]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (["fb opt save=a"], [("a", 1)]),
        (["fb opt save=a", "fb opt", "fb opt save=b"], [("a", 1), ("b", 3)]),
        (["save=a fb opt"], []),
        (["fb save=a", "opt"], []),
        (["fb", "opt save=a"], [("a", 2)]),
        (["fb opt save=a forward"], [("a", 1)]),
        (["fb opt save=a", "fb opt save=a"], [("a", 2)]),
        (["fb opt save=a", "save=a fb opt"], []),
        (["fb opt save=a", "load_weights save=b"], [("a", 1), ("b", 2)]),
        (["fb opt save=None", "fb opt"], [("None", 1)]),  # a name like any other
    ],
)
def test_only_states_that_end_a_step_are_gone_back_to(journal, rows, wanted):
    """M20: a checkpoint counts when it shows the model at the end of a step, gradients too."""
    assert steps(journal, *rows) == wanted


def test_a_name_used_again_replaces_the_checkpoint_at_once(journal):
    """M20: once a save of the same name has left, the old state may be gone."""
    assert steps(journal, "fb opt save=a") == [("a", 1)]
    again = Journal(journal.file.path)
    again.leaving("save_weights", 9, "d", name="a")
    assert again.state.checkpoints == []
    again.close()


def test_a_new_life_forgets_what_was_saved_after_its_start(journal):
    """M20: after going back, later checkpoints of the old model are not mixed in."""
    steps(journal, "fb opt save=a", "fb opt save=b")
    again = Journal(journal.file.path)
    again.note("model", session="t", model="t:train:0", number=0, seq=2, step=1, url="http://x")
    state = reopened(again).state
    assert [c.next_step for c in state.checkpoints] == [1]
    assert (state.next_step, state.next_seq_id) == (1, 2)


def test_a_long_journal_is_replaced_by_its_sum(journal):
    """M20: the file stays small however long the run, and says the same."""
    journal.long_bytes = 3000
    for step in range(60):
        seq = 3 * step + 1
        do(journal, seq, "forward_backward")
        do(journal, seq + 1, "optim_step", {})
        save(journal, seq + 2, f"c{step % 5}")
        journal.step_done(step, seq + 3, {"cursor": step})
        assert journal.file.size < 5000
    before = journal.state
    after = reopened(journal).state
    assert after == before
    assert [c.next_step for c in after.checkpoints] == [56, 57, 58, 59, 60]


def test_other_settings_are_refused(journal):
    """M20: a journal of another run is refused with the setting that differs."""
    with pytest.raises(JournalError, match="rank = 4, not 8"):
        journal.plan({**PLAN, "rank": 8})
    journal.plan(PLAN)


def test_unknown_kinds_of_records_are_passed_over(journal):
    """M20: a later writer of the same version may add notes of its own."""
    journal.file.append({"t": "weather", "wind": 3})
    assert reopened(journal).state.model is not None


def test_a_run_may_go_back_to_its_last_twenty_checkpoints(journal):
    """M20: older ones would only make the journal long."""
    for number in range(25):
        save(journal, number + 1, f"a{number}")
        journal.step_done(number, number + 2, {})
    kept = [each.path.rpartition("/")[2] for each in reopened(journal).state.checkpoints]
    assert kept == [f"a{number}" for number in range(5, 25)]
