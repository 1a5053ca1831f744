"""The contenders of one run: a process in each SDK's environment, given the same tasks in turns.

Turns, and the best of each: a machine that is busy for a while then slows all of them alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import FLOOR

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OURS = "tinker-ext"
OFFICIAL = {"0.36.0": "TINKER_BENCH_0_36_0", "0.4.1": "TINKER_BENCH_0_4_1"}

Figures = dict[str, dict[str, float]]
"""Figures by contender."""


def interpreters() -> dict[str, str]:
    """The Python of each contender; official ones come from the environment (`nox -s bench`)."""
    found = {OURS: sys.executable, FLOOR: sys.executable}
    for version, variable in OFFICIAL.items():
        if os.environ.get(variable):
            found[version] = os.environ[variable]
    return found


def environment(name: str) -> dict[str, str]:
    """Environment variables of a contender; ours finds the checkout it is measured in."""
    env = {
        **os.environ,
        "TINKER_API_KEY": "tml-bench",
        "TINKER_TELEMETRY": "0",
        "HF_HUB_OFFLINE": "1",
    }
    env.pop("PYTHONPATH", None)
    if name in (OURS, FLOOR):
        env["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "generated")))
    return env


def package(name: str) -> str:
    """What a contender is imported as."""
    return {OURS: "tinker_ext", FLOOR: "floor"}.get(name, "tinker")


class Worker:
    """One contender's process.

    Args:
        name: Which contender.
        python: Its interpreter.
    """

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "contender.py"), package(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(name),
            cwd=HERE,
            text=True,
        )

    def do(self, task: str, **arguments: Any) -> dict[str, float]:
        """Have a task done; returns its figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"task": task, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended in task {task!r} {arguments}")
        figures: dict[str, float] = json.loads(line)
        return figures

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class Contest:
    """All contenders and the server they talk to.

    Args:
        pythons: Interpreter of each contender.
        url: The fake server.
    """

    def __init__(self, pythons: Mapping[str, str], url: str) -> None:
        self.pythons = pythons
        self.url = url
        self._workers: dict[str, Worker] = {}

    def worker(self, name: str) -> Worker:
        """The lasting process of a contender."""
        if name not in self._workers:
            self._workers[name] = Worker(name, self.pythons[name])
        return self._workers[name]

    def turns(
        self, task: str, rounds: Mapping[str, int], *, warm: bool = True, **arguments: Any
    ) -> Figures:
        """Give the task to everybody in turns.

        Args:
            task: Name of the task.
            rounds: How often each contender has it; missing ones leave it out.
            warm: Whether a first round is not counted.
            **arguments: Of the task.

        Returns:
            Best figures of each contender: the highest for `per_s`, else the lowest.
        """
        best: Figures = {}
        for turn in range(-1 if warm else 0, max(rounds.values())):
            for name, count in rounds.items():
                if name not in self.pythons or turn >= count:
                    continue
                figures = self.worker(name).do(task, **arguments)
                if turn >= 0:
                    kept = best.setdefault(name, figures)
                    for key, value in figures.items():
                        better = max if key == "per_s" else min
                        kept[key] = better(kept[key], value)
        return best

    def fresh(self, task: str, rounds: Mapping[str, int], **arguments: Any) -> Figures:
        """Give the task in turns to new processes, which end after it; the lowest figures count."""
        best: Figures = {}
        for turn in range(max(rounds.values())):
            for name, count in rounds.items():
                if name not in self.pythons or turn >= count:
                    continue
                worker = Worker(name, self.pythons[name])
                try:
                    figures = worker.do(task, **arguments)
                finally:
                    worker.close()
                kept = best.setdefault(name, figures)
                for key, value in figures.items():
                    kept[key] = min(kept[key], value)
        return best

    def imports(self, statements: Mapping[str, str], rounds: int) -> Figures:
        """Least CPU time of a statement in new processes, in ms beyond bare Python.

        CPU time: reading files and waiting for a busy machine would be most of the rest.
        """
        best: Figures = {}
        clock = "time.process_time()"
        program = f"import os, time; t = {clock}; {{}}; print(({clock} - t) * 1e3, flush=True)"
        program += "; os._exit(0)"  # the official SDK takes seconds to end
        for _ in range(rounds + 1):
            for name, statement in statements.items():
                if name in self.pythons:
                    done = subprocess.run(
                        [self.pythons[name], "-c", program.format(statement)],
                        env=environment(name),
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    took = float(done.stdout)
                    best[name] = {"ms": min(took, best.get(name, {"ms": took})["ms"])}
        return best

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.close()


@contextmanager
def contest(pythons: Mapping[str, str]) -> Iterator[Contest]:
    """Start the fake server; everything ends with the block."""
    server = subprocess.Popen(
        [sys.executable, str(HERE / "fake_server.py")], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    running = Contest(pythons, f"http://127.0.0.1:{int(server.stdout.readline())}")
    try:
        yield running
    finally:
        running.close()
        server.kill()
        server.communicate()
