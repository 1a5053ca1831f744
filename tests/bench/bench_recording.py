"""What it costs to record a run, and to open its log: `python tests/bench/bench_recording.py`.

The cost of recording is the time spent inside the recorder during a real run, as a share of the
run; so a busy machine slows both sides. A log is opened by the command, as a user does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson

from tinker_ext import AdamParams, Datum, ModelInput, SampleLog, SampleResponse, ServiceClient
from tinker_ext.mock import Server, Settings
from tinker_ext.observe.index import LogIndex
from tinker_ext.observe.run_log import INDEXED_BYTES, RunLogObserver, Waits
from tinker_ext.types import SampledSequence

MODEL = "tinker-ext/tiny"
STEP_SECONDS = 0.05
LINES = 1_000_000


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
    """A log as a long run leaves it: 58 lines for ten steps, like those of a real client."""
    session = "5973c959-947b-49e8-aa28-cd7f8d7524fe"
    target, names = f"{session}:train:0", ("loss:sum", "grad_norm:mean", "learning_rate:mean")
    tokens = {"train": 1016, "prefill": 0, "sample": 0}
    number = 0
    with path.open("wb") as file:

        def write(kind: str, **fields: Any) -> None:
            line = {"type": kind, "time": round(now, 6), "session": session, **fields}
            file.write(orjson.dumps(line) + b"\n")

        now = 1.7e9
        write("session_start", version=1, client="0.2.0", budget={}, currency="USD")
        for step in range(1, lines * 10 // 58 + 1):
            about = []
            for operation in ("forward_backward", "optim_step"):
                number, now = number + 1, now + 0.700123
                call = {"number": number, "operation": operation, "target": target}
                about.append(call | {"model": "Qwen/Qwen3-8B"})
                write("start", **about[-1])
            if step % 5 < 3:
                state = {"lane": "train", "stage": "waiting", "since": round(now, 3),
                         "deadline": round(now + 86400, 3), "attempts": 1, "retries": 0,
                         "cause": None, "state": None, "reason": None,
                         "request_id": f"req-{number:08}", "seq_id": number}  # fmt: skip
                write("waiting", count=2, calls=[call | state for call in about])
            metrics = dict.fromkeys(names, 900 / step)
            for call in about:
                write("operation", **call, seconds=1.682885, tokens_in=1016, tokens_out=0,
                      tokens=tokens, datums=8, loss=900 / step, loss_per_token=0.9 / step,
                      metrics=metrics, request_id=f"req-{number:08}", seq_id=number, attempts=1,
                      retries=0, effect="yes", error=None)  # fmt: skip
            write("step", step=step, target=target, model="Qwen/Qwen3-8B", loss=900 / step,
                  loss_per_token=0.9 / step, metrics=metrics, tokens=tokens, seconds=1.4,
                  totals=tokens | {"cost": 0.01 * step})  # fmt: skip
            if step % 5 == 0:
                write("time", seconds=2.8, server=2.5, queue=0.0, network=0.2, us=0.1,
                      totals=tokens | {"cost": 0.01 * step})  # fmt: skip


def opening() -> dict[str, dict[str, float]]:
    """What one waits for after `tinker-ext ui`, on a million lines.

    Seconds by the clock and of CPU from the start of the command until the run is shown by the end
    of its log, and until it is shown whole, with its curve; and the megabytes that took. First with
    the index as a run that was killed leaves it, and then without one.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        write_log(path)
        kept = LogIndex(path)
        while kept.advance(INDEXED_BYTES):  # as the run does, all along; saves it every few MB
            pass
        found = {"index": _open(folder)}
        path.with_name("metrics.jsonl.index").unlink()
        return found | {"alone": _open(folder)}


def _open(folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tinker_ext", "--format", "json", "ui", folder, "--port", "0"]
    started, found = time.perf_counter(), dict[str, float]()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            text = b""
            while not text.endswith(b"}\n"):
                text += process.stdout.readline()  # type: ignore[union-attr]
            address = orjson.loads(text)["url"]
            with httpx.Client(base_url=address.split("?")[0], timeout=60) as client:
                client.get(address)
                name = Path(folder).name
                while "whole_s" not in found:
                    run = client.get("/api/run", params={"id": name})
                    if run.status_code == 200:
                        query = {"id": name, "metric": "loss/token"}
                        assert client.get("/api/curves", params=query).json()["lines"][0]["rows"]
                        for when in ("shown", "whole")[: 1 + (run.json()["state"] != "reading")]:
                            found.setdefault(f"{when}_s", time.perf_counter() - started)
                            found.setdefault(f"{when}_cpu_s", _cpu(process.pid))
                    time.sleep(0.01)
            status = Path(f"/proc/{process.pid}/status").read_text()
            return found | {"mb": int(status.partition("VmHWM:")[2].split()[0]) / 1024}
        finally:
            process.terminate()


def _cpu(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(f"recording a 50 ms step takes {share_of_a_step(100):.2%} of it")
    print(f"recording 16 samples of 256 tokens takes {recording_samples(5):.2f} ms")
    for name, figures in opening().items():
        print(f"opening {LINES:,} lines, {name}: {figures}")
