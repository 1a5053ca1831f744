"""Clients in real programs: threads, several event loops, forks, pools, exits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from in_process import MODEL, adam, datum, seqs

from tinker_ext import ModelInput, SamplingClient, SamplingParams, ServiceClient
from tinker_ext.errors import ClientClosedError
from tinker_ext.mock import Server, Settings

PROMPT = ModelInput.from_ints([1, 2, 3])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(autouse=True, scope="module")
def no_forgotten_clients():
    """Clients that other tests left to the garbage collector keep the loop thread alive."""
    gc.collect()


@pytest.fixture(scope="module")
def port():
    with Server(Settings(session_ttl=3600)) as server:
        yield server


OF_A_SAMPLE = ("operation", "asample")


def connect(server, **options):
    return ServiceClient(base_url=server.url, api_key="tml-test", **options)


def loop_threads():
    return [
        t
        for t in threading.enumerate()
        if t.name.startswith(("tinker-ext-loop", "tinker-ext-work"))
    ]


def test_64_threads_train_one_model(port):
    """M16 M17: calls of 64 threads get numbers without gaps, each future its own result."""
    with connect(port) as service:
        training = service.create_lora_training_client(MODEL, rank=4)
        start = threading.Barrier(64)

        def work(i):
            start.wait()
            step = training.forward_backward([datum(2 + i % 3)], "cross_entropy")
            update = training.optim_step(adam(1e-4))
            update.result(300)
            return len(step.result(300).loss_fn_outputs[0]["logprobs"].data), 2 + i % 3

        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            results = list(pool.map(work, range(64)))
        assert all(got == wanted for got, wanted in results)
        assert seqs(port.app, training.model_id) == list(range(1, 129))


def test_many_event_loops_and_plain_calls_mix(port):
    """M16: the same client works in many asyncio.run calls, next to blocking calls."""
    with connect(port) as service:
        training = service.create_lora_training_client(MODEL, rank=4)

        async def step():
            future = await training.forward_backward_async([datum()], "cross_entropy")
            update = await training.optim_step_async(adam())
            return (await future.result_async()).loss, (await update).metrics

        for _ in range(3):
            loss, metrics = asyncio.run(step())
            assert loss > 0
            assert metrics
            assert training.forward([datum()], "cross_entropy").result(300).loss > 0

        async def blocking_inside_a_loop():
            return training.forward([datum()], "cross_entropy").result(300)

        assert asyncio.run(blocking_inside_a_loop()).loss > 0


def test_close_leaves_nothing_running(port):
    """M21: no thread of ours is alive after the last client was closed."""
    for _ in range(3):
        with connect(port) as service:
            service.create_lora_training_client(MODEL, rank=4)
            assert loop_threads()
        assert loop_threads() == []
    with pytest.raises(ClientClosedError):
        service.get_server_capabilities()
    service.close("success").result(300)  # closing twice is fine
    assert loop_threads() == []


def test_async_with_closes_too(port):
    """M21: the async context manager reports how the session ended."""

    async def main():
        async with connect(port) as service:
            await service.create_sampling_client_async(base_model=MODEL)
            return service.session_id

    session_id = asyncio.run(main())
    assert port.app.world.sessions[session_id].status["reason"]["type"] == "success"
    assert loop_threads() == []


def test_a_forgotten_client_ends(port):
    """M21: a client that is garbage collected takes the loop thread with it."""
    service = connect(port)
    service.get_server_capabilities()
    assert loop_threads()
    del service
    gc.collect()
    deadline = time.monotonic() + 300
    while loop_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert loop_threads() == []


def test_a_client_keeps_its_service_alive(port):
    """M21: a training client works on when nobody holds the service client any more."""
    training = connect(port).create_lora_training_client(MODEL, rank=4)
    sampler = training.save_weights_and_get_sampling_client()
    gc.collect()
    assert training.optim_step(adam()).result(300).metrics
    del training
    gc.collect()
    assert sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300).sequences
    del sampler
    gc.collect()
    deadline = time.monotonic() + 300
    while loop_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert loop_threads() == []


def test_work_under_way_fails_when_the_client_closes(port):
    """M21: pending futures end with a clear error, not in a hang."""
    service = connect(port)
    sampler = service.create_sampling_client(base_model=MODEL)
    futures = [sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)) for _ in range(200)]
    service.close("success").result(300)
    ends = [future.exception(300) for future in futures]
    assert all(end is None or isinstance(end, ClientClosedError) for end in ends)


def test_several_servers_and_keys_at_once():
    """M25: clients of different servers do not mix."""
    with (
        Server(Settings(seed=1)) as one,
        Server(Settings(seed=2)) as two,
        connect(one) as first,
        connect(two) as second,
    ):
        a = first.create_lora_training_client(MODEL, rank=4)
        b = second.create_lora_training_client(MODEL, rank=4)
        a.optim_step(adam()).result(300)
        b.optim_step(adam()).result(300)
        b.optim_step(adam()).result(300)
        assert seqs(one.app, a.model_id) == [1]
        assert seqs(two.app, b.model_id) == [1, 2]


def _sample_in_worker(sampler):
    reply = sampler.sample(PROMPT, 1, SamplingParams(max_tokens=3, seed=4)).result(300)
    return reply.sequences[0].tokens, sampler._clone_id


def test_a_pickled_client_works_in_a_process_pool(port, monkeypatch):
    """M23: spawned workers sample with their own credential and their own numbers."""
    monkeypatch.setenv("TINKER_API_KEY", "tml-worker")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT}/generated:{ROOT}/tests:{ROOT}/tests/contract")
    with connect(port) as service:
        sampler = service.create_sampling_client(base_model=MODEL)
        here = _sample_in_worker(sampler)
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            there = list(pool.map(_sample_in_worker, [sampler] * 2))
    assert {tuple(tokens) for tokens, _ in there} == {tuple(here[0])}
    assert here[1] == 0
    assert all(clone > 0 for _, clone in there)


def test_neither_pickle_nor_handle_holds_the_key(port):
    """M23 M33: the credential never travels with a client."""
    service = ServiceClient(base_url=port.url, api_key="tml-CANARY-KEY")
    try:
        sampler = service.create_sampling_client(base_model=MODEL)
        assert b"CANARY" not in pickle.dumps(sampler)
        handle = sampler.get_sampler_handle()
        import base64

        assert b"CANARY" not in base64.urlsafe_b64decode(handle)
        again = SamplingClient.from_sampler_handle(handle, api_key="tml-other")
        reply = again.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)
        assert len(reply.sequences) == 1
        again._workspace.close("success").result(300)
    finally:
        service.close("success").result(300)


def test_a_forked_child_samples_on(port):
    """M16: after a fork the child makes its own loop and connections."""
    with connect(port) as service:
        sampler = service.create_sampling_client(base_model=MODEL)
        sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                reply = sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)
                os.write(writing, str(len(reply.sequences[0].tokens)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        assert status == 0
        assert os.read(reading, 10) == b"2"
        os.close(reading)
        assert sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)


def test_calls_of_a_forked_child_are_in_the_run_log(port, tmp_path):
    """M34: at once, since children of multiprocessing end without running what is left."""
    log = tmp_path / "metrics.jsonl"
    with connect(port, run_log=log) as service:
        sampler = service.create_sampling_client(base_model=MODEL)
        sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for _ in range(5):
                    sampler.sample(PROMPT, 1, SamplingParams(max_tokens=2)).result(300)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ended = [each for each in lines if (each["type"], each.get("operation")) == OF_A_SAMPLE]
    assert len(ended) >= 5  # of the child at least four: the last may end with the process


FORKED_WHILE_LOADING = """
    import os, sys, threading, time
    from tinker_ext import ServiceClient
    making = threading.Thread(
        target=ServiceClient, kwargs={"base_url": "https://127.0.0.1:9", "api_key": "tml-x"}
    )
    making.start()
    while "httpx" not in sys.modules:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        import httpx
        os._exit(7 if hasattr(httpx, "AsyncClient") else 8)
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and making.ident:
        time.sleep(0.01)
    os._exit(os.waitstatus_to_exitcode(ended[1]))
