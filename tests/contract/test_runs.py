"""`Run` on a server in this process: steps, notes, saves, refusals, and resuming by hand."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import threading

import httpx
import numpy as np
import pytest
from in_process import MODEL, adam, datum

from tinker_ext import DimuonOptimizerConfig, Run, ServiceClient
from tinker_ext import runs as run_module
from tinker_ext.errors import (
    ConfigurationError,
    InvalidInputError,
    RequestFailedError,
    UnsafeToRetryError,
)
from tinker_ext.journal import Journal, JournalError
from tinker_ext.mock import Server, Settings
from tinker_ext.types.optimizer import AdamOptimizerConfig, OptimizerConfigBase


@pytest.fixture(scope="module")
def server():
    with Server(Settings(session_ttl=3600)) as server:
        yield server


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.journal"


def make(server, path, **options):
    options = {"base_model": MODEL, "rank": 4, "seed": 5, **options}
    return Run(path, base_url=server.url, api_key="tml-x", **options)


def train(run, count, stop=None):
    """Train up to `count` steps; leave as if killed after `stop` of them."""
    for step in run.steps(count):
        run.training.forward_backward([datum(3 + step % 3)], "cross_entropy")
        update = run.training.optim_step(adam())
        if step == stop:
            update.result(300)
            abandon(run)
            return


def abandon(run):
    """What a crash leaves: no finished session, no end in the journal, no lock."""
    holder = run.service.holder
    holder.session._owned = False
    run.service.close("errored").result(300)


@pytest.fixture
def said(caplog):
    """What a run has told since it was asked last."""
    caplog.set_level(logging.INFO, "tinker_ext")

    def told():
        texts = [record.getMessage() for record in caplog.records if record.name == "tinker_ext"]
        caplog.clear()
        return texts

    return told


def blob(server, path):
    state = server.app.world.checkpoints.get(path).blob
    return {k: np.asarray(v).tobytes() for k, v in state.items() if not isinstance(v, dict)}


def effects(server, path):
    return [e.seq for e in server.app.log.training(path.split("/")[2])]


def test_a_run_from_start_to_end(server, path):
    """M20: a run trains, saves under numbered names, and is not started again when complete."""
    with make(server, path) as run:
        train(run, 3)
        assert run.how == "started"
        saved = run.save("final")
        session_id = run.service.session_id
    assert saved.endswith("/final-000003")
    assert effects(server, saved) == [1, 2, 3, 4, 5, 6, 7]
    assert server.app.world.sessions[session_id].status["reason"]["type"] == "success"
    with make(server, path) as again:
        assert list(again.steps(3)) == []
        assert again.service.session_id is None  # nothing was asked from the server


def test_a_resumed_run_goes_on_with_its_model(server, path, said):
    """M20: the step under way is done again without taking effect twice."""
    train(make(server, path), 4, stop=2)
    said()
    with make(server, path, seed=None) as run:
        assert run.next_step == 2
        train(run, 4)
        assert run.how == "reattached"
        assert said() == [f"Went on with model {run.training.model_id} at step 2."]
        session_id = run.service.session_id
        sampler = run.training.save_weights_and_get_sampling_client()
        saved = run.save("final")
    assert effects(server, saved) == list(range(1, 11))
    status = server.app.world.sessions[session_id].status
    assert status["reason"]["type"] == "success"
    assert sampler._source.address["sampling_session_id"].endswith(":sample:1000000")


@pytest.mark.parametrize("wire", ["json", "proto"])
def test_a_resumed_run_speaks_the_wire_of_the_earlier_process(server, path, wire):
    """M20 M27: in the other one its repeats would be other bodies."""
    with ServiceClient(base_url=server.url, api_key="tml-x", wire=wire) as service:
        first = Run(path, base_model=MODEL, rank=4, service=service)
        next(first.steps(2))
        first.training.forward_backward([datum(3)], "cross_entropy").result(300)
        abandon(first)
    with make(server, path, seed=None) as run:
        next(run.steps(2))
        run.training.forward_backward([datum(3)], "cross_entropy").result(300)
        assert (run.how, str(run.service.holder.server.dialect.wire)) == ("reattached", wire)
        run.training.optim_step(adam()).result(300)
    assert effects(server, f"tinker://{run.training.model_id}/x") == [1, 2, 3]


def test_without_the_model_a_run_goes_back_to_its_checkpoint(server, path, said):
    """M20: the last saved state with optimizer; the weights end as if nothing had happened."""
    calm = make(server, path.with_name("calm"))
    with calm:
        train(calm, 5)
        wanted = blob(server, calm.save("final"))
    first = make(server, path, save_every=2)
    train(first, 5, stop=3)
    model = first.journal.state.model
    server.app.world.lose_session(model.session_id)
    said()
    with make(server, path) as run:
        assert run.next_step == 3
        train(run, 5)
        assert run.how == "restored"
        assert said() == [
            f"The server at {server.url} no longer has model {model.model_id}; the run goes back "
            "to its last checkpoint."
        ]
        assert blob(server, run.save("final")) == wanted
    assert run.journal.state.checkpoints[0].next_step == 2


def test_reattach_may_be_declined(server, path, said):
    """M20: reattach=False ends the old session and goes back; without a checkpoint to step 0."""
    first = make(server, path)
    train(first, 3, stop=1)
    said()
    with make(server, path, reattach=False) as run:
        assert list(run.steps(2)) == [0, 1]
        assert run.how == "restarted"
        assert said() == [
            "The run goes back to its last checkpoint: reattach=False was asked for.",
            "The run has no checkpoint; it starts again at step 0.",
        ]
    old = server.app.world.sessions[first.journal.state.model.session_id]
    assert old.status["reason"]["type"] == "interrupted"


def test_a_step_that_is_not_repeated_as_it_was_is_refused(server, path):
    """M20: other data under a number that the server has is an error, not a wrong result."""
    train(make(server, path), 3, stop=1)
    with make(server, path) as run:
        assert next(run.steps(3)) == 1
        changed = run.training.forward_backward([datum(9)], "cross_entropy")
        with pytest.raises(JournalError, match="not repeated as it was"):
            changed.result(300)
        run.close("errored")
    assert effects(server, f"tinker://{run.training.model_id}/x") == [1, 2, 3, 4]


def test_a_failed_call_fails_its_step(server, path):
    """M20: a step with a failed training call never counts as complete."""
    run = make(server, path)

    def fail():
        with run:
            for _ in run.steps(2):
                run.training.load_state("tinker://nobody:train:0/weights/none")

    with pytest.raises(RequestFailedError), pytest.warns(FutureWarning):
        fail()
    assert run.journal.state.next_step == 0
    assert run.journal.state.ended == "errored"


def test_a_run_that_failed_without_a_checkpoint_is_attached_again(server, path):
    """F27: an error in the program does not end the session that has the only copy of a step."""

    def fail(error):
        with make(server, path) as run:
            for step in run.steps(4):
                run.training.forward_backward([datum(3 + step % 3)], "cross_entropy")
                run.training.optim_step(adam())
                if step == 2:
                    raise error

    with pytest.raises(KeyError, match="mine"):
        fail(KeyError("mine"))
    with make(server, path) as again:
        train(again, 4)
        assert again.how == "reattached"
        session_id = again.service.session_id
        saved = again.save("final")
    assert effects(server, saved) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert server.app.world.sessions[session_id].status["reason"]["type"] == "success"


def test_a_failed_run_with_nothing_unsaved_ends_its_session(server, path):
    """F27: where a checkpoint has every step, the server is told and may free the model."""

    def fail():
        with make(server, path, save_every=1) as run:
            train(run, 1)
            ids.append(run.service.session_id)
            raise KeyError("mine")

    ids = []
    with pytest.raises(KeyError):
        fail()
    assert server.app.world.sessions[ids[0]].status["reason"]["type"] == "errored"


def test_leaving_with_break_completes_the_step(server, path):
    """M20: a run that stops early on purpose is complete up to there."""
    with make(server, path) as run:
        for step in run.steps(10):
            run.training.optim_step(adam())
            run.notes["seen"] = step
            if step == 1:
                break
    with make(server, path) as again:
        assert again.next_step == 2
        assert again.notes == {"seen": 1}


def test_a_step_cannot_be_entered_twice(server, path):
    """M20: inside one process an unfinished step is not done again on top of itself."""
    with make(server, path) as run:
        for _ in run.steps(2):
            break
        with pytest.raises(InvalidInputError, match="left before its end"):
            next(run.steps(2))
        run._step = None


def test_notes_must_be_json(server, path):
    """M20: what cannot be written down is refused by name."""
    with make(server, path) as run:
        steps = run.steps(2)
        next(steps)
        run.notes["bad"] = object()
        with pytest.raises(InvalidInputError, match="Notes"):
            next(steps)
        run.notes.clear()


def test_settings_must_match(server, path):
    """M20: a journal of other settings is refused before anything is sent, and given back."""
    train(make(server, path), 3, stop=0)
    with pytest.raises(JournalError, match="rank = 4, not 8"):
        make(server, path, rank=8)
    with pytest.raises(JournalError, match="seed = 5, not 6"):
        make(server, path, seed=6)
    make(server, path).close("interrupted")


def test_async_runs(server, path):
    """M16 M20: the same with async for."""

    async def main():
        async with make(server, path, save_every=2) as run:
            async for _ in run.steps_async(2):
                await run.training.forward_backward_async([datum()], "cross_entropy")
                await run.training.optim_step_async(adam())
            assert run.how == "started"
            return await run.save_async("end"), run.journal.state.checkpoints

    saved, checkpoints = asyncio.run(main())
    assert effects(server, saved) == [1, 2, 3, 4, 5, 6]
    assert [c.next_step for c in checkpoints] == [2, 2]


def test_a_given_service_stays_open(server, path):
    """M20: Run closes only what it has made."""
    with ServiceClient(base_url=server.url, api_key="tml-x") as service:
        with Run(path, base_model=MODEL, rank=4, service=service) as run:
            train(run, 1)
        assert service.get_server_capabilities().supported_models
        with pytest.raises(InvalidInputError, match="not both"):
            Run(path, base_model=MODEL, service=service, base_url="embedded")


def test_a_result_outlives_the_memory_of_the_server(server, path):
    """M20: small results of the step under way come from the journal, equal to the last bit."""
    first = make(server, path)
    next(first.steps(2))
    data = [datum(3), datum(5)]
    wanted = first.training.forward_backward(data, "cross_entropy").result(300)
    for kept in first.journal.state.requests.values():
        server.app.world.promises.expire(kept.request_id)
    abandon(first)
    with make(server, path) as run:
        next(run.steps(2))
        again = run.training.forward_backward(data, "cross_entropy").result(300)
        assert run.how == "reattached"
        assert again == wanted
        run.training.optim_step(adam())
    # The two calls and the save at the end.
    assert effects(server, f"tinker://{run.training.model_id}/x") == [1, 2, 3]


def test_a_large_result_that_is_gone_means_going_back(server, path, monkeypatch):
    """M20: what can be read neither here nor there is computed again, on a new model."""
    monkeypatch.setattr("tinker_ext.journal.recorder.SMALL_NUMBERS", 0)
    first = make(server, path)
    next(first.steps(2))
    first.training.forward_backward([datum(3)], "cross_entropy").result(300)
    for kept in first.journal.state.requests.values():
        server.app.world.promises.expire(kept.request_id)
    abandon(first)
    with make(server, path) as run:
        assert list(run.steps(1)) == [0]
        assert run.how == "restarted"


def test_a_resumed_run_that_waits_for_an_earlier_result_shows_it(server, path, monkeypatch):
    """M22: `pending()` says what is waited for before the first new step."""
    monkeypatch.setattr("tinker_ext.journal.recorder.SMALL_NUMBERS", 0)
    first = make(server, path)
    next(first.steps(2))
    first.training.forward_backward([datum(3)], "cross_entropy").result(10)
    abandon(first)
    shown, over = threading.Event(), threading.Event()
    with ServiceClient(base_url=server.url, api_key="tml-x") as service:
        server.faults.add("delay", path="retrieve_future", delay=0.5, nth=1)

        def look():
            while not over.wait(0.01):
                if any(each.operation == "forward_backward" for each in service.pending()):
                    shown.set()

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        with Run(path, base_model=MODEL, rank=4, seed=5, service=service) as run:
            for _ in run.steps(1):
                assert service.pending() == []  # it is there, and waited for no longer
            assert run.how == "reattached"
        over.set()
        watcher.join(10)
        server.faults.clear()
    assert shown.is_set()


@pytest.mark.parametrize(("seq", "how"), [("dedupe", "reattached"), ("ignore", "restarted")])
def test_a_repaired_journal_trains_nothing_twice(path, seq, how):
    """M20: after a cut only a server that recognises repeats is trusted with the old model."""
    with Server(Settings(seq=seq)) as server:
        first = make(server, path)
        train(first, 3, stop=1)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(JournalError, match="repair=True"):
            make(server, path)
        with make(server, path, repair=True) as run:
            train(run, 3)
            assert run.how == how
            seqs = effects(server, run.save("end"))
    assert seqs == [1, 2, 3, 4, 5, 6, 7]


def test_a_run_of_another_server_is_not_started_anew(server, path):
    """M20: a server that never heard of the run does not make it lose its progress."""
    first = make(server, path)
    train(first, 3, stop=1)
    with Server() as other:
        stray = make(other, path)
        with pytest.raises(JournalError, match="belongs to a run on"):
            next(stray.steps(3))
        stray.close("errored")
    with make(server, path) as run:
        train(run, 3)
        assert run.how == "reattached"


def test_the_service_client_keeps_a_journal_itself(server, path):
    """M20: ServiceClient(journal=…) and resume() are enough for a loop of one's own."""
    with ServiceClient(base_url=server.url, api_key="tml-x", journal=path) as service:
        assert service.resume() is None
        first = service.create_lora_training_client(MODEL, rank=4)
        first.optim_step(adam())
        service.complete_step(0, {"cursor": 7})
        with pytest.raises(InvalidInputError, match="Step 1 is under way"):
            service.complete_step(0)
        first.forward_backward([datum()], "cross_entropy")
        first.optim_step(adam()).result(300)
        with pytest.raises(InvalidInputError, match="follows model"):
            service.create_lora_training_client(MODEL, rank=4)
        service.holder.session._owned = False
    with ServiceClient(base_url=server.url, api_key="tml-x", journal=path) as service:
        back = service.resume()
        assert (back.how, back.next_step, back.notes) == ("reattached", 1, {"cursor": 7})
        assert back.training.model_id == first.model_id
        back.training.forward_backward([datum()], "cross_entropy")
        back.training.optim_step(adam()).result(300)
        back.training.optim_step(adam()).result(300)
    assert [e.seq for e in server.app.log.training(first.model_id)] == [1, 2, 3, 4]
    with ServiceClient(base_url=server.url, api_key="tml-x", journal=path) as service:
        back = service.resume(reattach=False)
        assert (back.how, back.next_step, back.notes) == ("restarted", 0, {})


