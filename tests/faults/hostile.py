"""A client against a server whose replies are wrong: one case, one seed, one verdict."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import attrs
import httpx
import numpy as np
import orjson
from faults.members import CUSTOM_LOSS, KEYS, MEMBERS, STRANGERS
from faults.mutations import RARE, Reply, mutate
from given_back import watched
from in_process import MODEL, adam, client, datum, deadline
from simulation.network import answered
from virtual_clock import run_virtual

from tinker_ext import (
    ForwardBackwardOutput,
    ModelInput,
    OptimStepResponse,
    SampleResponse,
    SamplingParams,
    ServiceClient,
    TrainingClient,
)
from tinker_ext.errors import TinkerError
from tinker_ext.mock import App, Settings, create_app

SECONDS = 120.0
"""Virtual seconds one call may take."""
PROMPT = [1, 2, 3, 4]
SEQUENCES = 2


class Hostile(httpx.AsyncBaseTransport):
    """Takes the replies of a real server and spoils those of one operation."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._rng = random.Random(0)
        self._target: str | None = None
        self._once = True
        self._target_was: str | None = None
        self.spoiled: list[Reply] = []
        self.last: Reply | None = None

    def aim(self, rng: random.Random, target: str | None, *, once: bool) -> None:
        """Spoil the next reply of an operation, or all of them."""
        self._rng, self._target, self._once = rng, target, once
        self._target_was = target
        self.spoiled = []

    @contextlib.contextmanager
    def calm(self) -> Iterator[None]:
        """Spoil nothing inside the block."""
        held, self._target = self._target, None
        yield
        self._target = held

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, wrongly if it is the target."""
        response = await answered(self._app, request)
        name = request.url.path.partition("/api/v1/")[2]
        if name == self._target and response.status_code < 300:
            if self._once:
                self._target = None
            reply = self._spoil(response)
            self.spoiled.append(reply)
            response = as_it_is(reply)
        if name == "retrieve_future":
            kind = response.headers.get("content-type", "")
            self.last = Reply(
                response.status_code, {"content-type": kind}, await response.aread(), ""
            )
        return response

    def _spoil(self, response: httpx.Response) -> Reply:
        binary = "protobuf" in response.headers.get("content-type", "")
        content = response.content
        if self._target_was == "retrieve_future" and self._rng.random() < 0.1:
            name = self._rng.choice(sorted({**MEMBERS, **STRANGERS}))
            body = orjson.dumps({**MEMBERS, **STRANGERS}[name])
            return Reply(200, {"content-type": "application/json"}, body, f"the body of {name}")
        if self._rng.random() < 0.002:
            name, make = self._rng.choice(RARE)
            headers = {"content-type": response.headers.get("content-type", "")}
            return Reply(*make(self._rng, response.status_code, headers, content), name)
        return mutate(
            self._rng, response.status_code, content if binary else orjson.loads(content or b"null")
        )


class _Raw(httpx.AsyncByteStream):
    """A body that is sent as it is, whatever its headers say."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> Any:
        yield self._content


def as_it_is(reply: Reply) -> httpx.Response:
    """The reply byte for byte; httpx would unpack a body that is given to it."""
    return httpx.Response(reply.status, headers=reply.headers, stream=_Raw(reply.content))


@attrs.define
class Bench:
    """Clients that cases share, until one of them is spoiled for good."""

    service: ServiceClient
    transport: Hostile
    training: Any
    sampling: Any
    saved: str
    names: Iterator[int] = attrs.field(factory=itertools.count)


async def _bench(app: App, wire: str) -> Bench:
    transport = Hostile(app)
    service = client(transport, wire=wire)
    training = await service.create_lora_training_client_async(MODEL, rank=1)
    sampling = await service.create_sampling_client_async(base_model=MODEL)
    saved = await (await training.save_state_async("first"))
    return Bench(service, transport, training, sampling, saved.path)


# -- the calls --------------------------------------------------------------------------------


