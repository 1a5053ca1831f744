"""tinker-ext side by side with the official SDKs, in one run, as ratios: `nox -s bench`.

The interpreters of the official SDKs come in TINKER_BENCH_0_36_0 and TINKER_BENCH_0_4_1. Exit code
1 when a figure misses what it must reach at least, after it was measured anew. The short form
judges with slack (`report.SLACK`), since its machine may be busy; `--full` judges every figure as
it stands.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import attrs
import bench_fleet
import bench_generated
import bench_recording
import report
from contest import OURS, ROOT, Contest, Figures, Worker, contest, interpreters
from report import FLOOR, Curve, Record, Row

NEW, OLD = "0.36.0", "0.4.1"
SPREAD = 10_000
"""Samples over which a point of our curve is the mean."""

AGAIN = 2
"""How often a part that missed is measured anew."""
FIRST = "import {0}; {0}.ServiceClient(base_url='{1}').create_lora_training_client('bench/tiny')"
TOUCH = "import {0}; {0}.ServiceClient; {0}.types.Datum; {0}.types.TensorData"


FORMS = frozenset({"lists", "numpy"} | ({"torch"} if importlib.util.find_spec("torch") else set()))
"""torch only where our environment has it."""


@attrs.frozen
class Plan:
    """How much is measured.

    Attributes:
        rounds: Turns of short tasks.
        few: Turns of long tasks.
        old: Turns of the slowest contender.
        many: Whether the official SDK has thousands of samples, for minutes.
        forms: Forms of what users have in hand.
    """

    rounds: int
    few: int
    old: int
    many: bool
    forms: frozenset[str] = FORMS

    def each(self, ours: int, official: int, old: int = 0) -> dict[str, int]:
        """Turns of each contender."""
        turns = {OURS: ours, NEW: official}
        return {**turns, OLD: min(old, self.old)} if self.old and old else turns


QUICK = Plan(rounds=4, few=2, old=0, many=False)
FULL = Plan(rounds=10, few=2, old=2, many=True)
STEPS = 60
"""Training steps submitted ahead."""
QUEUED = (100, 1_000, 10_000, 100_000)
"""Points of our curve; the official SDK has no patience for the last."""


def only(figures: Figures, key: str) -> dict[str, float]:
    """One figure of each contender."""
    return {name: values[key] for name, values in figures.items()}


def starting(field: Contest, plan: Plan) -> Iterator[Row]:
    """Import times, and how long until a first client is there."""
    plain = {OURS: "import tinker_ext", NEW: "import tinker", OLD: "import tinker"}
    if not plan.old:
        del plain[OLD]
    names = {name: "tinker_ext" if name == OURS else "tinker" for name in plain}
    touched = {name: TOUCH.format(package) for name, package in names.items()}
    first = {name: FIRST.format(package, field.url) for name, package in names.items()}
    yield Row("import, CPU", "ms", only(field.imports(plain, plan.few), "ms"), 3, 6)
    figures = only(field.imports(touched, plan.few), "ms")
    yield Row("import and use clients and types, CPU", "ms", figures)
    figures = only(field.imports(first, plan.few), "ms")
    yield Row("import and a first training client, CPU", "ms", figures, 3, 6)


LARGE = {"datums": 256, "length": 4096}


def constructing(field: Contest, plan: Plan) -> Iterator[Row]:
    """Training batches made of what users have in hand."""
    turns = plan.each(2 * plan.rounds, 2 * plan.rounds, 1)
    targets = (("lists", 2, 4), ("numpy", 3, 6), ("torch", None, None))
    for form, least, aim in targets:
        if form in plan.forms:
            url = f"{field.url}/length=4096"
            made = field.turns("construct", turns, url=url, form=form, **LARGE)
            work = f"construct 256 × 4,096 from {form}"
            yield Row(work, "ms", only(made, "ms"), least, aim)
            yield Row(f"{work}, CPU", "ms", only(made, "cpu_ms"))
    turns = plan.each(plan.few, plan.few)
    for form, least, aim in targets[:2]:
        cold = field.fresh("construct", turns, url="", form=form, **LARGE)
        work = f"construct 256 × 4,096 from {form}, the first of a process"
        yield Row(work, "ms", only(cold, "ms"), least, aim)


def building(field: Contest, plan: Plan) -> Iterator[Row]:
    """The same, and written."""
    shape = {"datums": 128, "length": 4096}
    turns = plan.each(plan.rounds, plan.rounds)
    built = only(field.turns("build", turns, form="arrays", **shape), "ms")
    yield Row("build + serialise 128 × 4,096, tokens as arrays too", "ms", built, 3, 5)
    built = only(field.turns("build", turns, form="numpy", **shape), "ms")
    yield Row("build + serialise 128 × 4,096 from numpy", "ms", built)


def small_batches(field: Contest, plan: Plan) -> Iterator[Row]:
    """A small training batch: made, sent, answered, and the logprobs read as arrays."""
    url, turns = f"{field.url}/length=128", plan.each(4 * plan.rounds, 4 * plan.rounds, 1)
    small = {"datums": 8, "length": 128, "form": "numpy", "calls": 60}
    trips = field.turns("round_trip", turns, url=url, **small)
    yield Row("forward_backward 8 × 128, round trip", "ms", only(trips, "ms"), 4.5, 6)


def batches(field: Contest, plan: Plan) -> Iterator[Row]:
    """The same with a large one."""
    url, turns = f"{field.url}/length=4096", plan.each(2 * plan.rounds, 2 * plan.rounds)
    for form, least, aim in (("lists", 1.8, 2.5), ("numpy", 2.5, 3.5), ("torch", None, None)):
        if form in plan.forms:
            trips = field.turns("round_trip", turns, url=url, calls=2, form=form, **LARGE)
            work = f"build + forward_backward + read 256 × 4,096 from {form}"
            yield Row(work, "ms", only(trips, "ms"), least, aim)
            yield Row(f"{work}, client CPU", "ms", only(trips, "cpu_ms"))


def json_batches(field: Contest, plan: Plan) -> Iterator[Row]:
    """The same on the JSON wire, against the SDK that has no other."""
    url, turns = f"{field.url}/length=4096,era=0.4.1", {OURS: plan.few, OLD: plan.few}
    for form, least, aim in (("lists", 5, 7), ("numpy", 7, 10), ("torch", None, None)):
        if plan.old and form in plan.forms:
            rounds = turns if least else dict.fromkeys(turns, 1)
            trips = field.turns("round_trip", rounds, url=url, calls=1, form=form, **LARGE)
            work = f"build + forward_backward + read as JSON, from {form}"
            yield Row(work, "ms", only(trips, "ms"), least, aim, base=OLD)
            yield Row(f"{work}, client CPU", "ms", only(trips, "cpu_ms"), base=OLD)


def growth(field: Contest, plan: Plan) -> Iterator[Row]:
    """Memory of a large call, and whether a token costs the same in a very large one."""
    new, old = plan.each(plan.few, plan.few), {OURS: plan.few, OLD: plan.few}
    url = f"{field.url}/length=4096"
    for form in ("lists", "numpy"):
        sizes = only(field.fresh("peak", new, url=url, form=form, **LARGE), "mb")
        work = f"peak memory of the call, 256 × 4,096 from {form}"
        yield Row(work, "MB", sizes, 1, 1.67)
        if plan.old:
            url_old = f"{url},era=0.4.1"
            sizes = only(field.fresh("peak", old, url=url_old, form=form, **LARGE), "mb")
            yield Row(f"{work}, as JSON", "MB", sizes, 1, 1.67, base=OLD)
    costs = {}
    for datums, length in ((256, 4096), (1024, 8192)):
        shape = {"datums": datums, "length": length, "form": "numpy"}
        url = f"{field.url}/length={length}"
        turns = plan.each(plan.few, plan.few)
        trips = field.turns("round_trip", turns, url=url, calls=2, warm=datums == 256, **shape)
        costs[datums] = only(trips, "cpu_ns")
        yield Row(f"CPU per token of {datums:,} × {length:,} from numpy", "ns", costs[datums])
    flat = {OURS: costs[1024][OURS] / costs[256][OURS]}
    work = "cost of a token, 1,024 × 8,192 against 256 × 4,096"
    yield Row(work, "×", flat, 1.25, 1.1, absolute=True)


def ahead(field: Contest, plan: Plan) -> Iterator[Row]:
    """A GPU behind a network, kept busy."""
    url, turns = f"{field.url}/rtt=30,gpu=50", plan.each(plan.few, plan.few, 1)
    steps = only(field.turns("ahead", turns, warm=False, url=url, steps=STEPS), "ms")
    work = f"50 ms GPU step behind a 30 ms round trip, {STEPS} submitted ahead"
    yield Row(work, "ms", steps, 53, 51, absolute=True)


def sampling(
    field: Contest, plan: Plan, *, count: int, slow: bool, least: float, aim: float
) -> Iterator[Row]:
    """Samples at once: their rate, and the CPU time of each."""
    many = count > 2_000
    if many and not plan.many:
        return
    url = f"{field.url}/sample=100" if slow else f"{field.url}/free"
    field.turns("samples", plan.each(1, 1), warm=False, url=url, count=200)
    tries = 1 if many else plan.few  # as many for each: the best counts
    turns = plan.each(tries, tries, 0 if slow or many else 1)
    rates = field.turns("samples", turns, warm=False, url=url, count=count)
    work = f"{count:,} samples at once" + (", each 100 ms on the server" if slow else "")
    yield Row(work, "/s", only(rates, "per_s"), least, aim, more_is_better=True)
    if not slow:
        targets = (None, None) if many else (170, 130)
        cpu = only(rates, "cpu_us")
        yield Row(f"{work}, client CPU each", "µs", cpu, *targets, absolute=True)
    if not slow and not many:
        # The same targets on any machine: they were set where a bare client took 100 µs. A machine
        # is fast and slow by turns, so that only figures of one moment can be compared.
        each = {OURS: 1, FLOOR: 1}
        pairs = [
            only(field.turns("samples", each, warm=False, url=url, count=count), "cpu_us")
            for _ in range(2 * plan.rounds + 1)
        ]
        usual = sorted(pairs, key=lambda pair: pair[FLOOR] / pair[OURS])[plan.rounds]
        yield Row(f"{work}, client CPU each", "µs", usual, 1 / 1.7, 1 / 1.3, base=FLOOR)


def waiting(field: Contest, plan: Plan) -> Iterator[Row]:
    """Memory of samples that wait."""
    held, free = f"{field.url}/hold=1", f"{field.url}/free"
    for count in (2_000, 10_000):
        sizes = field.fresh("memory", plan.each(1, 1), url=held, free=free, count=count)
        work = f"memory of each of {count:,} pending samples"
        yield Row(work, "KB", only(sizes, "kb"), 10, 6, absolute=True)
    turns = plan.each(1, int(plan.many))
    sizes = field.fresh("memory", turns, url=held, free=free, count=100_000)
    yield Row("peak memory of 100,000 queued samples", "MB", only(sizes, "mb"))


def generated(field: Contest, plan: Plan) -> Iterator[Row]:
    """The generated layer against raw orjson."""
    for name, ratio in bench_generated.measure(3 * plan.rounds).items():
        yield Row(f"generated: {name}", "× orjson", {OURS: ratio}, 1.3, absolute=True)


def recording(field: Contest, plan: Plan) -> Iterator[Row]:
    """What recording a run costs, and opening its log."""
    share = 100 * bench_recording.share_of_a_step(10 * plan.rounds)
    yield Row("recording a step, of its 50 ms", "%", {OURS: share}, 1, 0.5, absolute=True)
    took = bench_recording.recording_samples(plan.rounds)
    yield Row("recording 16 samples of 256 tokens", "ms", {OURS: took}, 10, 1, absolute=True)
    found = bench_recording.opening()
    for name, words in (("index", "as their run leaves them"), ("alone", "without an index")):
        for when in ("shown", "whole"):
            for figure, kind in (("s", "clock"), ("cpu_s", "CPU")):
                took = found[name][f"{when}_{figure}"]
                work = f"`tinker-ext ui` on 1,000,000 lines {words}, until {when}, {kind}"
                yield Row(work, "s", {OURS: took}, 2, 1, absolute=True)
    most = max(figures["mb"] for figures in found.values())
    yield Row("memory of that", "MB", {OURS: most}, 200, 100, absolute=True)


def fleet(field: Contest, plan: Plan) -> Iterator[Row]:
    """What a fleet with a budget adds to a sample, when permits are at hand."""
    member, alone, _ = bench_fleet.measure()
    added = {OURS: member - alone}
    yield Row("a fleet and its budget, of each sample", "µs CPU", added, 20, 15, absolute=True)


def curve(field: Contest, plan: Plan, name: str) -> Curve:
    """CPU per sample from few to many queued ones, of one contender.

    A machine is fast and slow by turns, for seconds each, so every point is the mean over as many
    samples: a hundred times 100 against once 10,000. The points take turns, and the best counts.

    In a process of its own: the garbage collector, which many samples call, visits whatever lists
    of millions of numbers other parts have left.
    """
    url = f"{field.url}/free"
    ours = name == OURS
    points: dict[int, float] = {}
    with closing(Worker(name, field.pythons[name])) as work:
        work.do("samples", url=url, count=200)
        for _ in range(plan.few if ours and plan.many else 1):
            for count in QUEUED if ours else QUEUED[: 3 if plan.many else 2]:
                times = max(1, SPREAD // count) if ours else 1
                costs = [work.do("samples", url=url, count=count)["cpu_us"] for _ in range(times)]
                mean = sum(costs) / times
                points[count] = min(mean, points.get(count, mean))
    return Curve(name, points)


def flatness(ours: Curve) -> Row:
    """How much dearer the last of many queued samples is."""
    few, *_, many = ours.points
    work = f"cost of a sample, {many:,} queued against {few:,}"
    return Row(work, "×", {OURS: ours.points[many] / ours.points[few]}, 1.1, 1.0, absolute=True)


Part = Callable[[Contest, Plan], Iterator[Row]]

PARTS: dict[str, Part] = {
    "import": starting,
    "construct": constructing,
    "building": building,
    "small-batches": small_batches,
    "batches": batches,
    "json-batches": json_batches,
    "growth": growth,
    "ahead": ahead,
    "samples": partial(sampling, count=2_000, slow=False, least=20, aim=30),
    "slow-samples": partial(sampling, count=2_000, slow=True, least=13, aim=14),
    "many-samples": partial(sampling, count=10_000, slow=False, least=20, aim=30),
    "many-slow-samples": partial(sampling, count=10_000, slow=True, least=16, aim=20),
    "waiting": waiting,
    "generated": generated,
    "recording": recording,
    "fleet": fleet,
}
NAMES = [*PARTS, "curve"]


def measure(part: Part, field: Contest, plan: Plan, again: int, *, exact: bool) -> list[Row]:
    """One part of the table; what misses is measured anew, and the best of each counts."""
    rows = list(part(field, plan))
    for _ in range(again):
        if not any(row.misses(exact=exact) for row in rows):
            break
        rows = [row.best(other) for row, other in zip(rows, part(field, plan), strict=True)]
    return rows


def measure_curves(field: Contest, plan: Plan, again: int, *, exact: bool) -> list[Curve]:
    """The curves of all contenders; ours anew while it is not flat enough."""
    ours = curve(field, plan, OURS)
    for _ in range(again):
        if not flatness(ours).misses(exact=exact):
            break
        anew = curve(field, plan, OURS).points
        ours = Curve(OURS, {count: min(cost, anew[count]) for count, cost in ours.points.items()})
    return [ours, *(curve(field, plan, name) for name in field.pythons if name == NEW)]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more turns, and 0.4.1 too")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--once", action="store_true", help="measure nothing anew that misses")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "bench",
        help="for the files; the parts not measured stay as they were",
    )
    parser.add_argument("--docs", action="store_true", help="publish what --out holds")
    options = parser.parse_args()
    plan = FULL if options.full else QUICK
    again = 0 if options.once else AGAIN
    pythons = interpreters()
    print(report.machine(), flush=True)
    print("contenders:", ", ".join(pythons), flush=True)
    if NEW not in pythons:
        print("official 0.36.0 is not here: no ratios (nox -s bench installs it)", file=sys.stderr)
    record = Record.read(options.out)
    record.machine = report.machine()
    measured: list[Row] = []
    with contest(pythons) as field:
        for name in options.only:
            print(time.strftime("%H:%M:%S"), name, flush=True)
            if name == "curve":
                record.curves = measure_curves(field, plan, again, exact=options.full)
                rows = [flatness(record.curves[0])]
            else:
                rows = measure(PARTS[name], field, plan, again, exact=options.full)
            record.parts[name] = rows
            measured += rows
            record.write(options.out)  # at once: a long run may be interrupted
    record.parts = {name: record.parts[name] for name in NAMES if name in record.parts}
    record.write(options.out)
    print()
    print(report.text(measured, record.curves if "curve" in options.only else []))
    if options.docs:
        record.publish(ROOT / "docs")
    missed = [row for row in measured if row.misses(exact=options.full)]
    for row in missed:
        print(f"missed: {row.work}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