@pytest.mark.parametrize("optimizer", [False, True])
def test_a_model_made_from_a_state_goes_back_to_it(server, path, optimizer):
    """M20: the journal knows from which state, and whether its optimizer was wanted."""
    options = {"base_url": server.url, "api_key": "tml-x"}
    with ServiceClient(**options) as service:
        origin = service.create_lora_training_client(MODEL, rank=4)
        origin.forward_backward([datum()], "cross_entropy")
        origin.optim_step(adam())
        saved = origin.save_state("start").result(300).path
    with ServiceClient(**options, journal=path) as service:
        name = "create_training_client_from_state" + "_with_optimizer" * optimizer
        first = getattr(service, name)(saved)
        first.optim_step(adam()).result(300)
        service.complete_step(0)
        service.holder.session._owned = False
    with ServiceClient(**options, journal=path) as service:
        back = service.resume(reattach=False)
        assert (back.how, back.next_step, back.checkpoint) == ("restored", 0, saved)
        again = back.training.model_id
        assert again != first.model_id
        back.training.optim_step(adam()).result(300)
    loads = [json.loads(entry.body) for entry in server.app.log.requests("load_weights")[-2:]]
    assert [load["model_id"] for load in loads] == [first.model_id, again]
    assert [(load["path"], bool(load["optimizer"])) for load in loads] == [(saved, optimizer)] * 2


