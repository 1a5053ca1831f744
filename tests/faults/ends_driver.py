"""Runs programs that get a signal at a chosen request; one JSON order per input line.

The imports are done once; each order is carried out by a forked child, which ends like any Python
program: through the end of the interpreter. An order: url, shape, signal, at, errors (a file for
its standard error). The answer: exit code, session, requests seen, seconds from signal to end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
import warnings

from tinker_ext import AdamParams, Datum, ModelInput, Run, SamplingParams, ServiceClient
from tinker_ext.telemetry import RequestFinished, RequestStarted

MODEL = "tinker-ext/tiny"
PROMPT = ModelInput.from_ints([1, 2, 3])
DATUM = Datum(PROMPT, {"target_tokens": [2, 3, 4]})


class Shooter:
    """Sends this process a signal when a request after `arm` starts or ends, the at-th time."""

    def __init__(self, order: dict, answers: int) -> None:
        self.order = order
        self.answers = answers
        self.events = 0
        self.armed = False

    def say(self, **fields: object) -> None:
        os.write(self.answers, json.dumps(fields).encode() + b"\n")

    def arm(self, session_id: str | None) -> None:
        self.say(session=session_id)
        self.armed = True

    def notice(self, event: object) -> None:
        if self.armed and isinstance(event, RequestStarted | RequestFinished):
            self.events += 1
            if self.events == self.order["at"]:
                self.say(shot=time.monotonic())
                os.kill(os.getpid(), self.order["signal"])


def train_and_sample(service: ServiceClient, shooter: Shooter) -> None:
    training = service.create_lora_training_client(MODEL, rank=4)
    shooter.arm(service.session_id)
    for _ in range(6):
        training.forward_backward([DATUM], "cross_entropy")
        training.optim_step(AdamParams(learning_rate=1e-3)).result()
    sampler = training.save_weights_and_get_sampling_client()
    futures = [sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4)) for _ in range(40)]
    for future in futures:
        future.result()


def plain(service: ServiceClient, shooter: Shooter) -> None:
    """No context manager: the end of the process is the end of the session."""
    train_and_sample(service, shooter)
    shooter.say(events=shooter.events)


def block(service: ServiceClient, shooter: Shooter) -> None:
    with service:
        train_and_sample(service, shooter)
    shooter.say(events=shooter.events)


def loop(service: ServiceClient, shooter: Shooter) -> None:
    async def main() -> None:
        async with service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            shooter.arm(service.session_id)
            for _ in range(6):
                step = await training.forward_backward_async([DATUM], "cross_entropy")
                await (await training.optim_step_async(AdamParams(learning_rate=1e-3)))
                await step
            sampler = await training.save_weights_and_get_sampling_client_async()
            params = SamplingParams(max_tokens=4)
            await asyncio.gather(*(sampler.sample_async(PROMPT, 1, params) for _ in range(40)))

    asyncio.run(main())
    shooter.say(events=shooter.events)


def run(service: ServiceClient, shooter: Shooter) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        service,
        Run(f"{folder}/j", base_model=MODEL, rank=4, service=service) as journaled,
    ):
        _ = journaled.training
        shooter.arm(service.session_id)
        for _ in journaled.steps(12):
            journaled.training.forward_backward([DATUM], "cross_entropy")
            journaled.training.optim_step(AdamParams(learning_rate=1e-3))
    shooter.say(events=shooter.events)


def pending(service: ServiceClient, shooter: Shooter) -> None:
    """The interpreter ends while work is under way and nobody waits for it."""
    training = service.create_lora_training_client(MODEL, rank=4)
    sampler = service.create_sampling_client(base_model=MODEL)
    shooter.arm(service.session_id)
    kept.extend(sampler.sample(PROMPT, 1, SamplingParams(max_tokens=16)) for _ in range(300))
    kept.extend(training.optim_step(AdamParams()) for _ in range(50))
    kept.append(service)
    shooter.say(shot=time.monotonic(), events=0)


def forked(service: ServiceClient, shooter: Shooter) -> None:
    """The same with a child that was forked amid it and ends like a program of its own."""
    pending(service, shooter)
    # Python 3.12 and later warn of any fork beside threads; what is tested is that it goes well.
    warnings.simplefilter("ignore", DeprecationWarning)
    child = os.fork()
    if child == 0:
        return
    os.waitpid(child, 0)
    shooter.say(shot=time.monotonic(), events=0)


kept: list = []
SHAPES = {"plain": plain, "block": block, "loop": loop, "run": run}
SHAPES |= {"pending": pending, "forked": forked}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            errors = os.open(order["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(errors, 2)
            os.dup2(errors, 1)
            shooter = Shooter(order, writing)
            service = ServiceClient(base_url=order["url"], api_key="tml-x", observer=shooter)
            SHAPES[order["shape"]](service, shooter)
            return  # to the end of the interpreter
        os.close(writing)
        answer: dict = {}
        with os.fdopen(reading, "rb") as pipe:
            for part in pipe:
                answer.update(json.loads(part))
        _, status = os.waitpid(child, 0)
        answer["seconds"] = time.monotonic() - answer.get("shot", time.monotonic())
        answer["code"] = os.waitstatus_to_exitcode(status)
        print(json.dumps(answer), flush=True)


signal.signal(signal.SIGINT, signal.default_int_handler)
main()
