"""Run the simulation over many seeds: `python tests/simulation/run.py --seeds 10000`.

Every seed is one execution on a virtual clock: a program, a server profile and a network that
loses, repeats, delays and refuses. Every third seed meets an oddly behaved server instead
(`behaviours.py`), and what that costs is counted. A failure prints the seed; `--first SEED
--seeds 1 --trace` replays it.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve()
for place in (HERE.parents[2] / "generated", HERE.parents[2], HERE.parents[1]):
    sys.path.insert(0, str(place))

from simulation.conduct import Verdict, conduct  # noqa: E402
from simulation.execution import PROFILES, Outcome, execute  # noqa: E402

Ran = Outcome | Verdict


def one(seed: int) -> Ran:
    """Run a seed: bad weather, or every third time an odd server."""
    return conduct(seed) if seed % 3 == 2 else execute(seed)


class Report:
    """Adds up executions."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[Ran] = []
        self.virtual = 0.0
        self.odd: dict[str, list[Verdict]] = {}

    def add(self, outcome: Ran) -> None:
        """Take one execution in."""
        counts = self.counts
        if outcome.wrong:
            self.failures.append(outcome)
        if isinstance(outcome, Verdict):
            self.odd.setdefault(outcome.plan.name, []).append(outcome)
            return
        counts["executions"] += 1
        counts[f"executions on {outcome.plan.seq}"] += 1
        for name in ("requests", "faults", "restarts", "steps", "futures", "expired"):
            counts[name] += getattr(outcome, name)
        counts["lost answers"] += outcome.lost_answers
        counts["ended by UnsafeToRetryError"] += outcome.ended_early
        self.virtual += outcome.seconds

    def lines(self, seconds: float) -> Iterator[str]:
        """The report as text."""
        counts = self.counts
        profiles = ", ".join(f"{name} {counts[f'executions on {name}']}" for name in PROFILES)
        yield f"{counts['executions']} executions ({profiles}) in {seconds:.0f} s"
        yield (
            f"{counts['requests']} requests, {counts['faults']} faults, {counts['restarts']} "
            f"restarts of the server, {self.virtual / 3600:.0f} hours of virtual time"
        )
        yield (
            f"{counts['steps']} steps: {counts['lost answers']} applied with their answer lost, "
            f"{counts['expired']} ended at their deadline, {counts['ended by UnsafeToRetryError']} "
            "executions ended by a typed error on a server that ignores numbers"
        )
        yield (
            f"executions with a step applied twice, out of order or lost, weights that differ, "
            f"a future past its deadline, an unhandled error, or a task, thread or file left: "
            f"{sum(isinstance(each, Outcome) for each in self.failures)}"
        )
        if self.odd:
            yield from table(self.odd)


def table(odd: Mapping[str, list[Verdict]]) -> Iterator[str]:
    """What each odd behaviour cost, one row each."""
    yield f"{'odd server':32}{'runs':>6}{'requests/s':>12}{'longest call':>14}{'broken':>8}"
    for name, verdicts in sorted(odd.items()):
        rate = max(verdict.rate for verdict in verdicts)
        longest = max(verdict.longest for verdict in verdicts)
        broken = sum(bool(verdict.wrong) for verdict in verdicts)
        yield f"{name:32}{len(verdicts):6}{rate:12.1f}{longest:12.0f} s{broken:8}"


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the seeds and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many executions")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--trace", action="store_true", help="print the faults of each execution")
    options = parser.parse_args(None if arguments is None else list(arguments))
    seeds = range(options.first, options.first + options.seeds)
    began = time.monotonic()
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    report = Report()
    for outcome in _outcomes(seeds, options.jobs):
        report.add(outcome)
        if outcome.wrong or options.trace:
            _show(outcome, options.trace)
    print("\n".join(report.lines(time.monotonic() - began)))
    gc.collect()
    if files and len(os.listdir("/proc/self/fd")) > files + 8:
        print(f"files left open: {len(os.listdir('/proc/self/fd')) - files}")
        return 1
    return 1 if report.failures else 0


def _outcomes(seeds: range, jobs: int) -> Iterator[Ran]:
    if jobs <= 1 or len(seeds) < 50:
        yield from map(one, seeds)
        return
    # Modules are left out of every later garbage collection: a twentieth of the time.
    with multiprocessing.get_context("spawn").Pool(jobs, gc.freeze) as pool:
        yield from pool.imap(one, seeds, chunksize=20)
        # Not by the signal that leaving the block sends: a process with a handler of its own for it
        # misses one that comes just before it waits, and is then waited for without end.
        pool.close()
        pool.join()


def _show(outcome: Ran, trace: bool) -> None:
    plan = outcome.plan
    print(f"seed {plan.seed}: {plan}")
    for line in outcome.wrong:
        print(f"    {line}")
    if outcome.wrong and not trace:
        print(f"    replay: python tests/simulation/run.py --first {plan.seed} --seeds 1 --trace")
    if trace:
        print("\n".join(f"    {line}" for line in outcome.trace))


if __name__ == "__main__":
    sys.exit(main())