def test_a_run_refuses_what_it_cannot_do(server, path):
    """M20: a checkpoint without a name, and steps after its end."""
    with make(server, path) as run:
        train(run, 1)
        for wrong in ("", None, 7):
            with pytest.raises(InvalidInputError, match="A checkpoint name must be a text"):
                run.save(wrong)
    with pytest.raises(InvalidInputError, match="This run is closed; open it again"):
        next(iter(run.steps(3)))


def test_the_journal_holds_no_secret(server, path):
    """M20 M33: neither key nor data."""
    with make(server, path, user_metadata={"token": "META-CANARY"}) as run:
        train(run, 1)
    text = path.read_text()
    assert "tml-x" not in text
    assert "CANARY" not in text


# -- the end of a run --------------------------------------------------------------------------


def test_a_clean_end_is_saved_and_gone_on_from(server, path):
    """M20: more steps after a clean end go on where it stopped, optimizer included."""
    with make(server, path.with_name("calm")) as calm:
        train(calm, 5)
        wanted = blob(server, calm.save("final"))
    with make(server, path) as run:
        train(run, 3)
    assert [c.path.rsplit("/", 1)[1] for c in run.journal.state.checkpoints] == ["exit-000003"]
    with make(server, path) as again:
        done = []
        for step in again.steps(5):
            again.training.forward_backward([datum(3 + step % 3)], "cross_entropy")
            again.training.optim_step(adam())
            done.append(step)
        assert (again.how, done) == ("restored", [3, 4])
        assert blob(server, again.save("final")) == wanted