async def _forward_backward(bench: Bench) -> Any:
    data = [datum(3), datum(2, first=7)]
    return await (await bench.training.forward_backward_async(data, "cross_entropy"))


async def _sample(bench: Bench) -> Any:
    return await bench.sampling.sample_async(
        ModelInput.from_ints(PROMPT),
        SEQUENCES,
        SamplingParams(max_tokens=3, seed=1),
        include_prompt_logprobs=True,
        topk_sample_logprobs=2,
    )


async def _optim_step(bench: Bench) -> Any:
    return await (await bench.training.optim_step_async(adam()))


async def _forward(bench: Bench) -> Any:
    return await (await bench.training.forward_async([datum(3), datum(2)], "cross_entropy"))


async def _save(bench: Bench) -> Any:
    return await (await bench.training.save_state_async(f"s{next(bench.names)}"))


async def _save_for_sampler(bench: Bench) -> Any:
    name = f"w{next(bench.names)}"
    return await (await bench.training.save_weights_for_sampler_async(name))


async def _load(bench: Bench) -> Any:
    return await (await bench.training.load_state_with_optimizer_async(bench.saved))


async def _save_external(bench: Bench) -> Any:
    name = f"e{next(bench.names)}"
    return await (await bench.training.save_weights_external_async(name))


async def _custom_loss(bench: Bench) -> Any:
    number = next(bench.names)
    return await bench.service.call(
        "create_custom_loss",
        **{**CUSTOM_LOSS, "session_id": bench.service.session_id, "custom_loss_seq_id": number},
    )


async def _unload(bench: Bench) -> Any:
    with bench.transport.calm():
        spare = await bench.service.create_lora_training_client_async(MODEL, rank=1)
    return await bench.service.call("unload_model", model_id=spare.model_id)


async def _info(bench: Bench) -> Any:
    return await bench.training.get_info_async()


async def _capabilities(bench: Bench) -> Any:
    return await bench.service.get_server_capabilities_async()


async def _runs(bench: Bench) -> Any:
    return await bench.service.create_rest_client().list_training_runs_async()


async def _model(bench: Bench) -> Any:
    return await bench.service.create_lora_training_client_async(MODEL, rank=1)


async def _sampler(bench: Bench) -> Any:
    return await bench.service.create_sampling_client_async(base_model=MODEL)


async def _session(bench: Bench) -> Any:
    async with client(bench.transport) as service:
        return await service.create_lora_training_client_async(MODEL, rank=1)


Call = Callable[[Bench], Awaitable[Any]]
# (call, operation whose reply is spoiled, weight)
TARGETS: tuple[tuple[Call, str, int], ...] = (
    (_forward_backward, "retrieve_future", 8),
    (_forward_backward, "forward_backward", 2),
    (_sample, "retrieve_future", 8),
    (_sample, "asample", 2),
    (_optim_step, "retrieve_future", 2),
    (_optim_step, "optim_step", 1),
    (_forward, "retrieve_future", 2),
    (_save, "retrieve_future", 2),
    (_save_for_sampler, "retrieve_future", 2),
    (_load, "retrieve_future", 2),
    (_save_external, "retrieve_future", 2),
    (_custom_loss, "retrieve_future", 1),
    (_unload, "retrieve_future", 1),
    (_info, "get_info", 1),
    (_capabilities, "get_server_capabilities", 1),
    (_runs, "training_runs", 1),
    (_model, "create_model", 1),
    (_model, "retrieve_future", 1),
    (_sampler, "create_sampling_session", 1),
    (_session, "client/config", 2),
    (_session, "create_session", 1),
)
_WEIGHTS = [weight for _, _, weight in TARGETS]


@attrs.define
class Tally:
    """What a batch of cases came to."""

    cases: int = 0
    errors: int = 0
    results: int = 0
    replies: int = 0
    wrong: list[str] = attrs.field(factory=list)


def run_batch(first: int, count: int) -> Tally:
    """Run the cases `first` … `first + count - 1` against one server."""
    with watched() as taken:
        tally = run_virtual(_batch(first, count))
    tally.wrong += [f"cases {first}…{first + count - 1}: {text}" for text in taken.left()]
    return tally


