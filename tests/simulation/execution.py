"""One seed, one execution: a program against a failing server, and what may not have happened."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import threading
from collections.abc import Iterator
from typing import Any

import attrs
from given_back import watched
from in_process import MODEL, client, deadline
from simulation.network import Network, Weather
from simulation.program import PROGRAMS, Step, call, expected_effects, fingerprint, program
from virtual_clock import run_virtual

from tinker_ext import ServiceClient
from tinker_ext.config import Config
from tinker_ext.errors import (
    APIConnectionError,
    APIStatusError,
    DeadlineExceededError,
    TinkerError,
    UnsafeToRetryError,
)
from tinker_ext.mock import Settings

PROFILES = ("dedupe", "strict", "ignore", "gap", "late")
DAY = 86_400.0


@attrs.frozen
class Plan:
    """Everything one seed decides.

    Attributes:
        seq: Profile of the server.
        wire: Wire of the client; None lets it choose.
        number: Program.
        ahead: Steps are submitted without waiting for the earlier ones.
        patience: Seconds each step may take.
        weather: Faults.
    """

    seed: int
    seq: str
    wire: str | None
    number: int
    ahead: bool
    patience: float
    weather: Weather

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed; profiles take turns."""
        rng = random.Random(f"plan {seed}")
        return cls(
            seed,
            PROFILES[seed % len(PROFILES)],
            rng.choice((None, "json", "proto")),
            rng.randrange(PROGRAMS),
            rng.random() < 0.5,
            rng.choice((DAY, DAY, DAY, 300.0, 30.0)),
            Weather.drawn(rng),
        )


@attrs.define
class Outcome:
    """What one execution came to.

    Attributes:
        wrong: Broken promises; empty when all were kept.
        ended_early: The typed error of a server that ignores numbers ended the program.
        lost_answers: Steps whose result could not be read, although they took effect.
        expired: Steps that ended at their deadline; they took effect once or, unsent, never.
    """

    plan: Plan
    wrong: list[str] = attrs.field(factory=list)
    requests: int = 0
    faults: int = 0
    restarts: int = 0
    steps: int = 0
    futures: int = 0
    ended_early: bool = False
    lost_answers: int = 0
    expired: int = 0
    seconds: float = 0.0
    trace: list[str] = attrs.field(factory=list)