def test_a_clean_end_saves_nothing_twice(server, path):
    """M20: what a checkpoint shows already is not saved again, nor is an end with an error."""
    with make(server, path, save_every=3) as run:
        train(run, 3)
    assert effects(server, f"tinker://{run.training.model_id}/x") == list(range(1, 8))

    def fail():
        with make(server, path) as again:
            train(again, 4)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with make(server, path) as last:
        assert last.next_step == 4
        train(last, 3)
    assert [c.next_step for c in last.journal.state.checkpoints] == [3]


def test_gradients_that_wait_are_not_lost_in_silence(server, path, caplog):
    """M20: nobody goes on from a state without the gradients that were left."""
    with caplog.at_level(logging.WARNING, "tinker_ext"), make(server, path) as run:
        for _ in run.steps(1):
            run.training.forward_backward([datum()], "cross_entropy")
    assert run.journal.state.checkpoints == []
    assert "gradients wait" in caplog.text


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_save_that_fails_does_not_hide_the_end(server, path, caplog, monkeypatch, seconds):
    """M20: the run ends as a success, in time, with a warning."""
    assert run_module.SAVE_SECONDS == 120.0
    monkeypatch.setattr(run_module, "SAVE_SECONDS", seconds)
    with caplog.at_level(logging.WARNING, "tinker_ext"), make(server, path) as run:
        train(run, 2)
        session_id = run.service.session_id
        if seconds:
            run.training.save_state = lambda name: refused()
    assert "is not saved" in caplog.text
    assert server.app.world.sessions[session_id].status["reason"]["type"] == "success"
    make(server, path).close()


