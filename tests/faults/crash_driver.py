"""Runs training processes that kill themselves at a chosen event; one JSON order per input line.

The imports are done once, also those that a run makes as it goes; each order is carried out by a
forked child without threads of its own. An order: journal, url, steps, kill_at (None lets the child
live), reattach, disk (bytes a file may have before the disk is full; None is a large one), full
(the event from which the disk is full, the event from which it is not, and the bytes that still
fit). The answer: the status of the child, the events it has seen and the path it saved at the end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback

from tinker_ext import AdamParams, Datum, ModelInput
from tinker_ext.errors import TinkerError
from tinker_ext.runs import Run
from tinker_ext.telemetry import RequestFinished, RequestStarted


class Killer:
    """Counts what happens to journal and requests, and ends the process at the chosen one."""

    def __init__(self, kill_at: int | None, journal: str, full: list[int] | None) -> None:
        self.events = 0
        self.kill_at = kill_at
        self.journal = journal
        self.full = full or [0, 0, 0]

    def __call__(self, _: str) -> None:
        self.events += 1
        first, last, fits = self.full
        if self.events == first < last:
            fill(os.path.getsize(self.journal) + fits)
        elif self.events == last:
            fill(resource.RLIM_INFINITY)
        if self.events == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def notice(self, event: object) -> None:
        if isinstance(event, RequestStarted | RequestFinished):
            self("request")


def fill(most: int) -> None:
    """Let every write beyond so many bytes of a file fail, the one across it in its middle."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def batch(step: int) -> list[Datum]:
    """Data that depends on the step alone."""
    tokens = [(7 * step + 3 * i) % 250 + 1 for i in range(6)]
    return [
        Datum(
            ModelInput.from_ints(tokens),
            {"target_tokens": [t + 1 for t in tokens], "weights": [1.0] * 6},
        )
    ]


def train(order: dict) -> dict:
    killer = Killer(order["kill_at"], order["journal"], order.get("full"))
    if order.get("disk") is not None:
        fill(order["disk"])
    run = Run(
        order["journal"],
        base_model="tinker-ext/tiny",
        rank=4,
        seed=11,
        base_url=order["url"],
        api_key="tml-SECRET-CANARY",
        observer=killer,
        reattach=order.get("reattach", True),
    )
    run.journal.file.listener = killer
    # So that a short run rewrites its journal a few times.
    run.journal.long_bytes = 400 * order["steps"]
    done = []
    with run:
        for step in run.steps(order["steps"]):
            assert run.notes.get("cursor", 0) == step
            run.training.forward_backward(batch(step), "cross_entropy")
            update = run.training.optim_step(AdamParams(learning_rate=1e-2))
            if step % 2:
                update.result()
            if step % 4 == 3:
                run.save("ckpt")
            run.notes["cursor"] = step + 1
            done.append(step)
        path = run.save("final")
    loaded = sorted(sys.modules)
    return {"events": killer.events, "path": path, "done": done, "how": run.how, "loaded": loaded}


def load(names: list[str]) -> None:
    """Load what a child had to load, so that the next ones need not."""
    for name in names:
        if name not in sys.modules:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    warm = False
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.write(writing, json.dumps(train(order)).encode())
                code = 0
            except BaseException as error:
                told = {"error": repr(error), "ours": isinstance(error, TinkerError)}
                os.write(writing, json.dumps(told).encode())
                if not order.get("quiet"):
                    traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        told = json.loads(answer) if answer else {}
        loaded = told.pop("loaded", None)
        if loaded and not warm:
            load(loaded)
            warm = True
        print(json.dumps({"code": code, **told}), flush=True)


main()
