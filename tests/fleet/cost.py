"""What a fleet adds to one sample, in microseconds of processor time.

Everything a sample passes because of the fleet is called as the sampler calls it: the ledger's hold
before, the permit, the note of the answer, and the settling of the hold; the same without a fleet
in turn. The figure is the difference of the best rounds, without the time of other threads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

from tinker_ext import ModelInput, SamplingParams, ServiceClient  # noqa: E402
from tinker_ext.core.sample_pool import Sample, Source  # noqa: E402

MOST = 20.0
SAMPLES, ROUNDS = 1_000, 41


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
        watch.follow(call, call.result)
        if pool.limit.value > 0:
            pool.limit.accepted(in_flight=1)
        call.result.settle(answer)
    return time.thread_time() - began


def measure(samples: int = SAMPLES, rounds: int = ROUNDS) -> tuple[float, float]:
    """Microseconds a sample with and without a fleet."""
    with tempfile.TemporaryDirectory() as folder:
        with ServiceClient(base_url="embedded") as service:
            sampler = service.create_sampling_client(base_model="tinker-ext/tiny")
            prompt, params = ModelInput.from_ints([1, 2, 3]), SamplingParams(max_tokens=2)
            answer = sampler.sample(prompt, 1, params).result()
        plain = ServiceClient(base_url="http://127.0.0.1:9", api_key="k")
        member = ServiceClient(
            base_url="http://127.0.0.1:9", api_key="k", fleet=folder, budget=10**12
        )
        best = {"with": float("inf"), "without": float("inf")}
        for _ in range(rounds):
            for name, service in (("without", plain), ("with", member)):
                best[name] = min(best[name], round_of(service, answer, samples))
        plain.close().result()
        member.close().result()
    return best["with"] / samples * 1e6, best["without"] / samples * 1e6


def main() -> None:
    """Print the figure; exit code 1 when it is too high."""
    fleet, alone = measure()
    added = fleet - alone
    mark = "ok" if added < MOST else "MISSED"
    print(f"With a fleet {fleet:.1f} µs, without {alone:.1f} µs: {added:.1f} µs a sample "
          f"(< {MOST:.0f} µs) {mark}")  # fmt: skip
    sys.exit(0 if added < MOST else 1)


if __name__ == "__main__":
    main()