def full(*_, **fields):
    raise JournalError("the disk is full")


def test_an_end_that_cannot_be_written_down_is_told(server, path, said):
    """M20 M21: the session ends all the same, and as it did."""
    run = make(server, path)
    with run:
        train(run, 1)
        run.save("final")
        session_id = run.service.session_id
        run.journal.note = full
        said()
    assert said() == ["the disk is full"]
    assert server.app.world.sessions[session_id].status["reason"]["type"] == "success"


async def refused():
    raise RequestFailedError("no room for it", request_id="r", category="server")


@pytest.mark.parametrize("accepted", [True, False])
def test_a_kill_within_the_last_save(server, path, accepted):
    """M20: a run killed while it is saved at its end goes on with more steps, none done twice."""
    first = make(server, path)
    train(first, 2)
    first.training.save_state("exit-000002").result(300)
    abandon(first)
    lines = path.read_bytes().splitlines(keepends=True)
    keep = (
        len(lines)
        if accepted
        else next(i + 1 for i, line in enumerate(lines) if b'"op":"save_weights"' in line)
    )
    path.write_bytes(b"".join(lines[:keep]))
    with make(server, path) as run:
        train(run, 4)
        assert run.how == "reattached"
    assert effects(server, f"tinker://{run.training.model_id}/x") == list(range(1, 11))
    assert [c.next_step for c in run.journal.state.checkpoints] == [2, 4]


