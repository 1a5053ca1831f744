"""What a fleet adds to one sample, in microseconds of processor time.

Everything a sample passes because of the fleet is called as the sampler calls it: the ledger's hold
before, the permit, the note of the answer, and the settling of the hold; the same without a fleet
in turn. The figure is the difference of the best rounds, without the time of other threads; rounds
are short, so that some of them end before another program takes the processor and its caches. The
limit is that of a machine which does `reference` in 35 µs, and moves with the machine. What
a report costs the thread of a member, on SQLite and at best, is shown besides.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

from tinker_ext import ModelInput, SamplingParams, ServiceClient  # noqa: E402
from tinker_ext.core.sample_pool import Sample, Source  # noqa: E402
from tinker_ext.fleet import Member  # noqa: E402

MOST, REFERENCE = 20.0, 35.0
SAMPLES, ROUNDS = 50, 800


def reference() -> float:
    """Seconds for a fixed piece of Python: what this machine takes for the like."""
    began = time.thread_time()
    found = {i: (i, str(i)) for i in range(200)}
    sum(len(text) for _, text in found.values())
    return time.thread_time() - began


def round_of(service: ServiceClient, answer: Any, samples: int) -> float:
    """Seconds for what `samples` samples pass."""
    workspace = service._workspace
    watchers, pool = workspace.watchers, workspace.samples
    prompt, params = ModelInput.from_ints([1, 2, 3]), SamplingParams(max_tokens=2)
    source = Source("s", {}, None)
    calls = [Sample(source, prompt, 1, params, None, 0.0, 1e9) for _ in range(samples)]
    began = time.thread_time()
    for call in calls:
        watch = watchers.begin_sample("s", prompt, 1, 2)
        if watch is not None:
            watch.follow(call, call.result)
        if pool.limit.value > 0:
            pool.limit.accepted(in_flight=1)
        call.result.settle(answer)
    return time.thread_time() - began


def measure(samples: int = SAMPLES, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Microseconds a sample with and without a fleet, and those of the reference."""
    with tempfile.TemporaryDirectory() as folder:
        with ServiceClient(base_url="embedded") as service:
            sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
            prompt, params = ModelInput.from_ints([1, 2, 3]), SamplingParams(max_tokens=2)
            answer = sampler.sample(prompt, 1, params).result()
        plain = ServiceClient(base_url="http://127.0.0.1:9", api_key="k")
        member = ServiceClient(
            base_url="http://127.0.0.1:9", api_key="k", fleet=folder, budget=10**12
        )
        best = dict.fromkeys(("with", "without", "reference"), float("inf"))
        for _ in range(rounds):
            best["reference"] = min(best["reference"], reference())
            for name, service in (("without", plain), ("with", member)):
                best[name] = min(best[name], round_of(service, answer, samples))
        plain.close().result()
        member.close().result()
    each = 1e6 / samples
    return best["with"] * each, best["without"] * each, best["reference"] * 1e6


def report(members: int, rounds: int = 200) -> tuple[float, float]:
    """Kilobytes that a folder keeps of so many members, and milliseconds for a report of one."""
    samples: Any = Namespace(
        in_flight=4, queued=9, active=4, accepted=4, refused=(), limit_changed=None, most=2000,
        server=Namespace(base_url="http://127.0.0.1:9", fingerprint="k",
                         runtime=Namespace(call=lambda step: None)),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        fleet = [Member(folder, samples, "bench") for _ in range(members)]
        for member in fleet:
            member.sync()
        best = float("inf")
        for number in range(rounds):
            began = time.thread_time()
            fleet[number % members].sync()
            best = min(best, time.thread_time() - began)
        (kept,) = fleet[0].store.look().values()
        for member in fleet:
            member.store.close()
    return len(kept.text()) / 1000, 1000 * best


def main() -> None:
    """Print the figures; exit code 1 when a sample costs too much."""
    fleet, alone, speed = measure()
    added, most = fleet - alone, MOST * speed / REFERENCE
    mark = "ok" if added < most else "MISSED"
    print(f"With a fleet {fleet:.1f} µs, without {alone:.1f} µs: {added:.1f} µs a sample "
          f"(< {most:.0f} µs on this machine) {mark}")  # fmt: skip
    for members in (50, 200):
        size, took = report(members)
        print(f"{members} members: {size:.0f} kB in the store, {took:.1f} ms a report")
    sys.exit(0 if added < most else 1)


if __name__ == "__main__":
    main()