class _Alarm(logging.Handler):
    """Collects what the client reports as an error of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage() + f" {record.exc_info and record.exc_info[1]!r}")


@contextlib.contextmanager
def alarmed() -> Iterator[list[str]]:
    """Collect the errors the client logs, and show nothing else of its log."""
    alarm = _Alarm()
    logger = logging.getLogger("tinker_ext")
    before = (logger.propagate, list(logger.handlers), logger.level)
    logger.propagate, logger.handlers = False, [alarm]
    logger.setLevel(logging.ERROR)
    try:
        yield alarm.texts
    finally:
        logger.propagate, logger.handlers = before[0], before[1]
        logger.setLevel(before[2])


def execute(seed: int) -> Outcome:
    """Run one seed and judge it."""
    plan = Plan.of(seed)
    outcome = Outcome(plan)
    wanted = reference(plan.number, plan.wire)
    threads = set(threading.enumerate())
    with alarmed() as said:
        try:
            with watched() as taken:
                run_virtual(_play(plan, outcome, wanted), seed)
            outcome.wrong += taken.left()
        except Exception as error:
            outcome.wrong.append(f"the execution failed: {error!r}")
    outcome.wrong += [f"reported by the client: {text}" for text in said]
    left = [t.name for t in threading.enumerate() if t not in threads]
    if left:
        outcome.wrong.append(f"threads left: {left}")
    return outcome


@functools.cache
def reference(number: int, wire: str | None) -> str:
    """Weights of a program without faults."""
    weather = Weather(0.0, ())
    plan = Plan(-1, "dedupe", wire, number, False, DAY, weather)
    outcome = Outcome(plan)
    digest = run_virtual(_play(plan, outcome))
    assert not outcome.wrong, outcome.wrong
    return digest


async def _play(plan: Plan, outcome: Outcome, wanted: str | None = None) -> str:
    loop = asyncio.get_running_loop()
    unhandled: list[str] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(str(context)))
    settings = Settings(
        inline_engine=True,
        seq=plan.seq,
        session_ttl=30 * DAY,
        future_ttl=30 * DAY,
        delivered_ttl=30 * DAY,
        epoch=1.7e9,
        validate=False,
    )
    rng = random.Random(f"network {plan.seed}")
    network = Network(settings, plan.weather if plan.weather.rate else None, rng)
    digest = ""
    try:
        async with client(
            network,
            base_url=f"http://server-{plan.seed}.test",
            wire=plan.wire,
            # Else a server that restarts at the first contact is given up, as it should be.
            config=Config(chunk_datums=1, connect_timeout=300.0),
            rng=random.Random(f"client {plan.seed}"),
        ) as service:
            training = await _created(service)
            await _steps(plan, training, outcome)
            if not outcome.ended_early:
                await _flush(training, outcome)
            await network.settle()
            digest = fingerprint(network.app, training.model_id)
            _judge(plan, outcome, network, training.model_id)
            complete = not outcome.ended_early and not outcome.expired
            if complete and wanted not in (None, digest):
                outcome.wrong.append("the weights differ from those of the run without faults")
            if service.pending():
                outcome.wrong.append(f"still pending: {service.pending()}")
    finally:
        await network.settle()
        for _ in range(3):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            outcome.wrong.append(f"tasks left: {left}")
        outcome.wrong += [f"unhandled: {text}" for text in unhandled]
        outcome.requests, outcome.restarts = network.requests, network.restarts
        outcome.faults = len(network.faults)
        outcome.trace += [f"{when:9.3f} {kind} {name}" for when, kind, name in network.faults]
        outcome.seconds = loop.time()
        network.close()
    return digest


async def _created(service: ServiceClient) -> Any:
    for attempt in range(8):
        try:
            return await service.create_lora_training_client_async(MODEL, rank=1, seed=3)
        except (APIConnectionError, APIStatusError):
            if attempt == 7:
                raise
    raise AssertionError


async def _steps(plan: Plan, training: Any, outcome: Outcome) -> None:
    """Make the calls of the program; an error of a kind that allows it is walked over."""
    waits = []
    for step in program(plan.number):
        if outcome.ended_early:
            break
        with deadline(plan.patience):
            future = await call(training, step)
        outcome.steps += 1
        waits.append(asyncio.ensure_future(_wait(plan, step, future, outcome)))
        if not plan.ahead:
            await waits[-1]
    await asyncio.gather(*waits)


async def _wait(plan: Plan, step: Step, future: Any, outcome: Outcome) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    outcome.futures += 1
    try:
        async with asyncio.timeout(plan.patience + 1.0):
            await future
    except DeadlineExceededError:
        outcome.expired += 1
        if plan.patience == DAY:
            outcome.wrong.append(f"{step} took a day")
    except UnsafeToRetryError as error:
        if plan.seq == "ignore":
            outcome.ended_early = True
        elif plan.seq in ("strict", "late"):
            outcome.lost_answers += 1
        else:
            outcome.wrong.append(f"{step}: {error!r}")
    except (APIConnectionError, APIStatusError) as error:
        if plan.seq == "ignore":
            outcome.ended_early = True
        elif "not sent" in (error.hint or ""):
            outcome.expired += 1
        elif "same number" not in (error.hint or ""):
            outcome.wrong.append(f"{step}: {error!r}")
        outcome.trace.append(f"{loop.time():9.3f} {step.kind}: {error!r}")
    except TimeoutError:
        outcome.wrong.append(f"{step} was alive {loop.time() - began:.0f} s after its call")
    except TinkerError as error:
        # Without its save, which ended at its deadline unsent, a load has nothing to load.
        if not (step.kind == "load_state" and plan.patience < DAY):
            outcome.wrong.append(f"{step}: {error!r}")
    if not future.done():
        outcome.wrong.append(f"{step} is not done past its deadline")


async def _flush(training: Any, outcome: Outcome) -> None:
    """One more call, which also sends again what was lost; it must get through in the end."""
    for _ in range(20):
        try:
            future = await call(training, Step("forward", 77, ("forward",)))
            await future
            return
        except UnsafeToRetryError:
            return
        except (APIConnectionError, APIStatusError):
            continue
    outcome.wrong.append("the last call never got through")


def _judge(plan: Plan, outcome: Outcome, network: Network, model_id: str) -> None:
    effects = network.app.log.training(model_id)
    numbers = [effect.seq for effect in effects]
    names = [effect.op for effect in effects if effect.error is None]
    failed = [effect for effect in effects if effect.error is not None]
    if failed and not outcome.expired:
        outcome.wrong.append(f"failed on the server: {failed}")
    if len(set(numbers)) != len(numbers) or numbers != sorted(numbers):
        outcome.wrong.append(f"numbers took effect as {numbers}")
    expected = expected_effects(program(plan.number))
    # Of `_flush`, which has no part in a program and is left out of one that ended early.
    while names and names[-1] == "forward" and not outcome.ended_early:
        names.pop()
    if outcome.ended_early or (plan.seq == "ignore" and outcome.expired):
        if not _is_subsequence(names, expected):
            outcome.wrong.append(f"effects {names} are not part of {expected}")
        return
    if numbers != list(range(1, len(numbers) + 1)):
        outcome.wrong.append(f"a gap: {numbers}")
    if outcome.expired:  # a number that was never sent is filled with a forward pass
        names, expected = ([n for n in each if n != "forward"] for each in (names, expected))
    if names != expected and not (outcome.expired and _is_subsequence(names, expected)):
        outcome.wrong.append(f"effects {names} instead of {expected}")


def _is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)
