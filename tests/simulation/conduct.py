"""One seed on an oddly behaved server: a program, some samples, and what it may cost.

The judge looks at the wire. A call that succeeded took effect once; one that failed, at most once;
when all succeeded the weights are those of a calm server. Nobody is asked more than twenty times a
second beyond the work itself, and no call outlives its deadline.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections import Counter
from typing import Any

import attrs
from given_back import watched
from in_process import MODEL, adam, client, datum, deadline
from scripted import Scripted, Sent, busiest
from simulation.behaviours import BEHAVIOURS, REASON, TRAINING, WORK, Behaviour, Stage
from simulation.execution import alarmed
from simulation.program import call, expected_effects, fingerprint, program
from virtual_clock import HaltedError, run_virtual

from tinker_ext import Config, ModelInput, SamplingParams
from tinker_ext.errors import DeadlineExceededError, TinkerError, UnsafeToRetryError
from tinker_ext.mock import App, Settings, create_app

MOST_A_SECOND = 20.0
WINDOW = 10.0
MOST_REPEATS = 50
"""Times one and the same piece of work may be posted, and three a second while it is refused."""
DAY = 86_400.0
PROFILES = ("dedupe", "strict", "ignore", "gap", "late")


@attrs.frozen
class Plan:
    """Everything one seed decides about an odd server.

    Attributes:
        name: Behaviour.
        passes: Virtual seconds after which the behaviour ends.
        patience: Seconds each call may take.
    """

    seed: int
    name: str
    seq: str
    wire: str | None
    number: int
    ahead: bool
    passes: float
    patience: float

    @classmethod
    def of(cls, seed: int, name: str | None = None) -> Plan:
        """The plan of a seed, or of a seed under one behaviour."""
        rng = random.Random(f"conduct {seed}")
        drawn = rng.choice(sorted(BEHAVIOURS))
        name = name or drawn
        behaviour = BEHAVIOURS[name]
        return cls(
            seed,
            name,
            rng.choice(behaviour.profiles or PROFILES),
            None if behaviour.poisons else rng.choice((None, "json", "proto")),
            rng.randrange(12),
            rng.random() < 0.5,
            rng.choice((15.0, 60.0, 200.0)),
            rng.choice((DAY, 300.0, 60.0)),
        )

    @property
    def behaviour(self) -> Behaviour:
        """What the server does."""
        return BEHAVIOURS[self.name]


@attrs.define
class Verdict:
    """What one execution came to.

    Attributes:
        wrong: Broken promises.
        requests: Sent in all.
        rate: Requests a second in the busiest ten seconds, the work itself left out.
        longest: Seconds of the call that took longest.
        failed: Calls that ended in an error.
        repeats: Times the most repeated piece of work was posted.
    """

    plan: Plan
    wrong: list[str] = attrs.field(factory=list)
    requests: int = 0
    rate: float = 0.0
    longest: float = 0.0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    repeats: int = 0
    trace: list[str] = attrs.field(factory=list)


@attrs.define
class _Run:
    """One execution under way."""

    plan: Plan
    stage: Stage
    network: Scripted
    verdict: Verdict
    samples: int
    ends: list[tuple[str, Any]] = attrs.field(factory=list)


def conduct(seed: int, name: str | None = None) -> Verdict:
    """Run one seed and judge it."""
    plan = Plan.of(seed, name)
    samples = plan.behaviour.samples
    calm, own = reference(plan.number, plan.seq, plan.wire, plan.ahead, samples)
    verdict = Verdict(plan)
    passes = math.inf if plan.behaviour.lasts else plan.passes
    stage = Stage(random.Random(f"stage {seed}"), passes)
    app = create_app(_settings(plan))
    network = Scripted(app, plan.behaviour.script(stage), most=own + 12_000)
    run = _Run(plan, stage, network, verdict, samples)
    with alarmed() as said:
        try:
            with watched() as taken:
                run_virtual(_play(run, app, calm), seed)
            verdict.wrong += taken.left()
        except HaltedError as error:
            verdict.wrong.append(f"a storm: {error}")
        except Exception as error:
            verdict.wrong.append(f"the execution failed: {error!r}")
        finally:
            app.close()
    verdict.wrong += [f"reported by the client: {text}" for text in said]
    _judge_wire(run, own)
    return verdict


@functools.cache
def reference(
    number: int, seq: str, wire: str | None, ahead: bool, samples: int
) -> tuple[str, int]:
    """Weights of a program on a calm server, and the requests it takes."""
    plan = Plan(-1, "cut", seq, wire, number, ahead, 0.0, DAY)
    app = create_app(_settings(plan))
    network = Scripted(app)
    run = _Run(plan, Stage(random.Random(0), 0.0), network, Verdict(plan), samples)
    try:
        digest = run_virtual(_play(run, app, None))
    finally:
        app.close()
    assert not run.verdict.wrong, run.verdict.wrong
    return digest, network.count()


def _settings(plan: Plan) -> Settings:
    return Settings(
        inline_engine=True,
        seq=plan.seq,
        session_ttl=30 * DAY,
        future_ttl=30 * DAY,
        delivered_ttl=30 * DAY,
        latency=0.5,
        epoch=1.7e9,
        validate=False,
        **(plan.behaviour.settings if plan.seed >= 0 else {}),
    )


async def _play(run: _Run, app: App, calm: str | None) -> str:
    plan, verdict = run.plan, run.verdict
    loop = asyncio.get_running_loop()
    unhandled: list[str] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(str(context)))
    url = f"http://odd-{plan.seed}.test"
    digest = ""
    async with client(
        run.network,
        base_url=url,
        wire=plan.wire,
        config=Config(chunk_datums=1, connect_timeout=300.0),
    ) as service:
        training = await service.create_lora_training_client_async(MODEL, rank=1, seed=3)
        sampling = await service.create_sampling_client_async(base_model=MODEL)
        if plan.behaviour.poisons and plan.seed >= 0:
            await _poison(run, training)
        waits = [
            asyncio.ensure_future(_wait(run, "sample", lambda: _sample(sampling)))
            for _ in range(run.samples)
        ]
        for step in program(plan.number):
            waits.append(
                asyncio.ensure_future(_wait(run, step.kind, lambda step=step: call(training, step)))
            )
            await asyncio.sleep(0)  # the order of the calls is the order of the program
            if not plan.ahead:
                await waits[-1]
        await asyncio.gather(*waits)
        digest = fingerprint(app, training.model_id)
        _judge_effects(run, app, training.model_id, digest, calm)
        await asyncio.sleep(45.0)  # what goes on by itself shows
        if not plan.behaviour.lasts:
            await asyncio.sleep(max(0.0, plan.passes - loop.time()))
            await _afterwards(run, training, sampling)
        await asyncio.sleep(0.01)
        if service.pending():
            verdict.wrong.append(f"still pending: {service.pending()}")
    for _ in range(3):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        verdict.wrong.append(f"tasks left: {left}")
    verdict.wrong += [f"unhandled: {text}" for text in unhandled]
    verdict.seconds = loop.time()
    return digest


async def _afterwards(run: _Run, training: Any, sampling: Any) -> None:
    """Once the server is well again everything works, at the latest at the fifth call."""
    for submit in (
        lambda: training.forward_async([datum(2, first=50)], "cross_entropy"),
        lambda: training.optim_step_async(adam(1e-3)),
        lambda: _sample(sampling),
    ):
        for attempt in range(5):
            try:
                await (await submit())
                break
            except TinkerError as error:
                if attempt == 4:
                    run.verdict.wrong.append(f"the client does not work any more: {error!r}")


async def _sample(sampling: Any) -> Any:
    return sampling.sample(ModelInput.from_ints([1, 2]), 1, SamplingParams(max_tokens=2, seed=1))


async def _poison(run: _Run, training: Any) -> None:
    """A call whose body is refused: it must say why, and change nothing for the others."""
    run.stage.poisoned = True
    try:
        await (await training.forward_backward_async([datum(3, first=90)], "cross_entropy"))
        run.verdict.wrong.append("a refused body trained")
    except TinkerError as error:
        if REASON not in str(error):
            run.verdict.wrong.append(f"the reason is hidden: {error!r}")
    run.stage.poisoned = False


async def _wait(run: _Run, kind: str, submit: Any) -> None:
    plan, verdict = run.plan, run.verdict
    loop = asyncio.get_running_loop()
    began = loop.time()
    verdict.calls += 1
    end: Any = None
    try:
        with deadline(plan.patience):
            future = await submit()
        async with asyncio.timeout(plan.patience + 1.0):
            await future
    except TimeoutError as error:
        end = error
        if not isinstance(error, TinkerError):
            verdict.wrong.append(f"{kind} was alive after its deadline of {plan.patience:.0f} s")
    except Exception as error:
        end = error
    took = loop.time() - began
    verdict.longest = max(verdict.longest, took)
    run.ends.append((kind, end))
    if end is not None:
        verdict.failed += 1
        run.verdict.trace.append(f"{loop.time():9.3f} {kind}: {end!r}")
        _judge_error(run, kind, end)
    behind = max(plan.passes, 0.0) if plan.ahead else 0.0
    if took > plan.behaviour.within + plan.passes + behind:
        verdict.wrong.append(f"{kind} took {took:.0f} s")


def _judge_error(run: _Run, kind: str, error: BaseException) -> None:
    plan, behaviour = run.plan, run.plan.behaviour
    if not isinstance(error, TinkerError):
        run.verdict.wrong.append(f"{kind}: a raw {error!r}")
    elif isinstance(error, DeadlineExceededError):
        if plan.patience == DAY or not behaviour.slow:
            run.verdict.wrong.append(f"{kind} only ended at its deadline: {error!r}")
    elif isinstance(error, UnsafeToRetryError):
        blind = "undeclared" in plan.name or plan.seq in ("strict", "ignore", "late")
        if not (behaviour.may_lose and blind and kind != "sample"):
            run.verdict.wrong.append(f"{kind}: {error!r}")
    elif not behaviour.may_refuse and not _follows(run, kind):
        run.verdict.wrong.append(f"{kind}: {error!r}")


def _follows(run: _Run, kind: str) -> bool:
    """Whether an error may come of an earlier one: a load without its save, a number not sent."""
    return kind != "sample" and any(end is not None and k != "sample" for k, end in run.ends[:-1])


def _judge_effects(run: _Run, app: App, model_id: str, digest: str, calm: str | None) -> None:
    wrong = run.verdict.wrong
    effects = [e for e in app.log.training(model_id) if e.error is None and e.op != "forward"]
    numbers = [effect.seq for effect in effects]
    names = [effect.op for effect in effects]
    if len(set(numbers)) != len(numbers) or numbers != sorted(numbers):
        wrong.append(f"numbers took effect as {numbers}")
    steps = program(run.plan.number)
    expected = [name for name in expected_effects(steps) if name != "forward"]
    rest = iter(expected)
    if not all(name in rest for name in names):
        wrong.append(f"effects {names} are not part of {expected}")
    kinds = [(kind, end) for kind, end in run.ends if kind != "sample"]
    if all(end is None for _, end in kinds):
        if names != expected:
            wrong.append(f"every call succeeded; effects {names} instead of {expected}")
        elif calm not in (None, digest):
            wrong.append("every call succeeded; the weights differ from those of a calm server")


def _judge_wire(run: _Run, own: int) -> None:
    """Count requests, and see that numbers and keys belong to one body each."""
    verdict, network = run.verdict, run.network
    verdict.requests = network.count()
    times = [sent.when for sent in network.sent]
    verdict.rate = max(0.0, busiest(times, WINDOW) - own / WINDOW)
    if verdict.rate > MOST_A_SECOND:
        verdict.wrong.append(f"{verdict.rate:.0f} requests a second beyond the work itself")
    texts = [(sent, f"{sent.name} {sent.body!r}") for sent in network.sent]
    keys: dict[str, set[str]] = {}
    for sent, text in texts:
        if "x-idempotency-key" in sent.headers:
            keys.setdefault(sent.headers["x-idempotency-key"], set()).add(text)
    for key, several in keys.items():
        if len(several) > 1:
            verdict.wrong.append(f"idempotency key {key} had {len(several)} bodies")
    repeats = Counter(text for sent, text in texts if sent.name in WORK)
    worst = max(repeats.values(), default=0)
    verdict.repeats = worst
    if worst > MOST_REPEATS + 3 * run.plan.passes:
        verdict.wrong.append(f"the same work was posted {worst} times")
    _judge_numbers(verdict, texts)


def _judge_numbers(verdict: Verdict, texts: list[tuple[Sent, str]]) -> None:
    """A number that may have reached the server is never sent with another body."""
    held: dict[Any, str] = {}
    for sent, text in texts:
        if sent.name not in TRAINING or not isinstance(sent.body, dict):
            continue
        number = sent.body["seq_id"]
        if number in held and held[number] != text:
            verdict.wrong.append(f"seq_id {number} may have been taken, and had another body then")
            held[number] = text
        status = sent.status
        if status is None or status < 300 or status >= 500 or status == 408:
            held[number] = text