async def _batch(first: int, count: int) -> Tally:
    tally = Tally()
    unhandled: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unhandled.append(str(context)))
    app = create_app(Settings(inline_engine=True, session_ttl=1e9, validate=False, epoch=1.7e9))
    wire = ("json", "proto")[first // max(1, count) % 2]
    bench = await _bench(app, wire)
    for seed in range(first, first + count):
        await _case(seed, bench, tally)
        if unhandled:
            tally.wrong.append(f"case {seed}: unhandled {unhandled.pop()}")
    bench.transport.aim(random.Random(0), None, once=True)
    if not await _works(bench):
        tally.wrong.append(f"cases {first}…{first + count - 1}: the client does not work any more")
    await bench.service.close("success")
    return tally


async def _works(bench: Bench) -> bool:
    """Whether the client, left in peace, can train and sample again."""
    for _ in range(4):
        try:
            with deadline(SECONDS):
                await _forward_backward(bench)
                await _sample(bench)
            return True
        except TinkerError:
            continue
    return False


async def _case(seed: int, bench: Bench, tally: Tally) -> None:
    rng = random.Random(f"case {seed}")
    call, target, _ = rng.choices(TARGETS, _WEIGHTS)[0]
    transport = bench.transport
    transport.aim(rng, target, once=rng.random() < 0.5)
    loop = asyncio.get_running_loop()
    began = loop.time()
    tally.cases += 1
    what = f"case {seed}: {call.__name__} with {target} spoiled"
    try:
        with deadline(SECONDS):
            async with asyncio.timeout(10 * SECONDS):
                value = await call(bench)
    except TinkerError:
        tally.errors += 1
    except Exception as error:
        tally.wrong.append(f"{what}: {error!r} by {[r.how for r in transport.spoiled]}")
    else:
        tally.results += 1
        said = _lie(call, value, transport.last)
        if said:
            tally.wrong.append(f"{what}: {said} by {[r.how for r in transport.spoiled]}")
    tally.replies += len(transport.spoiled)
    if loop.time() - began > 4 * SECONDS:
        tally.wrong.append(f"{what}: took {loop.time() - began:.0f} virtual seconds")


# -- did a wrong number get through? ----------------------------------------------------------


# Call → the class its user gets, and the member of the union it is read from.
AWAITED: dict[Call, tuple[str | type, str]] = {
    _forward_backward: (ForwardBackwardOutput, "forward"),
    _forward: (ForwardBackwardOutput, "forward"),
    _sample: (SampleResponse, "sample"),
    _optim_step: (OptimStepResponse, "optim_step"),
    _save: ("SaveWeightsResponse", "save_weights"),
    _save_for_sampler: ("SaveWeightsForSamplerResponse", "save_weights_for_sampler"),
    _load: ("LoadWeightsResponse", "load_weights"),
    _save_external: ("SaveWeightsExternalResponse", "save_weights_external"),
    _custom_loss: ("CreateCustomLossResponse", "create_custom_loss"),
    _unload: ("UnloadModelResponse", "unload_model"),
    _model: (TrainingClient, "create_model"),
    _session: (TrainingClient, "create_model"),
}


def _lie(call: Call, value: Any, reply: Reply | None) -> str | None:
    """Compare a result with what was awaited, and with a strict reading of its JSON."""
    if call in AWAITED:
        kind, member = AWAITED[call]
        if type(value).__name__ != (kind if isinstance(kind, str) else kind.__name__):
            return f"a {type(value).__name__} where {kind} was awaited"
        if reply is not None and "protobuf" not in reply.headers["content-type"]:
            said = _checked(functools.partial(_is_member, member), value, reply)
            if said is not None:
                return said
    if reply is None or "protobuf" in reply.headers["content-type"]:
        return None
    if call in (_forward_backward, _forward):
        return _checked(same_outputs, value, reply)
    if call is _sample:
        return _checked(_same_sample, value, reply)
    if call in (_save, _save_for_sampler, _save_external):
        return _checked(_same_path, value, reply)
    return None


def _is_member(member: str, _: Any, body: Any) -> None:
    """The reply is the member that was awaited: an object, its tag or none, a key of its own."""
    assert type(body) is dict, "not an object"
    tag = body.get("type")
    assert tag is None or tag == member, f"tag {tag!r}"
    assert "error" not in body, "a failed request"
    if body or member not in ("optim_step", "load_weights"):
        assert KEYS[member] & body.keys(), f"no {member}: {sorted(body)}"


def _same_path(value: Any, body: Any) -> None:
    assert type(body["path"]) is str, "path"
    assert value.path == body["path"]


def _checked(compare: Callable[[Any, Any], None], value: Any, reply: Reply) -> str | None:
    try:
        compare(value, orjson.loads(reply.content))
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError) as error:
        return f"a silent lie: {type(error).__name__} {error} in {reply.content[:300]!r}"
    return None


