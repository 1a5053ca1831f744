"""The figures of the fleet, measured on real processes, a real server and a real store.

    python tests/fleet/prove.py          # short: 9 processes on SQLite, 9 on Redis, side by side
    python tests/fleet/prove.py --long   # 16 processes on SQLite, then 50 on Redis
    python tests/fleet/prove.py --long --store redis --part limit   # part of one: three minutes

In one run members first work in peace, then a third of them is killed, then the store goes away and
comes back; in a second one a budget stops those who are left. `--part` takes one of it: `limit`
(peace and the killed), `outage` (the store goes away) or `budget`, each of all processes. Fifty
processes need a minute to start on two processors. The exit code is 1 when a figure
misses its target. Every figure is a part or a ratio within one run:

- `under way`: accepted requests whose results the clients did not have yet, as a part of the limit
  over time. It does not depend on the speed of the machine, and is what the short form judges.
- `used`: the same counted with the latency that the server adds to a sample and nothing else, so a
  lower bound of what the server was given to do. The time that a result takes to its client and the
  next request to the server is lost, so it is judged in the long form only, which needs a machine
  with little else to do; what all this and other programs take of the processors is
  shown besides, and said when that was all there is. The rates are such
  that the limit binds and not two processors, 50 samples a second of 50 processes: the claim is
  about a part of the limit. `--latency` sets how long a sample takes; the server goes on with those
  of killed processes, so more than the 5 s of a lease would not show when their permits are free.
- The first second is not judged; in the short form, the first half of the time in peace, since
  processes start and find the limit as slowly as a busy machine lets them.
- A store that misses a figure in the short form is measured anew, twice at most: the other programs
  of a busy machine come and go, and a fault of ours would be there each time.
- Fair shares are compared by time under way, since samples of one process come in waves.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "generated"), str(ROOT / "tests")]

from fleet.redis_server import RedisServer  # noqa: E402

AGAIN = 2
PARTS = ("limit", "outage", "budget")
SETTLE = 40.0  # in peace, before the store goes away in a part of its own
TOKENS = 5  # of one sample of a worker: three of the prompt, two drawn
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'generated'}"}


def serve(limit: int, latency: float) -> tuple[subprocess.Popen[str], str]:
    """Start a server with a limit; the process and its URL."""
    command = [sys.executable, "-m", "tinker_ext", "--format", "json", "serve", "--port", "0"]
    command += ["--sample-limit", str(limit), "--latency", str(latency)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV)
    text = ""
    while not text.endswith("}\n"):
        text += server.stdout.readline()
    return server, json.loads(text)["url"]


def usual_limit(processes: int) -> int:
    """What the server takes at once: so much that its limit binds, and not two processors."""
    return processes * (8 if processes <= 16 else 4)


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """What all processes of this machine have used so far, on all processors."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Crew:
    """Processes that sample, and what they have seen in the last act."""

    def __init__(self, processes: int, folder: Path) -> None:
        self.folder = folder
        worker = str(ROOT / "tests" / "fleet" / "worker.py")
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.workers = [
            subprocess.Popen([sys.executable, worker], text=True, env=ENV, **pipe)
            for _ in range(processes)
        ]

    def act(
        self,
        url: str,
        fleet: str | None,
        limit: int,
        seconds: float,
        budget: int | None = None,
        events: Callable[[float], None] | None = None,
    ) -> Seen:
        """Let those alive work for some seconds; `events` is given the time of the start."""
        alive = [worker for worker in self.workers if worker.poll() is None]
        width = max(4, 3 * limit // len(alive))
        told = {"url": url, "fleet": fleet, "budget": budget, "width": width}
        logs = [self.folder / f"{worker.pid}.{bool(budget)}" for worker in alive]
        for worker, log in zip(alive, logs, strict=True):
            worker.stdin.write(f"{json.dumps({**told, 'log': str(log)})}\n")
            worker.stdin.flush()
        for worker in alive:
            if worker.stdout.readline() != "ready\n":
                raise SystemExit("a worker did not start")
        start = time.time() + 1.0
        for worker in alive:
            worker.stdin.write(f"{json.dumps([start, start + seconds])}\n")
            worker.stdin.flush()
        if events is not None:
            events(start)
        for worker in alive:
            worker.stdout.readline()
        return Seen([log.read_text() for log in logs], start)

    def stop(self) -> None:
        """End what still runs."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
            worker.stdin.close()
            worker.stdout.close()


class Seen:
    """What the processes of an act saw; times count from its start."""

    def __init__(self, logs: list[str], start: float) -> None:
        self.members = []
        for text in logs:
            member: dict[str, list[Any]] = {"failed": [], "stopped": [], "spent": []}
            member |= {"accepted": [], "refused": [], "done": []}
            for line in text.splitlines():
                what, _, value = line.partition(" ")
                timed = what in ("accepted", "refused", "done")
                member[what].append(float(value) - start if timed else value)
            self.members.append(member)

    def all(self, what: str) -> list[Any]:
        return [value for member in self.members for value in member[what]]

    def refused(self, begin: float, end: float) -> float:
        """Part of the requests that was refused."""
        no, yes = (sum(begin <= t < end for t in self.all(w)) for w in ("refused", "accepted"))
        return no / max(1, no + yes)

    def under_way(self, begin: float, end: float, but: int = 0) -> list[float]:
        """Requests of each member that were accepted and not known to be done, on average."""
        return [
            sum(max(0.0, end - max(begin, t)) for t in member["accepted"]) / (end - begin)
            - sum(max(0.0, end - max(begin, t)) for t in member["done"]) / (end - begin)
            for member in self.members[but:]
        ]

    def used(self, begin: float, end: float, latency: float) -> float:
        """Requests that the server worked on, on average, at least."""
        spans = ((max(begin, t), min(end, t + latency)) for t in self.all("accepted"))
        return sum(max(0.0, last - first) for first, last in spans) / (end - begin)


class Table:
    """Figures against their targets."""

    def __init__(self, title: str) -> None:
        self.good, self._lines = True, [title]

    def row(
        self, what: str, value: float, good: bool | None, target: str = "", unit: str = ""
    ) -> None:
        shown = f"{100 * value:.2f} %" if unit == "%" else f"{value:,.3f}{unit}"
        mark = {True: "ok", False: "MISSED", None: ""}[good]
        self._lines.append(f"  {what:<52} {shown:>12}   {target:<16} {mark}".rstrip())
        self.good &= good is not False

    def note(self, text: str) -> None:
        self._lines.append(f"  ({text})")

    def show(self) -> bool:
        print("\n".join(self._lines), flush=True)
        return self.good


def lock_database(folder: str, seconds: float) -> None:
    """Keep an SQLite store from everybody else, as a stuck disk or process would."""
    database = sqlite3.connect(Path(folder) / "fleet.sqlite3", timeout=30.0, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    time.sleep(seconds)
    database.execute("ROLLBACK")
    database.close()


def prove(kind: str, processes: int, o: argparse.Namespace) -> bool:
    """Run everything on one store; says whether all targets were met."""
    limit, latency = o.limit or usual_limit(processes), o.latency
    title = f"{processes} processes on {kind}, {limit} at once, {latency:g} s a sample"
    table = Table(title)
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        folder = Path(name)
        redis = RedisServer(folder).start() if kind == "redis" else None
        place = redis.url if redis is not None else f"{name}/store"
        crew = Crew(processes, folder)
        server, url = serve(limit, latency)
        quick, quick_url = serve(limit, 0.2)
        cost, busy_all = [0.0, 0.0], [0.0, 0.0]
        limits, outage, budget = (o.part in (None, part) for part in PARTS)
        killed, kill = max(1, processes // 3) if limits else 0, o.seconds
        away = kill + 12 if limits else SETTLE
        back = away + o.outage
        end = back + 20 if outage else away

        def events(start: float) -> None:
            def sleep_until(moment: float) -> None:
                time.sleep(max(0.0, start + moment - time.time()))

            own = [server, *crew.workers]
            sleep_until(1.0)
            cost[0], busy_all[0] = sum(map(processor_seconds, own)), busy_seconds()
            sleep_until(min(kill, away))
            cost[1], busy_all[1] = sum(map(processor_seconds, own)), busy_seconds()
            for victim in crew.workers[:killed]:
                victim.send_signal(signal.SIGKILL)
            sleep_until(away)
            if not outage:
                return
            if redis is None:
                lock_database(place, o.outage)
                return
            redis.stop()
            sleep_until(back)
            redis.start()

        try:
            if limits or outage:
                seen = crew.act(url, place, limit, end, events=events)
            most = 300 * processes
            if budget:
                spent = crew.act(quick_url, place, limit, 120.0, budget=most)
        finally:
            crew.stop()
            for process in (server, quick):
                process.kill()
                process.wait()
                process.stdout.close()
            if redis is not None:
                redis.stop()

    if limits or outage:
        rate = (cost[1] - cost[0]) / (min(kill, away) - 1) / (os.cpu_count() or 1)
        table.row("of the processors used by all this", rate, None, "", "%")
        others = (busy_all[1] - busy_all[0]) / (min(kill, away) - 1) / (os.cpu_count() or 1) - rate
        table.row("of the processors used by other programs", others, None, "", "%")
        if rate + others > 0.9:
            table.note("the processors were the limit, not the server: use a quieter machine")
    if limits:
        judge_limit(table, seen, limit, killed, kill, away, o)
    if outage:
        judge_outage(table, seen, limit, killed, away, back, end)
    if limits or outage:
        failed = seen.all("failed")
        table.row("samples failed in all this", len(failed), not failed, "0")
        print("".join(f"{text}\n" for text in failed[:3]), end="")
    if budget:
        judge_budget(table, spent, most)
    return table.show()


def refused(table: Table, seen: Seen, what: str, begin: float, end: float) -> None:
    """Judge the part of the requests that was refused."""
    part = seen.refused(begin, end)
    table.row(f"refused {what}", part, part <= 0.02, "≤ 2 %", "%")


def judge_limit(
    table: Table,
    seen: Seen,
    limit: int,
    killed: int,
    kill: float,
    end: float,
    o: argparse.Namespace,
) -> None:
    """What was used of the limit in peace, and after some were killed."""
    settled = 1.0 if o.long else kill / 2
    table.row("seconds that are not judged", settled, None, "", " s")
    refused(table, seen, "from then on", settled, kill)
    shares = seen.under_way(settled, kill)
    busy, used = sum(shares) / limit, seen.used(settled, kill, o.latency) / limit
    table.row("of the limit under way", busy, busy >= 0.95, "≥ 95 %", "%")
    table.row("of the limit used", used, used >= 0.95 if o.long else None, "≥ 95 %", "%")
    spread = max(shares) / max(1e-9, min(shares))
    table.row("busiest member over least busy", spread, spread <= 1.10, "≤ 1.10")
    # What the dead had in flight is not theirs any more, and is not counted.
    again = next(
        (
            t / 4
            for t in range(int(4 * (end - kill - 2)) + 1)
            if sum(seen.under_way(kill + t / 4, kill + t / 4 + 2, killed)) >= 0.95 * limit
        ),
        float("inf"),
    )
    table.row(f"{killed} killed: until their permits are used again", again, again <= 10,
              "≤ 10 s", " s")  # fmt: skip
    refused(table, seen, "from then on", kill, end)


def judge_outage(
    table: Table, seen: Seen, limit: int, killed: int, away: float, back: float, end: float
) -> None:
    """What happened without the store, and at its return."""
    meanwhile = sum(seen.under_way(away, back, killed)) / limit
    what = f"store away for {back - away:g} s: of the limit under way"
    table.row(what, meanwhile, None, "", "%")
    refused(table, seen, "meanwhile", away, back)
    refused(table, seen, "in the ten seconds after its return", back, back + 10)
    busy = sum(seen.under_way(end - 8, end, killed)) / limit
    table.row("of the limit under way at the end", busy, busy >= 0.95, "≥ 95 %", "%")


def judge_budget(table: Table, spent: Seen, most: int) -> None:
    """Whether the budget stopped everybody, within a block."""
    rest = len(spent.members)
    total, block = sum(map(int, spent.all("spent"))), rest * TOKENS
    table.row(f"{rest} with a budget: tokens spent", total, total <= most, f"≤ {most:,}")
    table.row("tokens left over", most - total, most - total <= block, f"≤ {block} (a block)")
    told = [text for text in spent.all("stopped") if "Spent by: " in text]
    table.row("members stopped, told who spent what", len(told), len(told) == rest, "all")


def alone(processes: int, o: argparse.Namespace) -> None:
    """Show the same load without a fleet."""
    limit = o.limit or usual_limit(processes)
    table = Table(f"{processes} processes without a fleet, {limit} at once")
    with tempfile.TemporaryDirectory() as name:
        crew = Crew(processes, Path(name))
        server, url = serve(limit, o.latency)
        try:
            seen = crew.act(url, None, limit, o.seconds)
        finally:
            crew.stop()
            server.kill()
            server.wait()
            server.stdout.close()
    shares = seen.under_way(1.0, o.seconds)
    table.row("refused", seen.refused(1.0, o.seconds), None, "", "%")
    table.row("of the limit under way", sum(shares) / limit, None, "", "%")
    table.row("busiest member over least busy", max(shares) / max(1e-9, min(shares)), None)
    table.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="many processes, one store at a time")
    parser.add_argument("--store", choices=["sqlite", "redis"], help="only this one")
    parser.add_argument("--part", choices=PARTS, help="only this")
    parser.add_argument("--processes", type=int, help="9; long: 16 on SQLite, 50 on Redis")
    parser.add_argument(
        "--limit", type=int, help="what the server takes; 8 a process, or 4 of many"
    )
    parser.add_argument("--latency", type=float, default=4.0, help="seconds a sample takes")
    parser.add_argument("--seconds", type=float, help="in peace; 30, long: 90")
    parser.add_argument("--outage", type=float, help="seconds without a store; 10, long: 20")
    parser.add_argument("--alone", action="store_true", help="show the load without a fleet")
    options = parser.parse_args()
    sizes = {"sqlite": 16, "redis": 50} if options.long else {"sqlite": 9, "redis": 9}
    usual = {"seconds": (30.0, 90.0), "outage": (10.0, 20.0)}
    for name, values in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, values[options.long])
    runs = [(k, options.processes or n) for k, n in sizes.items() if options.store in (None, k)]
    if options.alone:
        alone(runs[0][1], options)
        return
    for _ in range(1 if options.long else 1 + AGAIN):
        with ThreadPoolExecutor(1 if options.long else len(runs)) as pool:
            good = list(pool.map(lambda run: prove(*run, options), runs))
        runs = [run for run, met in zip(runs, good, strict=True) if not met]
        if not runs:
            break
    sys.exit(1 if runs else 0)


if __name__ == "__main__":
    main()