def test_with_a_service_that_stays_open_more_steps_follow(server, path):
    """M20: after a clean end on a model that is still there, the next run takes it up."""
    with ServiceClient(base_url=server.url, api_key="tml-x") as service:
        with Run(path, base_model=MODEL, rank=4, service=service) as run:
            train(run, 2)
            seed = run.journal.state.plan["seed"]
        with make(server, path, seed=None) as run:
            train(run, 4)
    assert run.how == "reattached"
    assert 0 <= seed < 2**31  # what every server takes
    assert effects(server, f"tinker://{run.training.model_id}/x") == list(range(1, 11))


# -- giving the journal back -------------------------------------------------------------------


@pytest.mark.parametrize("used", [False, True])
def test_a_service_gives_every_journal_back(server, tmp_path, used):
    """M20: that of its own and those of runs on it, whichever was the last."""
    own, *others = (tmp_path / name for name in ("own", "first", "second"))
    with ServiceClient(base_url=server.url, api_key="tml-x", journal=own) as service:
        kept = [Run(each, base_model=MODEL, rank=4, service=service) for each in others]
        if used:
            service.get_server_capabilities()
    for each in (own, *others):
        Journal(each).close()
    del kept


def test_the_end_of_a_run_leaves_a_later_one_its_journal(server, tmp_path):
    """M20: two runs on one service, of which the first ends before the second begins."""
    with ServiceClient(base_url=server.url, api_key="tml-x") as service:
        first, second = (
            Run(tmp_path / name, base_model=MODEL, rank=4, service=service) for name in "ab"
        )
        first.close()
        train(second, 1)
        second.close()
    assert second.journal.state.next_step == 1


def test_a_run_that_sent_nothing_gives_its_journal_back(server, path):
    """M20: closing, forgetting and a complete run leave the journal to the next."""
    make(server, path).close()
    make(server, path).close()
    forgotten = make(server, path)
    del forgotten
    gc.collect()
    with make(server, path) as run:
        train(run, 1)
    with make(server, path) as again:
        assert list(again.steps(1)) == []
    with make(server, path) as more:
        assert list(more.steps(2)) == [1]


def test_a_client_that_sent_nothing_gives_its_journal_back(path):
    """M20: so does a ServiceClient of one's own, also with async with."""

    async def main():
        async with ServiceClient(journal=path, base_url="embedded"):
            pass

    for _ in range(2):
        with ServiceClient(journal=path, base_url="embedded"):
            pass
        asyncio.run(main())


