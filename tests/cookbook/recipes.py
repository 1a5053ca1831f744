"""Run the scenarios on an embedded server and say how each ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import workshop
from scenarios import SCENARIOS, Outcome, Scenario, rows

from tinker_ext.mock.server import Server
from tinker_ext.mock.settings import Settings

HERE = Path(__file__).parent
TIME_LIMIT_S = 600


class Result(NamedTuple):
    """How one scenario ended; `problem` is empty when it went well."""

    name: str
    seconds: float
    problem: str


def environment(url: str) -> dict[str, str]:
    """The variables every program runs under: our stand-in first, no hub, no real credential."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TINKER_", "HF_"))}
    path = subprocess.run(
        [sys.executable, "-m", "tinker_ext.compat", "--path"],
        capture_output=True,
        text=True,
        check=True,
    )
    first = [path.stdout.strip(), *filter(None, [env.get("PYTHONPATH")])]
    return env | {
        "PYTHONPATH": os.pathsep.join(first),
        "TINKER_BASE_URL": url,
        "TINKER_API_KEY": "tml-no-real-key",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
    }


def _requests(server: Server) -> dict[str, int]:
    paths = (e.path.partition("?")[0].rpartition("/")[2] for e in server.log.requests())
    return dict(Counter(paths))


def _wait(process: subprocess.Popen[bytes], checkpoints: Path, kill_at: str) -> int:
    """Wait for the end, or kill the program once it has recorded a checkpoint."""
    deadline = time.monotonic() + TIME_LIMIT_S
    while process.poll() is None:
        if kill_at and any(row["name"] == kill_at for row in rows(checkpoints)):
            process.kill()
            process.wait()
            return 0
        if time.monotonic() > deadline:
            process.kill()
            return -1
        time.sleep(0.02)
    return process.returncode


def run_one(scenario: Scenario, place: Path, server: Server) -> Result:
    """Run one scenario and check what it left behind."""
    log = place / "runs" / (scenario.log or scenario.name)
    program = [part.replace("{log}", str(log)) for part in scenario.program]
    if program[0] != "-m":
        program[0] = str(HERE / program[0])
    env = environment(server.url) | {"HF_HOME": str(place / "hub")}
    server.log.clear()
    began = time.monotonic()
    output = place / f"{scenario.name}.log"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, *program],
            cwd=place,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        code = _wait(process, log / "checkpoints.jsonl", scenario.kill_at)
    took = time.monotonic() - began
    if code:
        tail = "\n".join(output.read_text(errors="replace").splitlines()[-25:])
        return Result(scenario.name, took, f"exit code {code}\n{tail}")
    outcome = Outcome(
        log, rows(log / "metrics.jsonl"), rows(log / "checkpoints.jsonl"), _requests(server)
    )
    try:
        scenario.check(outcome)
    except (AssertionError, KeyError, OSError) as problem:
        return Result(scenario.name, took, f"{type(problem).__name__}: {problem}")
    return Result(scenario.name, took, "")


def run_all(place: Path, *, short: bool, only: tuple[str, ...] = ()) -> list[Result]:
    """Run the chosen scenarios one after the other; prints a line for each."""
    shutil.rmtree(place / "runs", ignore_errors=True)
    workshop.build(place)
    # As strict as production: what passes here is not refused there.
    models = {name: str(place / name) for name in workshop.MODELS}
    settings = Settings.of_profile("hosted", models=models)
    chosen = [
        s
        for s in SCENARIOS
        if (any(s.name.startswith(name) for name in only) if only else s.short or not short)
    ]
    results = []
    with Server(settings) as server:
        for scenario in chosen:
            result = run_one(scenario, place, server)
            word = "failed" if result.problem else "passed"
            print(f"{result.name:20} {word} in {result.seconds:.0f} s", flush=True)
            if result.problem:
                print(result.problem, flush=True)
            results.append(result)
    return results
