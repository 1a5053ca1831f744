"""What it costs to record a run, and to open its log: `python tests/bench/bench_recording.py`.

The cost of recording is the time spent inside the recorder during a real run, as a share of the
run; so a busy machine slows both sides. Logs are opened by a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tinker_ext import AdamParams, Datum, ModelInput, SampleLog, SampleResponse, ServiceClient
from tinker_ext.mock import Server, Settings
from tinker_ext.observe.run_log import RunLogObserver, Waits
from tinker_ext.types import SampledSequence

MODEL = "tinker-ext/tiny"
STEP_SECONDS = 0.05
LINES = 1_000_000

OPEN = """
import json, re, sys, time
from pathlib import Path
started, cpu = time.perf_counter(), time.process_time()
from tinker_ext.ui.index import LogIndex
log = LogIndex(Path(sys.argv[1]))
log.advance()
rows = log.steps[log.target].curve("loss", "step", 0, 1e300, 600)
took, cpu = time.perf_counter() - started, time.process_time() - cpu
log.save()
most = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(json.dumps({"s": took, "cpu_s": cpu, "mb": int(most) / 1024, "lines": log.lines}))
"""


class Timed:
    """Adds up the CPU time of a method while the block runs."""

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name, self._plain = cls, name, getattr(cls, name)
        self.seconds = 0.0

    def __enter__(self) -> Timed:
        plain = self._plain

        def timed(*arguments: Any) -> Any:
            started = time.thread_time()
            try:
                return plain(*arguments)
            finally:
                self.seconds += time.thread_time() - started

        setattr(self._cls, self._name, timed)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self._cls, self._name, self._plain)


def share_of_a_step(steps: int) -> float:
    """Part of a step of 50 ms that its recording takes."""
    tokens = list(range(1, 129))
    batch = [Datum(ModelInput.from_ints(tokens[:-1]), {"target_tokens": tokens[1:]})] * 8
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Settings(latency=STEP_SECONDS)) as port,
        ServiceClient(base_url=port.url, api_key="tml-x", run_log=Path(folder)) as service,
    ):
        training = service.create_lora_training_client(MODEL, rank=4)
        started = time.perf_counter()
        with Timed(RunLogObserver, "notice") as first, Timed(Waits, "_tick") as second:
            for _ in range(steps):
                training.forward_backward(batch, "cross_entropy")
                training.optim_step(AdamParams()).result()
        spent = first.seconds + second.seconds
        # Measured against the shortest step a server could give, not against this machine's.
        return spent / steps / min(STEP_SECONDS, (time.perf_counter() - started) / steps)


def recording_samples(rounds: int) -> float:
    """Milliseconds to record 16 sequences of 256 tokens."""
    rng = np.random.default_rng(0)
    sequences = [
        SampledSequence("stop", tokens_np=rng.integers(0, 200, 256), logprobs_np=-rng.random(256))
        for _ in range(16)
    ]
    reply = SampleResponse(sequences)
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        log = SampleLog(folder)
        for step in range(rounds * 5):
            started = time.perf_counter()
            log.record("a prompt", reply, rewards=[1.0] * 16, step=step)
            best = min(best, time.perf_counter() - started)
    return best * 1000


def write_log(path: Path, lines: int = LINES) -> None:
    """A log as a long run leaves it: five lines a step."""
    head = '"session":"s-1","number":{0},"operation":"{1}","target":"m","model":"Qwen/Qwen3-8B"'
    start = '{{"type":"start","time":{2:.6f},' + head + "}}\n"
    end = (
        '{{"type":"operation","time":{2:.6f},' + head + ',"seconds":1.234567,"tokens_in":400,'
        '"tokens_out":0,"tokens":{{"train":400,"prefill":0,"sample":0}},"datums":16,"loss":{3},'
        '"metrics":{{"loss:sum":{3},"clock":12.0}},"request_id":"r-{0}","seq_id":{0},'
        '"attempts":2,"retries":0,"effect":"yes","error":null}}\n'
    )
    step = (
        '{{"type":"step","time":{2:.6f},"session":"s-1","step":{0},"target":"m","model":"M",'
        '"loss":{3},"loss_per_token":{3},"metrics":{{"loss:sum":{3},"clock":12.0,"kl":0.1}},'
        '"tokens":{{"train":400,"prefill":0,"sample":0}},"seconds":2.8,'
        '"totals":{{"train":400,"prefill":0,"sample":0,"cost":0.1}}}}\n'
    )
    with path.open("w") as file:
        for number in range(1, lines // 5 + 1):
            moment, loss, one, two = 1.7e9 + 3 * number, 900 / number, 2 * number - 1, 2 * number
            file.write(start.format(one, "forward_backward", moment))
            file.write(start.format(two, "optim_step", moment))
            file.write(end.format(one, "forward_backward", moment, loss))
            file.write(end.format(two, "optim_step", moment, loss))
            file.write(step.format(number, "", moment, loss))


def opening() -> dict[str, dict[str, float]]:
    """Seconds and megabytes to open a million lines: the first time, and with the index."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        write_log(path)
        found = {}
        for name in ("first", "index"):
            done = subprocess.run(
                [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True
            )
            found[name] = json.loads(done.stdout)
        return found


if __name__ == "__main__":
    print(f"recording a 50 ms step takes {share_of_a_step(100):.2%} of it")
    print(f"recording 16 samples of 256 tokens takes {recording_samples(5):.2f} ms")
    for name, figures in opening().items():
        print(f"opening {LINES:,} lines, {name}: {figures}")