def test_a_run_that_cannot_be_made_gives_its_journal_back(server, path):
    """M20: a setting that is refused leaves the journal to who puts it right, also in one cell."""
    with pytest.raises(ConfigurationError) as kept:
        make(server, path, base_model=MODEL, run_log=3)
    make(server, path).close()
    assert kept.value.__traceback__ is not None  # it holds what was half made


# -- what does not fit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_model": ""},
        {"base_model": None},
        {"user_metadata": 3},
        {"optimizer": "adamw"},
        {"optimizer": AdamOptimizerConfig},
        {"optimizer": OptimizerConfigBase(type="lion", momentum=float("nan"))},
        {"optimizer": OptimizerConfigBase(type="lion", momentum=object())},
    ],
)
def test_what_makes_no_model_is_refused_before_there_is_a_journal(server, path, wrong):
    """M20: with the words that a service has for it."""
    options = {"base_model": MODEL, **wrong}
    with ServiceClient(base_url=server.url, api_key="tml-x") as service:
        with pytest.raises(InvalidInputError) as told:
            service.create_lora_training_client(rank=4, **options)
        with pytest.raises(InvalidInputError, match=re.escape(str(told.value))):
            make(server, path, **options)
    assert not path.exists()


def test_an_optimizer_may_hold_numbers_of_numpy(server, path):
    """M20: as it may without a journal, which gives them back."""
    family = OptimizerConfigBase(type="lion", momentum=np.float32(0.5), steps=np.arange(2))
    for _ in range(2):
        with make(server, path, optimizer=family) as run:
            train(run, 1)
        assert run.journal.state.plan["optimizer"] == {
            "type": "lion",
            "momentum": 0.5,
            "steps": [0, 1],
        }


def test_another_optimizer_is_refused(server, path):
    """M20: a run does not go on with an optimizer it was not asked for."""
    train(make(server, path), 3, stop=0)
    with pytest.raises(JournalError, match=r"optimizer = .*adamw.*, not .*dimuon"):
        make(server, path, optimizer=DimuonOptimizerConfig())
    make(server, path, optimizer=AdamOptimizerConfig()).close("interrupted")


def test_checkpoints_out_of_reach_are_not_forgotten(server, path, said):
    """M20: with a server that has none of them the run stops, and goes on with the right one."""
    with make(server, path, save_every=1) as run:
        train(run, 2)
    before = path.read_bytes()
    with Server() as other, make(other, path) as stray:
        with pytest.raises(JournalError, match="None of the 2 checkpoints") as caught:
            next(stray.steps(3))
        assert "another journal" in str(caught.value)
        assert server.url in str(caught.value)
        assert "weights/step-000002: Error code: 404 - no checkpoint at" in str(caught.value)
        assert "step-000001" not in str(caught.value)  # why the last one is not there
        assert [text.partition(" cannot be loaded: ")[0] for text in said()[-2:]] == [
            f"Checkpoint {each.path}" for each in reversed(run.journal.state.checkpoints)
        ]
    assert path.read_bytes() == before
    with make(server, path) as back:
        assert list(back.steps(3)) == [2]
        assert back.how == "restored"