"""


def test_a_child_that_is_forked_while_httpx_loads(tmp_path):
    """F18: it can load it too; a thread that is not in the child would hold the module for ever."""
    program = textwrap.dedent(FORKED_WHILE_LOADING)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=300)
    assert done.returncode == 7


PROGRAM = """
    import logging, os, signal, sys, threading, time
    logging.getLogger("tinker_ext").setLevel(logging.ERROR)  # a busy machine is a slow server
    from tinker_ext import ModelInput, SamplingParams, ServiceClient
    service = ServiceClient(base_url=sys.argv[1], api_key="tml-x")
    sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
    print(service.session_id, flush=True)
    futures = [sampler.sample(ModelInput.from_ints([1]), 1, SamplingParams(max_tokens=8))
               for _ in range(50)]
    {end}
"""


@pytest.mark.parametrize(
    ("end", "reason", "code"),
    [
        ("raise ValueError('mine')", "errored", 1),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)", "interrupted", -signal.SIGTERM),
    ],
)
def test_the_end_of_the_interpreter_ends_the_session(port, end, reason, code):
    """M21: exit is quick and quiet, and the server learns why the session ended.

    Other ends, and signals at any moment: tests/faults/test_clean_ends.py and test_process_life.py.
    """
    program = textwrap.dedent(PROGRAM).replace("{end}", end)
    ended = subprocess.run(
        [sys.executable, "-c", program, port.url],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/generated"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    session_id = ended.stdout.strip()
    assert session_id, ended.stderr
    assert ended.returncode == code, ended.stderr
    noise = ended.stderr
    if "mine" in end:
        assert noise.count("Traceback") == 1
    else:
        assert noise == ""
    world = port.app.world
    assert reason in repr(world.sessions[session_id])
