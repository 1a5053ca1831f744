"""The embedded server and processes: a forked copy works on, a spawned one says what it lacks.

Loggers stay with the process that made them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import multiprocessing, os, threading
from concurrent.futures import ProcessPoolExecutor
from tinker_ext import AdamParams, Datum, ModelInput, SamplingParams, ServiceClient

MODEL = "tinker-ext/tiny"
PROMPT = ModelInput.from_ints([1, 2, 3])
PARAMS = SamplingParams(max_tokens=3, seed=1)
DATUM = Datum(PROMPT, {"target_tokens": [2, 3, 4]})


def sample(client):
    try:
        return client.sample(PROMPT, 1, PARAMS).result(300).sequences[0].tokens
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def forked(work):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

AFTER_THE_SAME_REQUEST = """
service = ServiceClient(base_url="embedded")
sampler = service.create_sampling_client(base_model=MODEL)
training = service.create_lora_training_client(MODEL, rank=4)
before = sample(sampler)
training.forward_backward([DATUM], "cross_entropy").result()


def child():
    assert sample(sampler) == before
    assert sample(service.create_sampling_client(base_model=MODEL)) == before
    own = service.create_lora_training_client(MODEL, rank=4)
    own.forward_backward([DATUM], "cross_entropy").result(300)
    own.optim_step(AdamParams()).result(300)


assert forked(child) == 0
assert sample(sampler) == before
training.optim_step(AdamParams()).result(300)
"""

IN_THE_MIDST_OF_WORK = """
service = ServiceClient(base_url="embedded")
sampler = service.create_sampling_client(base_model=MODEL)
training = service.create_lora_training_client(MODEL, rank=4)
before = sample(sampler)
done = threading.Event()


def busy():
    while not done.is_set():
        sampler.sample(PROMPT, 1, PARAMS).result()
        training.forward_backward([DATUM], "cross_entropy").result()
        training.optim_step(AdamParams()).result()


threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()


def child():
    other = ServiceClient(base_url="embedded")
    assert sample(other.create_sampling_client(base_model=MODEL)) == before
    own = other.create_lora_training_client(MODEL, rank=4)
    own.forward_backward([DATUM], "cross_entropy").result(300)


codes = [forked(child) for _ in range(5)]
done.set()
for thread in threads:
    thread.join()
assert codes == [0] * 5, codes
"""

POOLS = """
if __name__ == "__main__":
    service = ServiceClient(base_url="embedded")
    base = service.create_sampling_client(base_model=MODEL)
    training = service.create_lora_training_client(MODEL, rank=4)
    trained = training.save_weights_and_get_sampling_client()
    mine = [sample(base), sample(trained)]
    context = multiprocessing.get_context({how!r})
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        theirs = list(pool.map(sample, [base, trained, base]))
    assert mine[0] == theirs[0] == theirs[2], (mine, theirs)
    if {how!r} == "fork":
        assert theirs[1] == mine[1], theirs
    else:
        assert "lives in one process only" in theirs[1], theirs
        assert "tinker-ext serve" in theirs[1], theirs
"""


def run(tmp_path, text):
    """Run a program of its own: a fork copies every thread's locks, also those of pytest."""
    path = tmp_path / "program.py"
    path.write_text(START + text)
    # Nothing of the caller's environment may choose another server or other settings.
    outside = {k: v for k, v in os.environ.items() if not k.startswith("TINKER_")}
    ended = subprocess.run(
        [sys.executable, str(path)],
        env={**outside, "PYTHONPATH": f"{ROOT}:{ROOT}/generated"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "program", [AFTER_THE_SAME_REQUEST, IN_THE_MIDST_OF_WORK], ids=["idle", "busy"]
)
def test_a_forked_child_works_on_its_copy_of_the_embedded_server(tmp_path, program):
    """M40: no request of the child hangs, whatever the parent was doing when it forked."""
    run(tmp_path, program)


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_samplers_of_the_embedded_server_in_a_pool(tmp_path, how):
    """M23 M40: a base model is found again by name; trained weights elsewhere are an error."""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    run(tmp_path, POOLS.format(how=how))


RUNS = """
from tinker_ext import Run

OPTIONS = dict(base_model=MODEL, rank=4, seed=3, base_url="embedded")


def killed():
    with Run("journal", **OPTIONS) as run:
        for step in run.steps(2):
            run.training.forward_backward([DATUM], "cross_entropy")
            run.training.optim_step(AdamParams()).result()
            if step == 1:
                os._exit(9)


def again():
    other = ServiceClient(base_url="embedded").create_lora_training_client(MODEL, rank=4, seed=9)
    with Run("journal", **OPTIONS) as run:
        assert next(iter(run.steps(2))) == 0
        assert run.how == "restarted"
        assert run.training.model_id != other.model_id


assert forked(killed) == 9
assert forked(again) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_run_of_one_forked_child_does_not_take_up_a_model_of_the_next(tmp_path, monkeypatch):
    """M20, M44: each has a server of its own, and they give the same ids."""
    monkeypatch.chdir(tmp_path)
    run(tmp_path, RUNS)


LOGGED = """
import os, sys
from tinker_ext import log_to

parent = os.getpid()


class Printer:
    def log(self, step, values, time):
        print(step, "by the parent" if os.getpid() == parent else "by the child", flush=True)

    def flush(self): ...

    def close(self):
        self.log("closed", {}, 0.0)


log = log_to("run", Printer())
log.write("step", step=1, loss=2.5)
if not os.fork():
    sys.exit()
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_that_ends_leaves_the_loggers_to_its_parent(tmp_path):
    """M34: each step arrives once, and the run over there ends with the parent."""
    found = subprocess.run(
        [sys.executable, "-c", LOGGED], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert found.stdout == "1 by the parent\nclosed by the parent\n", found.stderr
