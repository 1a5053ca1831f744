"""The figures of the fleet, measured on real processes, a real server and a real store.

    python tests/fleet/prove.py                          # short: 8 processes, both stores
    python tests/fleet/prove.py --processes 50 --redis   # long

Every figure is a part or a ratio within one run; the exit code is 1 when one misses its target.
Requests are counted by the clients. `used` is the time for which accepted samples were under way,
counted with the latency that the server adds to each and nothing else, so it is a lower bound.
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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "generated"), str(ROOT / "tests")]

from fleet.redis_server import RedisServer  # noqa: E402

WORKER = ROOT / "tests" / "fleet" / "worker.py"
TOKENS = 5  # of one sample of a worker: three of the prompt, two drawn
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'generated'}"}


class Load:
    """A server with a limit, and processes that sample from it.

    Args:
        fleet: Store of the fleet; None lets every process find the limit by itself.
        processes: How many.
        limit: What the server takes at once.
        latency: Seconds that each sample takes.
        budget: Tokens of the fleet.
    """

    def __init__(
        self,
        fleet: str | None,
        processes: int,
        limit: int,
        latency: float,
        budget: int | None = None,
    ) -> None:
        self.limit, self.latency, self.processes = limit, latency, processes
        command = [sys.executable, "-m", "tinker_ext", "--format", "json", "serve", "--port", "0"]
        command += ["--sample-limit", str(limit), "--latency", str(latency)]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV)
        text = ""
        while not text.endswith("}\n"):
            text += self.server.stdout.readline()
        width = max(4, 3 * limit // processes)
        options = {"url": json.loads(text)["url"], "fleet": fleet, "width": width}
        options["budget"] = budget
        self.workers = [
            subprocess.Popen(
                [sys.executable, str(WORKER), json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=ENV,
            )
            for _ in range(processes)
        ]
        for worker in self.workers:
            if worker.stdout.readline() != "ready\n":
                self.stop()
                raise SystemExit("a worker did not start")

    def run(self, seconds: float, meanwhile: Callable[[float], None] | None = None) -> Seen:
        """Let them work for some seconds; `meanwhile` is given the time of the start."""
        start = time.time() + 1.0
        for worker in self.workers:
            worker.stdin.write(f"{json.dumps([start, start + seconds])}\n")
            worker.stdin.flush()
        if meanwhile is not None:
            side = threading.Thread(target=meanwhile, args=(start,))
            side.start()
        lines = [worker.stdout.readline() for worker in self.workers]
        if meanwhile is not None:
            side.join()
        for worker in self.workers:
            worker.wait()
        self.stop()
        said = [json.loads(line) for line in lines if line]
        return Seen(said, start, seconds, self.limit, self.latency)

    def stop(self) -> None:
        """End what still runs."""
        for process in (*self.workers, self.server):
            if process.poll() is None:
                process.terminate()
        for process in (*self.workers, self.server):
            process.wait()
            process.stdout.close()


class Seen:
    """What the processes of a load test saw."""

    def __init__(
        self, said: list[Any], start: float, seconds: float, limit: int, latency: float
    ) -> None:
        self.said, self.start, self.seconds = said, start, seconds
        self.limit, self.latency = limit, latency

    def times(self, what: str) -> list[float]:
        return sorted(moment - self.start for each in self.said for moment in each[what])

    def refused(self, begin: float = 1.0, end: float = 1e9) -> float:
        """Part of the requests that was refused."""
        no, yes = (sum(begin <= t < end for t in self.times(w)) for w in ("refused", "accepted"))
        return no / max(1, no + yes)

    def used(self, begin: float = 1.0, end: float | None = None) -> float:
        """Part of the limit that was in use."""
        end = self.seconds if end is None else end
        under_way = sum(
            max(0.0, min(end, t + self.latency) - max(begin, t)) for t in self.times("accepted")
        )
        return under_way / ((end - begin) * self.limit)

    def spread(self) -> float:
        """Samples of the busiest member over those of the least busy."""
        counts = [
            sum(self.start + 1 <= t < self.start + self.seconds for t in each["done"])
            for each in self.said
        ]
        return max(counts) / max(1, min(counts))

    def failures(self) -> list[str]:
        return [text for each in self.said for text in each["failed"]]


class Table:
    """Figures against their targets."""

    def __init__(self) -> None:
        self.good = True

    def row(self, what: str, value: float, good: bool | None, target: str, unit: str = "") -> None:
        shown = f"{100 * value:.2f} %" if unit == "%" else f"{value:,.3f}{unit}"
        mark = {True: "ok", False: "MISSED", None: ""}[good]
        print(f"  {what:<52} {shown:>12}   {target:<16} {mark}", flush=True)
        self.good &= good is not False


def steady(table: Table, seen: Seen) -> None:
    """Judge a run in which nothing happens."""
    part, used, spread = seen.refused(), seen.used(), seen.spread()
    table.row("refused after the first second", part, part <= 0.02, "≤ 2 %", "%")
    table.row("of the limit used", used, used >= 0.95, "≥ 95 %", "%")
    table.row("busiest member over least busy", spread, spread <= 1.10, "≤ 1.10")
    table.row("samples failed", len(seen.failures()), not seen.failures(), "0")


def alone(table: Table, seen: Seen) -> None:
    """Show the same without a fleet."""
    table.row("refused after the first second", seen.refused(), None, "", "%")
    table.row("of the limit used", seen.used(), None, "", "%")
    table.row("busiest member over least busy", seen.spread(), None, "")


def killed(table: Table, load: Load, seconds: float) -> None:
    """SIGKILL a third of the members and look how soon their permits are used again."""
    at = seconds / 3
    victims = load.workers[: max(1, load.processes // 3)]

    def kill(start: float) -> None:
        time.sleep(max(0.0, start + at - time.time()))
        for victim in victims:
            victim.send_signal(signal.SIGKILL)

    seen = load.run(seconds, kill)
    share = len(victims) / load.processes
    # What the dead had in flight is not theirs any more, and is not counted.
    again = next(
        (t / 4 for t in range(160) if seen.used(at + t / 4, at + t / 4 + 2) >= 0.95),
        float("inf"),
    )
    table.row("of the members killed", share, None, "", "%")
    table.row("until all permits are used again, seconds", again, again <= 10, "≤ 10 s", " s")
    part = seen.refused(at)
    table.row("refused from then on", part, part <= 0.02, "≤ 2 %", "%")
    table.row("samples failed", len(seen.failures()), not seen.failures(), "0")


def outage(
    table: Table, load: Load, seconds: float, away: float, stop: Callable[[float], None]
) -> None:
    """Take the store away in mid-run."""
    begin = seconds / 4

    def break_it(start: float) -> None:
        time.sleep(max(0.0, start + begin - time.time()))
        stop(away)

    seen = load.run(seconds, break_it)
    back = begin + away
    table.row("store away, seconds", away, None, "", " s")
    table.row("samples failed", len(seen.failures()), not seen.failures(), "0")
    table.row("of the limit used meanwhile", seen.used(begin, back), None, "", "%")
    part = seen.refused(begin, back)
    table.row("refused meanwhile", part, part <= 0.02, "≤ 2 %", "%")
    part = seen.refused(back, back + 10)
    table.row("refused in the ten seconds after its return", part, part <= 0.02, "≤ 2 %", "%")
    used = seen.used(min(back + 10, seconds - 5), seconds)
    table.row("of the limit used at the end", used, used >= 0.95, "≥ 95 %", "%")


def budget(table: Table, load: Load, most: int) -> None:
    """Work until the budget stops everybody."""
    seen = load.run(120.0)
    spent = sum(each["spent"] for each in seen.said)
    block = load.processes * TOKENS
    table.row("tokens spent", spent, spent <= most, f"≤ {most:,}")
    table.row("tokens left over", most - spent, most - spent <= block, f"≤ {block} (a block)")
    stopped = [each["stopped"] for each in seen.said]
    named = all(text and "Spent by: " in text for text in stopped)
    table.row("members stopped, told who spent what", len(stopped), named, "all")


def lock_database(folder: str, seconds: float) -> None:
    """Keep an SQLite store from everybody else, as a stuck disk or process would."""
    database = sqlite3.connect(Path(folder) / "fleet.sqlite3", timeout=30.0, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    time.sleep(seconds)
    database.execute("ROLLBACK")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--limit", type=int, help="what the server takes; 8 a process by default")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds a sample takes")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the first scenario")
    parser.add_argument("--outage", type=float, default=20.0, help="seconds without a store")
    parser.add_argument("--redis", action="store_true", help="only on Redis")
    parser.add_argument("--sqlite", action="store_true", help="only on SQLite")
    parser.add_argument("--only", choices=["alone", "steady", "killed", "outage", "budget"])
    options = parser.parse_args()
    limit = options.limit or 8 * options.processes
    table = Table()

    def wanted(name: str) -> bool:
        return options.only in (None, name)

    def load(fleet: str | None, most: int | None = None, latency: float | None = None) -> Load:
        return Load(fleet, options.processes, limit, latency or options.latency, most)

    shape = f"{options.processes} processes, {limit} at once, {options.latency:g} s a sample"
    if wanted("alone"):
        print(f"Without a fleet: {shape}")
        alone(table, load(None).run(options.seconds))
    kinds = [k for k in ("sqlite", "redis") if not (options.redis or options.sqlite) or
             getattr(options, k)]  # fmt: skip
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
            server = RedisServer(Path(folder)) if kind == "redis" else None
            place = server.url if server is not None else f"{folder}/store"

            def away(seconds: float, server: Any = server, place: str = place) -> None:
                if server is None:
                    lock_database(place, seconds)
                    return
                server.stop()
                time.sleep(seconds)
                server.start()

            if server is not None:
                server.start()
            try:
                if wanted("steady"):
                    print(f"A fleet on {kind}: {shape}")
                    steady(table, load(place).run(options.seconds))
                if wanted("killed"):
                    print(f"A third killed, on {kind}")
                    killed(table, load(place), 36.0)
                if wanted("outage"):
                    print(f"The store away, on {kind}")
                    outage(table, load(place), 2 * options.outage + 20, options.outage, away)
                if wanted("budget"):
                    print(f"One budget, on {kind}")
                    most = 300 * options.processes
                    budget(table, load(place, most, 0.2), most)
            finally:
                if server is not None:
                    server.stop()
    sys.exit(0 if table.good else 1)


if __name__ == "__main__":
    main()