def test_a_model_of_another_key_is_not_started_anew(server, path):
    """M20: 403 for the model means the wrong key, not a lost model."""
    train(make(server, path), 3, stop=1)
    before = path.read_bytes()

    class Stranger(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            if request.url.path.endswith("/get_info"):
                return httpx.Response(403, json={"detail": "not yours"})
            return await super().handle_async_request(request)

    stray = make(server, path, transport=Stranger())
    with stray, pytest.raises(JournalError, match="not for this key"):
        next(stray.steps(3))
    assert path.read_bytes() == before
    with make(server, path) as run:
        train(run, 3)
        assert run.how == "reattached"


@pytest.mark.parametrize("name", ["forward_backward", "optim_step"])
def test_a_call_cancelled_before_it_left_does_not_complete_its_step(path, name):
    """M20: a step that lost a call in the queue is not counted; the next process repeats it."""
    with Server(Settings(seq="strict", latency=0.2, session_ttl=3600)) as server:
        run = make(server, path)
        steps = run.steps(3)
        for step in (0, 1):
            assert next(steps) == step
            run.training.forward([datum()], "cross_entropy")  # the others queue behind it
            calls = {
                "forward_backward": run.training.forward_backward([datum()], "cross_entropy"),
                "optim_step": run.training.optim_step(adam()),
            }
        assert calls[name].future().cancel()
        with pytest.raises(InvalidInputError, match=f"{name} was cancelled before it was sent"):
            next(steps)
        assert run.next_step == 1
        with pytest.raises(InvalidInputError, match="cancelled before"):
            run.close()  # a step left like that does not count at the end either
        assert run.next_step == 1


def test_a_cancelled_evaluation_does_not_spoil_its_step(path):
    """M20: a forward pass changes nothing, so a step is complete without it."""
    with Server(Settings(seq="strict", latency=0.2)) as server, make(server, path) as run:
        for _ in run.steps(1):
            run.training.forward_backward([datum()], "cross_entropy")
            assert run.training.forward([datum()], "cross_entropy").future().cancel()
            run.training.optim_step(adam())
        assert run.next_step == 1


@pytest.mark.parametrize("seq", ["dedupe", "gap"])
@pytest.mark.parametrize("crash", [1, 2], ids=["in the same step", "a step later"])
def test_the_number_of_a_probe_is_not_given_away_after_a_crash(path, seq, crash):
    """M20: a number used to find out about repeats stays used, also for the next process."""
    settings = Settings(seq=seq, declared=False, wire="json", session_ttl=3600)
    with Server(settings) as server:
        server.app.faults.add("drop_response", path="optim_step", nth=2)
        train(make(server, path), 4, stop=crash)
        with make(server, path) as run:
            train(run, 4)
            assert run.how == "reattached"
            model_id = run.training.model_id
        done = server.app.log.training(model_id)
        names = [effect.op for effect in done]
        assert "forward" in names  # the probe
        assert [n for n in names if n not in ("forward", "save_weights")] == [
            "forward_backward",
            "optim_step",
        ] * 4
        numbers = [effect.seq for effect in done]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("declared", [True, False])
def test_a_run_goes_back_when_a_request_was_refused_at_its_poll(path, declared):
    """M20 F4: one lost answer on a server that refuses late ends one start, not every start."""
    with Server(Settings(seq="late", declared=declared)) as server:
        server.faults.add("drop_response", path="forward_backward", nth=2)
        with pytest.raises(UnsafeToRetryError), make(server, path, save_every=10) as run:
            train(run, 3)
        with make(server, path, save_every=10) as run:
            train(run, 3)
        assert run.how == "restarted"


@pytest.mark.parametrize("steps", [3, 4])
def test_a_crash_behind_the_last_step_goes_back_before_it_ends(path, steps):
    """M19 M20: the last save was in doubt, so the steps since the checkpoint are done again."""
    with Server(Settings(seq="ignore", session_ttl=3600)) as server:
        with make(server, path.with_name("calm"), save_every=2) as run:
            train(run, steps)
            wanted = run.save("final")
        run = make(server, path, save_every=2)
        train(run, steps)
        abandon(run)
        server.app.world.lose_session(run.training.model_id.split(":")[0])
        with make(server, path, save_every=2) as run:
            train(run, steps)
            found = run.save("final")
        assert run.how == "restored"
        assert blob(server, found) == blob(server, wanted)
        assert found.endswith(f"-{steps:06d}")


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_crash_behind_the_last_step_leaves_none_to_do(server, path, form):
    """M22: all steps are there; the run goes on with the model, and trains no more."""
    first = make(server, path)
    train(first, 2)
    abandon(first)

    async def rest(run):
        return [step async for step in run.steps_async(2)]

    with make(server, path) as again:
        left = list(again.steps(2)) if form == "plain" else asyncio.run(rest(again))
        assert (left, again.next_step) == ([], 2)
