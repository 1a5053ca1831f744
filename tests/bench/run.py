"""tinker-ext side by side with the official SDKs, in one run, as ratios: `nox -s bench`.

The interpreters of the official SDKs come in TINKER_BENCH_0_36_0 and TINKER_BENCH_0_4_1. Exit code
1 when a figure misses what it must reach at least, after it was measured anew. The short form has
no say on figures in milliseconds, which tell more about the machine than about us.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import bench_generated
import report
from contest import OURS, ROOT, Contest, Figures, contest, interpreters
from report import Curve, Row

NEW, OLD = "0.36.0", "0.4.1"
SPREAD = 10_000
"""Samples over which a point of our curve is the mean."""

AGAIN = 2
"""How often a part that missed is measured anew."""
TOUCH = "import {0}; {0}.ServiceClient; {0}.types.Datum; {0}.types.TensorData"


@attrs.frozen
class Plan:
    """How much is measured.

    Attributes:
        rounds: Turns of short tasks.
        few: Turns of long tasks.
        old: Turns of the slowest contender.
        queued: Points of our curve.
        steps: Training steps submitted ahead.
    """

    rounds: int
    few: int
    old: int
    queued: tuple[int, ...]
    steps: int

    def each(self, ours: int, official: int, old: int = 0) -> dict[str, int]:
        """Turns of each contender."""
        turns = {OURS: ours, NEW: official}
        return {**turns, OLD: min(old, self.old)} if self.old and old else turns


QUICK = Plan(rounds=4, few=2, old=0, queued=(100, 1_000, 10_000, 100_000), steps=60)
FULL = Plan(rounds=10, few=3, old=2, queued=(100, 1_000, 10_000, 100_000), steps=60)


def only(figures: Figures, key: str) -> dict[str, float]:
    """One figure of each contender."""
    return {name: values[key] for name, values in figures.items()}


def starting(field: Contest, plan: Plan) -> Iterator[Row]:
    """Import times."""
    plain = {OURS: "import tinker_ext", NEW: "import tinker", OLD: "import tinker"}
    touched = {name: TOUCH.format("tinker_ext" if name == OURS else "tinker") for name in plain}
    if not plan.old:
        del plain[OLD], touched[OLD]
    yield Row("import", "ms", only(field.imports(plain, plan.rounds), "ms"), 3, 6)
    figures = only(field.imports(touched, plan.rounds), "ms")
    yield Row("import and use clients and types", "ms", figures)


def batches(field: Contest, plan: Plan) -> Iterator[Row]:
    """Training batches: written, and sent and answered."""
    turns = plan.each(2 * plan.rounds, plan.rounds, 1)
    shape = {"datums": 128, "length": 4096}
    built = only(field.turns("build", turns, tokens="numpy", **shape), "ms")
    yield Row("build + serialise 128 × 4096, numpy", "ms", built, 3, 5)
    built = only(field.turns("build", turns, tokens="lists", **shape), "ms")
    yield Row("build + serialise 128 × 4096, token lists", "ms", built)
    url, turns = f"{field.url}/length=128", plan.each(4 * plan.rounds, 4 * plan.rounds, 1)
    trips = field.turns("round_trip", turns, url=url, datums=8, length=128, calls=60)
    yield Row("forward_backward 8 × 128, round trip", "ms", only(trips, "ms"), 3, 6)
    url, turns = f"{field.url}/length=4096", plan.each(2 * plan.few, plan.few, 1)
    trips = field.turns("round_trip", turns, url=url, datums=256, length=4096, calls=3)
    yield Row("forward_backward 256 × 4096", "ms", only(trips, "ms"), 2, 3)


def ahead(field: Contest, plan: Plan) -> Iterator[Row]:
    """A GPU behind a network, kept busy."""
    url, turns = f"{field.url}/rtt=30,gpu=50", plan.each(plan.few, plan.few, 1)
    steps = only(field.turns("ahead", turns, warm=False, url=url, steps=plan.steps), "ms")
    work = f"50 ms GPU step behind a 30 ms round trip, {plan.steps} submitted ahead"
    yield Row(work, "ms", steps, 53, 51, absolute=True)


def sampling(field: Contest, plan: Plan) -> Iterator[Row]:
    """Samples at once: rate and memory."""
    url = f"{field.url}/free"
    field.turns("samples", plan.each(1, 1, 1), warm=False, url=url, count=200)
    for count, least, aim in ((2_000, 6, 15), (10_000, 8, 20)):
        once = 1 if count > 2_000 else plan.few
        turns = plan.each(plan.few + 1, once, once)
        rates = field.turns("samples", turns, warm=False, url=url, count=count)
        work = f"{count:,} concurrent samples"
        yield Row(work, "/s", only(rates, "per_s"), least, aim, more_is_better=True)
        yield Row(f"{work}, client CPU each", "µs", only(rates, "cpu_us"))
    held = f"{field.url}/hold=1"
    for count in (2_000, 10_000):
        sizes = only(field.fresh("memory", [OURS, NEW], url=held, free=url, count=count), "kb")
        work = f"memory of each of {count:,} pending samples"
        yield Row(work, "KB", sizes, 10, 6, absolute=True)


def generated(field: Contest, plan: Plan) -> Iterator[Row]:
    """The generated layer against raw orjson."""
    for name, ratio in bench_generated.measure(3 * plan.rounds).items():
        yield Row(f"generated: {name}", "× orjson", {OURS: ratio}, 1.3, absolute=True)


def curve(field: Contest, plan: Plan) -> list[Curve]:
    """CPU per sample from few to many queued ones.

    A machine is fast and slow by turns, for seconds each, so every point is the mean over as many
    samples: a hundred times 100 against once 10,000. The points take turns, and the best counts.
    """
    url = f"{field.url}/free"
    curves = []
    for name, counts in {OURS: plan.queued, NEW: plan.queued[:3]}.items():
        if name not in field.pythons:
            continue
        points: dict[int, float] = {}
        for _ in range(plan.few if name == OURS else 1):
            for count in counts:
                times = max(1, SPREAD // count) if name == OURS else 1
                work = field.worker(name)
                costs = [work.do("samples", url=url, count=count)["cpu_us"] for _ in range(times)]
                mean = sum(costs) / times
                points[count] = min(mean, points.get(count, mean))
        curves.append(Curve(name, points))
    return curves


def flatness(ours: Curve) -> Row:
    """How much dearer the last of many queued samples is."""
    few, *_, many = ours.points
    work = f"cost of a sample, {many:,} queued against {few:,}"
    return Row(work, "×", {OURS: ours.points[many] / ours.points[few]}, 1.5, 1.25, absolute=True)


PARTS = {
    "import": starting,
    "batches": batches,
    "ahead": ahead,
    "sampling": sampling,
    "generated": generated,
}


def measure(
    part: Callable[[Contest, Plan], Iterator[Row]], field: Contest, plan: Plan
) -> list[Row]:
    """One part of the table; what misses is measured anew, and the best of each counts."""
    rows = list(part(field, plan))
    for _ in range(AGAIN):
        if all(row.reaches(row.least) is not False for row in rows):
            break
        rows = [row.best(again) for row, again in zip(rows, part(field, plan), strict=True)]
    return rows


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more turns, and 0.4.1 too")
    parser.add_argument("--only", nargs="+", choices=[*PARTS, "curve"], default=[*PARTS, "curve"])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="for the files")
    parser.add_argument("--docs", action="store_true", help="put the table into the documentation")
    options = parser.parse_args()
    plan = FULL if options.full else QUICK
    pythons = interpreters()
    print(report.machine(), flush=True)
    print("contenders:", ", ".join(pythons), flush=True)
    if NEW not in pythons:
        print("official 0.36.0 is not here: no ratios (nox -s bench installs it)", file=sys.stderr)
    rows: list[Row] = []
    curves: list[Curve] = []
    with contest(pythons) as field:
        for name, part in PARTS.items():
            if name in options.only:
                print(time.strftime("%H:%M:%S"), name, flush=True)
                rows += measure(part, field, plan)
        if "curve" in options.only:
            print(time.strftime("%H:%M:%S"), "curve", flush=True)
            curves = curve(field, plan)
            rows.append(flatness(curves[0]))
    print()
    print(report.text(rows, curves))
    if curves:
        report.write(options.out, rows, curves)
        if options.docs:
            report.publish(ROOT / "docs", rows, curves)
    missed = [row for row in rows if row.reaches(row.least) is False]
    for row in missed:
        print(f"missed: {row.work}", file=sys.stderr)
    return int(any(options.full or not row.is_time for row in missed))


if __name__ == "__main__":
    raise SystemExit(main())
