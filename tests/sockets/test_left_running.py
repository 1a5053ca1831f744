"""Clients that are closed leave nothing behind: neither threads and sockets nor slots and bytes."""

import gc
import threading
import time

import given_back
import psutil
import pytest
from in_process import MODEL, datum

from tinker_ext import ModelInput, SamplingParams, ServiceClient
from tinker_ext.errors import TinkerError
from tinker_ext.mock import Server, Settings

PROMPT = ModelInput.from_ints([1, 2, 3])


@pytest.fixture(autouse=True, scope="module")
def no_forgotten_clients():
    """Clients that other tests left to the garbage collector keep the loop thread alive."""
    gc.collect()


def test_nothing_is_left_running_after_close(tmp_path):
    """M21 M34: no thread, task, socket or file stays behind a client that did everything."""
    with Server(Settings()) as port:
        process = psutil.Process()

        def around():
            with ServiceClient(
                base_url=port.url,
                api_key="tml-test",
                telemetry=True,
                run_log=tmp_path / "metrics.jsonl",
                budget=10_000,
                on_event=lambda event: None,
            ) as service:
                training = service.create_lora_training_client(MODEL, rank=4)
                training.forward_backward([datum()], "cross_entropy").result()
                with pytest.raises(TinkerError), pytest.warns(FutureWarning):
                    training.load_state("tinker://nobody/weights/x").result()
                sampler = training.save_weights_and_get_sampling_client()
                sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result()

        def ours():
            mine = {c.laddr.port for c in process.net_connections() if c.status == "LISTEN"}
            return [
                c
                for c in process.net_connections()
                if c.raddr and c.raddr.port in mine and c.status == "ESTABLISHED"
            ]

        # A client that another test of this process has not closed keeps the shared loop.
        before = {t.name for t in threading.enumerate()}
        around()
        threads = {t.name for t in threading.enumerate()} - before
        assert not [
            name for name in threads if name.startswith(("tinker-ext-loop", "tinker-ext-w"))
        ]
        assert ours() == []
        assert str(tmp_path) not in " ".join(file.path for file in process.open_files())
        events = [event for batch in port.app.world.telemetry for event in batch["events"]]
        assert events[-1]["event"] == "SESSION_END"


def test_a_client_is_seen_and_not_kept():
    """On a loop thread of its own: a sample under way is seen, a closed client leaves nothing."""
    with Server(Settings()) as server, given_back.watched(weak=True) as taken:
        with ServiceClient(base_url=server.url, api_key="tml-x") as service:
            sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
            server.faults.add("delay", path="retrieve_future", delay=5.0)
            future = sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=1))
            while not taken.left():  # ends when its loop has taken the sample up
                time.sleep(0.01)
            future.cancel()
        assert taken.left_by_threads() == []
