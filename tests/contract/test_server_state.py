"""M40: `--state DIR` survives kill -9 without losing an acknowledged step."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from raw_tinker import Raw

from tinker_ext.mock import Server, Settings, create_app

SERVER = """
import sys
from tinker_ext.mock import Settings, serve
settings = Settings(state=sys.argv[1], snapshot_every=int(sys.argv[2]))
serve(settings, lambda url: print(url, flush=True))
"""


class Process:
    """The server in a process of its own, so that it can be killed."""

    def __init__(self, folder, snapshot_every=1000):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder), str(snapshot_every)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.url = self.process.stdout.readline().strip()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


async def reference(steps):
    """The losses of an undisturbed run."""
    async with Raw() as raw:
        model = await raw.model()
        losses = [await raw.train(model) for _ in range(steps)]
        return [*losses, await raw.loss(model)]


@pytest.mark.parametrize("snapshot_every", [1000, 3])
def test_kill_nine_between_steps(tmp_path, snapshot_every):
    """M40: killed after every other step, the run ends bit-equal to the undisturbed one."""

    async def scenario():
        losses = []
        model, seq = None, 0
        for _ in range(2):
            process = Process(tmp_path, snapshot_every)
            try:
                async with Raw(url=process.url) as raw:
                    if model is None:
                        model = await raw.model()
                    raw.seq = seq
                    losses += [await raw.train(model) for _ in range(2)]
                    seq = raw.seq
            finally:
                process.kill()
        process = Process(tmp_path, snapshot_every)
        try:
            async with Raw(url=process.url) as raw:
                raw.seq = seq
                return [*losses, await raw.loss(model)]
        finally:
            process.kill()

    assert asyncio.run(scenario()) == asyncio.run(reference(4))


def test_kill_nine_right_after_the_acknowledgement(tmp_path):
    """M20, M40: an acknowledged request takes effect once, though its result was never read."""

    async def scenario():
        process = Process(tmp_path)
        try:
            async with Raw(url=process.url) as raw:
                model = await raw.model()
                body = raw.training_body(model)
                step = {"model_id": model, "seq_id": 2, "adam_params": {"learning_rate": 1e-2}}
                await raw.post("forward_backward", **body)
                ticket = await raw.post("optim_step", **step)
        finally:
            process.kill()
        process = Process(tmp_path)
        try:
            async with Raw(url=process.url) as raw:
                again = await raw.post("optim_step", **step)
                assert again == ticket
                assert "metrics" in await raw.result(ticket)
                raw.seq = 2
                return await raw.loss(model)
        finally:
            process.kill()

    assert asyncio.run(scenario()) == asyncio.run(reference(1))[-1]


def test_everything_else_survives_too(tmp_path):
    """M40: checkpoints, samplers, publication and sessions; samples in flight are gone (410)."""
    sample = {
        "prompt": {"chunks": [{"tokens": list(b"hello")}]},
        "sampling_params": {"max_tokens": 4, "seed": 3},
    }

    async def first(url):
        async with Raw(url=url) as raw:
            session = await raw.session()
            model = await raw.model(session)
            await raw.train(model)
            path = await raw.save(model, path="kept")
            ticket = await raw.post(
                "save_weights_for_sampler",
                model_id=model,
                seq_id=raw.next_seq(),
                sampling_session_seq_id=0,
            )
            sampler = (await raw.result(ticket))["sampling_session_id"]
            await raw.send("POST", f"training_runs/{model}/checkpoints/weights/kept/publish")
            drawn = await raw.post("asample", sampling_session_id=sampler, seq_id=0, **sample)
            return session, path, sampler, drawn, await raw.result(drawn)

    async def second(url, session, path, sampler, drawn, result):
        async with Raw(url=url) as raw:
            poll = {"request_id": drawn["request_id"]}
            assert (await raw.send("POST", "retrieve_future", poll)).status_code == 410
            again = await raw.post("asample", sampling_session_id=sampler, seq_id=0, **sample)
            assert (await raw.result(again))["sequences"] == result["sequences"]
            listed = (await raw.send("GET", "checkpoints")).json()["checkpoints"]
            assert [(c["tinker_path"], c["public"]) for c in listed] == [(path, True)]
            beat = {"session_id": session}
            assert (await raw.send("POST", "session_heartbeat", beat)).status_code == 200

    for snapshot_every in (1000, 3):
        folder = tmp_path / str(snapshot_every)
        options = Settings(state=folder, snapshot_every=snapshot_every)
        with Server(options) as server:
            kept = asyncio.run(first(server.url))
        assert bool(list(folder.glob("snapshot-*/world.json"))) == (snapshot_every == 3)
        with Server(options) as server:
            asyncio.run(second(server.url, *kept))
            assert server.log.violations == []


def test_a_torn_record_is_dropped(tmp_path):
    """M40: a half-written record was never acknowledged; what precedes it counts."""

    async def work(url, model=None):
        async with Raw(url=url) as raw:
            model = model or await raw.model()
            return model, await raw.loss(model)

    with Server(Settings(state=tmp_path)) as server:
        model, loss = asyncio.run(work(server.url))
    journal = tmp_path / "journal-0.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:50])
    with Server(Settings(state=tmp_path)) as server:
        assert asyncio.run(work(server.url, model))[1] == loss
    assert journal.read_bytes().startswith(whole)


def test_a_directory_belongs_to_its_seed_and_models(tmp_path):
    """M40: another seed or a missing base model is refused with words, not replayed wrongly."""

    async def work(settings):
        async with Raw(settings=settings) as raw:
            await raw.model(base="org/name")

    options = {"state": tmp_path, "inline_engine": True}
    asyncio.run(work(Settings(models=["org/name"], **options)))
    with pytest.raises(ValueError, match="seed"):
        create_app(Settings(models=["org/name"], seed=1, **options))
    with pytest.raises(ValueError, match="'org/name' is not served here"):
        create_app(Settings(**options))


def test_a_stricter_profile_may_take_over(tmp_path):
    """M40: repeats accepted under one profile do not stop a server with another."""

    async def work(seq, model=None):
        settings = Settings(state=tmp_path, inline_engine=True, seq=seq)
        async with Raw(settings=settings) as raw:
            model = model or await raw.model()
            body = raw.training_body(model, seq=1)
            replies = [await raw.send("POST", "forward_backward", body) for _ in range(2)]
            return model, [r.status_code for r in replies], len(raw.app.log.training(model))

    model, statuses, effects = asyncio.run(work("dedupe"))
    assert (statuses, effects) == ([200, 200], 1)
    assert asyncio.run(work("strict", model))[1:] == ([409, 409], 1)
