"""100,000 queued samples for minutes or hours: what each costs, and that nothing grows.

Run `python tests/load/soak.py --minutes 30` (0.3 for a smoke test). The embedded server runs in a
process of its own and shows each result seconds after it was computed, so that 2,000 samples are
in flight. Every finished sample is replaced by a new one. The figures and their limits are
printed; the exit code is 1 when one is exceeded.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import psutil

from tinker_ext import Config, ModelInput, SamplingParams, ServiceClient

ROOT = Path(__file__).parents[2]
MODEL = "tinker-ext/tiny"
PARAMS = SamplingParams(max_tokens=1, seed=1)
LIMITS = {
    "bytes per queued sample": 3072,
    "growth of memory, %": 5.0,
    "file descriptors": 255,
    "loop lag p99, ms": 50.0,
    "loop lag p99 of own work, ms": 50.0,
    "samples failed": 0,
}
LONG = 30.0
"""Minutes from which the loop's lag is judged by the clock, on a machine that is not busy."""
SERVER = """
import sys
from tinker_ext.mock import Settings, serve
settings = Settings(
    latency=float(sys.argv[1]),
    log_size=100,
    session_ttl=3600,
    client_config={"sample_use_retrieve_futures": sys.argv[2] == "batched"},
)
serve(settings, on_ready=lambda url: print(url, flush=True))
"""


class Lag:
    """Measures how late the core's loop wakes up, and how much of that is its own work.

    On a busy machine a loop is also late because other processes have the processor.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self.own: list[float] = []
        self.going = True

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while self.going:
            due, worked = loop.time() + 0.02, time.thread_time()
            await asyncio.sleep(0.02)
            late = loop.time() - due
            self.late.append(late)
            self.own.append(max(0.0, min(late, time.thread_time() - worked)))

    def percentile(self, share: float, *, own: bool = False) -> float:
        ordered = sorted(self.own if own else self.late)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Feeder:
    """Keeps the queue full: whenever a sample ends, another one is submitted."""

    def __init__(self, sampler: object, prompts: list[ModelInput]) -> None:
        self.sampler = sampler
        self.prompts = deque(prompts)
        self.finished = self.failed = 0
        self.ended: deque[object] = deque()
        self.woken = threading.Event()

    def submit(self) -> None:
        prompt = self.prompts[0]
        self.prompts.rotate(-1)
        future = self.sampler.sample(prompt, 1, PARAMS)
        future.add_done_callback(self._on_end)

    def _on_end(self, future: object) -> None:
        self.ended.append(future)
        self.woken.set()

    def refill(self) -> None:
        """Replace what has ended; called by the user's thread."""
        self.woken.wait(0.1)
        self.woken.clear()
        while self.ended:
            future = self.ended.popleft()
            self.finished += 1
            if future.cancelled() or future.exception() is not None:
                self.failed += 1
                if self.failed <= 3:
                    print("failed:", future.exception(), flush=True)
            self.submit()


def soak(arguments: argparse.Namespace, url: str) -> dict[str, float]:
    process = psutil.Process()
    config = Config.from_env(base_url=url)
    service = ServiceClient(base_url=url, api_key="tml-load", config=config)
    sampler = service.create_sampling_client(base_model=MODEL)
    sampler.sample(ModelInput.from_ints([1]), 1, PARAMS).result(60)
    prompts = [
        ModelInput.from_ints([(i * 31 + k) % 250 for k in range(arguments.tokens)])
        for i in range(arguments.queued)
    ]
    gc.collect()
    before = process.memory_info().rss
    feeder = Feeder(sampler, prompts)
    started = time.monotonic()
    for _ in range(arguments.queued):
        feeder.submit()
    queueing = time.monotonic() - started
    gc.collect()
    each = (process.memory_info().rss - before) / arguments.queued
    lag = Lag()
    probe = service.holder.submit(lag.watch())
    samples = service.holder.samples
    memory: list[tuple[float, int]] = []
    descriptors = most = 0
    started = time.monotonic()
    seconds = arguments.minutes * 60
    told = started
    while (now := time.monotonic()) < started + seconds:
        feeder.refill()
        if not memory or now - memory[-1][0] > max(0.25, seconds / 400):
            memory.append((now, process.memory_info().rss))
            descriptors = max(descriptors, process.num_fds())
            most = max(most, samples.in_flight)
        if now - told > 60:
            told = now
            print(
                f"{(now - started) / 60:.0f} min: {feeder.finished} samples, "
                f"{memory[-1][1] / 1e6:.0f} MB, {descriptors} descriptors, "
                f"lag p99 {lag.percentile(0.99):.1f} ms",
                flush=True,
            )
    queued, rate = samples.queued, feeder.finished / (time.monotonic() - started)
    lag.going = False
    probe.result(5)
    failed = feeder.failed
    service.close("success").result(30)
    return {
        "samples queued": queued,
        "samples in flight": most,
        "samples a second": rate,
        "seconds to queue them": queueing,
        "bytes per queued sample": each,
        "memory, MB": memory[-1][1] / 1e6,
        "growth of memory, %": growth(memory),
        "file descriptors": descriptors,
        "loop lag p50, ms": lag.percentile(0.5),
        "loop lag p99, ms": lag.percentile(0.99),
        "loop lag p99 of own work, ms": lag.percentile(0.99, own=True),
        "samples failed": failed,
        "load of the machine": os.getloadavg()[0] / (os.cpu_count() or 1),
    }


def growth(memory: list[tuple[float, int]]) -> float:
    """By how many percent memory grew over the second half, from its first to its last fifth."""
    half = [size for _, size in memory[len(memory) // 2 :]]
    fifth = max(1, len(half) // 5)
    first, last = sum(half[:fifth]) / fifth, sum(half[-fifth:]) / fifth
    return 100 * (last - first) / first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=32, help="of a prompt")
    parser.add_argument("--latency", type=float, default=8.0, help="seconds of a sample")
    parser.add_argument("--polling", choices=["batched", "single"], default="batched")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(arguments.latency), arguments.polling],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/generated"},
    )
    try:
        figures = soak(arguments, server.stdout.readline().strip())
    finally:
        server.terminate()
        server.wait(10)
    if arguments.minutes < LONG or figures["load of the machine"] > 1.5:
        print("A short run, or a busy machine: the loop's lag is judged by its own work.")
        del LIMITS["loop lag p99, ms"]
    bad = 0
    for name, figure in figures.items():
        limit = LIMITS.get(name)
        over = limit is not None and figure > limit
        bad += over
        text = "" if limit is None else f"   (limit {limit:g}{', EXCEEDED' if over else ''})"
        print(f"{name:32} {figure:12.1f}{text}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
