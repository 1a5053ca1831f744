"""Ten thousand clients of one limit, then a hundred thousand, on a virtual clock.

    python tests/fleet/simulate.py                 # 10,000 clients
    python tests/fleet/simulate.py --docs          # both sizes; writes docs/images/fleet.svg

Every decision is that of the package: `make_plan` moves and divides the window, and the intervals
are those of a real member. The server takes a number of samples at once, refuses the
rest and asks whom it refused to wait for a second. Without a fleet each client does what a client
alone does: it waits out its own pause and tries again. What this does not show is the store itself;
`nox -s fleet` measures real ones with up to 50 processes.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

import numpy as np  # noqa: E402

from tinker_ext.fleet.plan import (  # noqa: E402
    Plan,
    Row,
    make_plan,
    plan_seconds,
    sync_seconds,
)

LIMIT = 2000
SAMPLE_SECONDS = 5.0
RETRY_AFTER = 1.0
DEMAND = 4
ROUND_TRIP = 0.05
QUICK = 0.2


class Trace:
    """What happened, second by second."""

    def __init__(self, clients: int, seconds: int) -> None:
        self.clients, self.seconds = clients, seconds
        self.accepted = np.zeros(seconds + 1)
        self.refused = np.zeros(seconds + 1)
        self.busy = np.zeros(seconds + 1)  # slots in use, in slot-seconds
        self.served = np.zeros(clients)

    def settled(self) -> float:
        """Seconds after which at least 95 % is used and at most 2 % refused, to the end."""
        for start in range(self.seconds - 10, 0, -1):
            asked = self.accepted[start:-1].sum() + self.refused[start:-1].sum()
            used = self.busy[start : start + 5].mean() / LIMIT
            if used < 0.95 or self.refused[start:-1].sum() > 0.02 * asked:
                return float(start + 1)
        return 1.0

    def wasted(self) -> int:
        return int(self.refused.sum())

    def note(self, begin: float, length: float) -> None:
        """Count one sample under way."""
        end = min(begin + length, float(self.seconds))
        while begin < end:
            second = int(begin)
            part = min(end, second + 1.0)
            self.busy[second] += part - begin
            begin = part


class Client:
    """A member as the real one behaves between two reports."""

    __slots__ = ("accepted", "active", "cap", "held", "pause", "plan", "refusal", "row")

    def __init__(self) -> None:
        self.active = self.cap = self.accepted = self.held = self.plan = 0
        self.pause, self.refusal = 0.0, -1
        self.row: Row | None = None  # what it said last


def with_fleet(clients: int, seconds: int, seed: int = 1) -> Trace:
    """All clients as one fleet."""
    rng, trace = random.Random(seed), Trace(clients, seconds)
    fleet = [Client() for _ in range(clients)]
    plan, planned_for = Plan(), 0.0
    members = busy = 0
    # Time, kind (0 a report, 1 the end of a sample, 2 the end of a pause), client.
    events: list[tuple[float, int, int]] = []
    for name in range(clients):
        heapq.heappush(events, (rng.random(), 0, name))

    def start(name: int, now: float) -> None:
        """Send what the permits allow; answers come at once, their effect a round trip later."""
        nonlocal busy
        client = fleet[name]
        while client.active < min(client.cap, DEMAND) and now >= client.pause:
            if busy >= LIMIT:
                trace.refused[int(now)] += 1
                client.pause = now + RETRY_AFTER
                if client.refusal < 0:
                    client.refusal, client.held = client.plan, client.active
                heapq.heappush(events, (now + ROUND_TRIP, 0, name))
                return
            busy += 1
            client.active += 1
            client.accepted += 1
            trace.accepted[int(now)] += 1
            length = SAMPLE_SECONDS * (0.5 + rng.random())
            trace.note(now, length)
            heapq.heappush(events, (now + length, 1, name))

    due = [0.0] * clients
    while events:
        now, kind, name = heapq.heappop(events)
        if now >= seconds:
            break
        client = fleet[name]
        if kind:
            if kind == 1:
                busy -= 1
                client.active -= 1
                trace.served[name] += 1
            start(name, now)
            continue
        if now < due[name] and client.refusal < 0:
            continue  # an earlier report was made in its place
        refused = client.refusal >= 0
        members += client.row is None
        urgent, every = refused or client.row is None, plan_seconds(members)
        client.row = Row(
            str(name),
            now,
            plan.number,
            client.cap,
            client.active,
            DEMAND,
            client.held if refused else client.active,
            client.accepted,
            client.refusal,
            max(0.0, client.pause - now),
            plan.size,
        )
        if planned_for <= now + (0.75 * every if urgent else 0.0):
            planned_for = now + every
            rows = [each.row for each in fleet if each.row is not None]
            plan = make_plan(plan, rows, now)
        if not plan.cut <= client.refusal <= plan.number:
            client.refusal = -1
        before = client.cap
        client.cap, client.plan = plan.shares.get(str(name), client.cap), plan.number
        client.pause = max(client.pause, plan.pause)
        if client.cap and now < client.pause:
            heapq.heappush(events, (client.pause, 2, name))
        start(name, now)
        usual = sync_seconds(members)
        if client.cap != before:
            usual = QUICK
        elif plan.phase == "grow" or client.active > client.cap:
            usual = max(QUICK, usual / 3)
        due[name] = now + usual * (0.8 + 0.4 * rng.random())
        heapq.heappush(events, (due[name], 0, name))
    return trace


def alone(clients: int, seconds: int, seed: int = 1) -> Trace:
    """Every client by itself, in steps of 50 ms."""
    rng, trace = np.random.default_rng(seed), Trace(clients, seconds)
    step = 0.05
    steps = int(seconds / step)
    pause = rng.random(clients)
    active = np.zeros(clients, dtype=np.int64)
    width = np.full(clients, DEMAND)  # its own adaptive limit, which refusals bring down to 1
    ends: list[list[np.ndarray]] = [[] for _ in range(steps + int(2 * SAMPLE_SECONDS / step))]
    busy = 0
    for tick in range(steps):
        now = tick * step
        for ended in ends[tick]:
            np.subtract.at(active, ended, 1)
            np.add.at(trace.served, ended, 1)
            busy -= len(ended)
        wanting = np.flatnonzero((pause <= now) & (active < width))
        sent = np.repeat(wanting, width[wanting] - active[wanting])
        rng.shuffle(sent)
        room = max(0, LIMIT - busy)
        taken, refused = sent[:room], sent[room:]
        second = int(now)
        trace.accepted[second] += len(taken)
        trace.refused[second] += len(refused)
        if len(taken):
            np.add.at(active, taken, 1)
            busy += len(taken)
            lengths = SAMPLE_SECONDS * (0.5 + rng.random(len(taken)))
            at = tick + np.maximum(1, (lengths / step).astype(int))
            for when in np.unique(at):
                ends[when].append(taken[at == when])
        if len(refused):
            who = np.unique(refused)
            pause[who] = now + RETRY_AFTER + step * rng.random(len(who))
            width[who] = np.maximum(1, width[who] * 2 // 3)
        trace.busy[second] += busy * step
    return trace


def figures(trace: Trace) -> str:
    asked = trace.accepted.sum() + trace.refused.sum()
    used = trace.busy[10:-1].mean() / LIMIT
    settled = trace.settled()
    when = f"settled after {settled:.0f} s" if settled < trace.seconds - 10 else "never settled"
    return (
        f"{when}, {trace.wasted():,} of {int(asked):,} requests "
        f"refused ({100 * trace.wasted() / asked:.2f} %), {100 * used:.1f} % used after 10 s"
    )


def svg(runs: list[tuple[str, Trace, str]]) -> str:
    """Used part of the limit, and refusals a second on a logarithmic scale, over time."""
    seconds = runs[0][1].seconds
    left, width, height, gap = 60, 640, 170, 70
    edge = -20  # room for the longest label
    total = 2 * (height + gap) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{edge} 0 {left + width + 50} {total}" '
        'role="img" font-family="sans-serif" font-size="13">',
        f"<title>{LIMIT:,} samples at once: what is used and what is refused</title>",
        f'<rect x="{edge}" width="{left + width + 50}" height="{total}" fill="white"/>',
    ]

    def panel(top: int, title: str, marks: list[tuple[float, str]]) -> None:
        out.append(f'<text x="{left}" y="{top - 12}" font-weight="bold">{title}</text>')
        for part, label in marks:
            y = top + height * (1 - part)
            out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#e9ecef"/>')
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        for second in range(0, seconds + 1, 20):
            x = left + width * second / seconds
            out.append(
                f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{second} s</text>'
            )

    def line(top: int, values: list[float], colour: str) -> None:
        points = " ".join(
            f"{left + width * (i + 0.5) / seconds:.1f},{top + height * (1 - v):.1f}"
            for i, v in enumerate(values)
        )
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')

    first, second = 40, 40 + height + gap
    panel(first, "Part of the limit in use", [(p / 4, f"{25 * p} %") for p in range(5)])
    panel(second, "Requests refused each second", [(p / 6, f"{10**p:,}") for p in range(7)])
    for number, (name, trace, colour) in enumerate(runs):
        line(first, [min(1.0, v / LIMIT) for v in trace.busy[:-1]], colour)
        line(second, [np.log10(max(1.0, v)) / 6 for v in trace.refused[:-1]], colour)
        x, y = left + (number % 2) * 320, total - 34 + 18 * (number // 2)
        out.append(f'<path d="M{x} {y - 4}h24" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{x + 30}" y="{y}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="*", default=[10_000])
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--docs", action="store_true", help="write docs/images/fleet.svg")
    options = parser.parse_args()
    sizes = [10_000, 100_000] if options.docs else options.clients
    colours = iter(["#1971c2", "#e8590c", "#74c0fc", "#ffa94d"])
    runs, bad = [], False
    print(f"{LIMIT:,} samples at once, {SAMPLE_SECONDS:g} s each, Retry-After {RETRY_AFTER:g} s")
    for size in sizes:
        began = time.monotonic()
        for name, simulate in (("as a fleet", with_fleet), ("each alone", alone)):
            trace = simulate(size, options.seconds)
            print(f"{size:,} clients {name}: {figures(trace)}", flush=True)
            runs.append((f"{size:,} clients {name}", trace, next(colours, "#868e96")))
            if simulate is with_fleet:
                asked = trace.accepted.sum() + trace.refused.sum()
                bad |= trace.settled() > 60 or trace.wasted() > 0.1 * asked
        print(f"  simulated in {time.monotonic() - began:.0f} s")
    if options.docs:
        (ROOT / "docs" / "images" / "fleet.svg").write_text(svg(runs))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