def _strict(values: Any, kinds: tuple[type, ...]) -> list[Any]:
    assert type(values) is list, "not a list"
    for item in values:
        assert item is None or type(item) in kinds, f"{item!r} among numbers"
    return values


def _same_tensor(tensor: Any, body: Any) -> None:
    kinds: tuple[type, ...] = (int, float) if body["dtype"] == "float32" else (int,)
    values = _strict(body["data"], kinds)
    shape = body.get("shape")
    if shape is not None:
        assert math.prod(_strict(shape, (int,))) == len(values), "shape"
    np.testing.assert_array_equal(
        tensor.to_numpy().ravel(), np.array(values, tensor.array.dtype), "data"
    )


def same_outputs(value: Any, body: Any) -> None:
    assert len(body["loss_fn_outputs"]) == 2, "two datums were sent"
    for ours, theirs in zip(value.loss_fn_outputs, body["loss_fn_outputs"], strict=True):
        assert ours.keys() == theirs.keys(), "names"
        for name in ours:
            _same_tensor(ours[name], theirs[name])
    for name, number in value.metrics.items():
        if name in (body.get("metrics") or {}):
            theirs = body["metrics"][name]
            assert theirs is None or type(theirs) in (int, float), f"metric {theirs!r}"
            np.testing.assert_equal(number, float("nan") if theirs is None else theirs)


def _same_sample(value: Any, body: Any) -> None:
    for ours, theirs in zip(value.sequences, body["sequences"], strict=True):
        assert ours.tokens == _strict(theirs["tokens"], (int,)), "tokens"
        logprobs = theirs.get("logprobs")
        if logprobs is not None:
            assert len(logprobs) == len(ours.tokens), "one logprob per token"
            _near(ours.logprobs, _strict(logprobs, (int, float)))
        _same_topk(ours.topk_logprobs, theirs.get("topk_logprobs"), len(ours.tokens))
    prompt = body.get("prompt_logprobs")
    if prompt is not None:
        assert len(prompt) in (len(PROMPT), len(PROMPT) - 1), "one logprob per prompt token"
        _near(value.prompt_logprobs[-len(prompt) :], _strict(prompt, (int, float)))


def _same_topk(ours: Any, theirs: Any, positions: int) -> None:
    if not theirs or not any(theirs):
        return
    assert len(theirs) == positions, "one row per token"
    for row, body in zip(ours, theirs, strict=True):
        pairs = [pair for pair in body or [] if pair[1] is None or pair[1] > -99999.0]
        for mine, pair in zip(row or [], pairs, strict=True):
            assert type(pair[0]) is int, f"token {pair[0]!r}"
            assert type(pair[1]) in (int, float), f"logprob {pair[1]!r}"
            assert mine[0] == pair[0], "token"
            _near([mine[1]], [pair[1]])


def _near(ours: Any, theirs: Any) -> None:
    mine = np.array([np.nan if v is None else v for v in ours], np.float32)
    with np.errstate(over="ignore"):
        other = np.array(theirs, np.float32)
    np.testing.assert_array_equal(mine, other)
