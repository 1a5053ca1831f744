"""Custom losses as handles: tracing, the rules, the request, and both places they run."""

from __future__ import annotations

import math

import pytest
import torch
from in_process import MODEL, adam, client, run, server
from stub_server import StubServer

from tinker_ext import Datum, ModelInput
from tinker_ext.clients import losses
from tinker_ext.clients.losses import LossHandle
from tinker_ext.errors import BadRequestError, InvalidInputError, RequestFailedError

pytestmark = pytest.mark.torch

RANKS = {"logprobs": 1, "advantages": 1}
DATA = [
    Datum(ModelInput.from_ints([1, 2]), {"target_tokens": [2, 3], "advantages": [1.0, 3.0]}),
    Datum(ModelInput.from_ints([1]), {"target_tokens": [2], "advantages": [2.0]}),
]
FLAGS = {"custom_loss_server_side": True}


def policy(logprobs, advantages):
    """A loss with a function, a method, an operator and two metrics."""
    ratio = torch.clamp(torch.exp(logprobs), max=2.0)
    loss = -(ratio * advantages).sum()
    return loss, {"custom/ratio:mean": ratio.mean(), "custom/tokens:sum": torch.sum(ratio > 0)}


def nodes_of(fn):
    return {node["name"]: node for node in losses.encode(losses.trace(fn, "loss"), "loss")}


def test_the_graph_as_the_request_carries_it():
    """M15: op, name, qualified target, arguments; references by node name."""
    encoded = losses.encode(losses.trace(policy, "policy"), "policy")
    assert encoded[0] == {
        "op": "placeholder", "name": "logprobs", "target": "logprobs", "args": [], "kwargs": {},
    }  # fmt: skip
    by_name = {node["name"]: node for node in encoded}
    assert by_name["exp"]["target"] == "torch.exp"
    assert by_name["exp"]["args"] == [{"ref": "logprobs"}]
    assert by_name["clamp"]["kwargs"] == {"max": 2.0}
    assert by_name["mul"] == {
        "op": "call_function", "name": "mul", "target": "operator.mul",
        "args": [{"ref": "clamp"}, {"ref": "advantages"}], "kwargs": {},
    }  # fmt: skip
    assert by_name["mean"]["op"] == "call_method"
    assert encoded[-1]["op"] == encoded[-1]["target"] == "output"
    metrics = {"custom/ratio:mean": {"ref": "mean"}, "custom/tokens:sum": {"ref": "sum_2"}}
    assert encoded[-1]["args"] == [{"tuple": [{"ref": "neg"}, {"dict": metrics}]}]


@pytest.mark.parametrize(
    ("build", "node", "argument"),
    [
        (lambda x: x[1:, None], "getitem", {"tuple": [{"slice": [1, None, None]}, None]}),
        (lambda x: x[..., 0], "getitem", {"tuple": [{"ellipsis": True}, 0]}),
        (lambda x: torch.clamp(x, math.inf), "clamp", {"float": "inf"}),
        (lambda x: torch.clamp(x, -math.inf), "clamp", {"float": "-inf"}),
        (lambda x: torch.add(x, math.nan), "add", {"float": "nan"}),
        (lambda x: x.to(torch.float64), "to", {"dtype": "float64"}),
        (lambda x: x.to(torch.device("cpu")), "to", {"device": "cpu"}),
        (lambda x: x.contiguous(torch.channels_last), "contiguous", None),
        (lambda x: x.reshape([-1]), "reshape", [-1]),
        (lambda x: torch.einsum("i->", x), "einsum", "i->"),
        (lambda x: torch.add(x, True), "add", True),
    ],
)
def test_every_kind_of_argument(build, node, argument):
    """M15: scalars, texts and lists as themselves, the rest as objects of one key."""
    nodes = nodes_of(lambda logprobs: (build(logprobs).sum(), {}))
    if node == "contiguous":
        argument = {"memory_format": "channels_last"}
    assert argument in nodes[node]["args"]


def test_keywords_and_layouts():
    """M15: keyword arguments are encoded alike."""
    kept = nodes_of(lambda logprobs: (torch.zeros_like(logprobs, layout=torch.strided).sum(), {}))
    assert kept["zeros_like"]["kwargs"] == {"layout": {"layout": "strided"}}


CAPTURED = torch.tensor([1.0])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda logprobs: (logprobs.sum().item(), {}), "leaves torch"),
        (lambda logprobs: (logprobs.numpy(), {}), "leaves torch"),
        (lambda logprobs: (logprobs.tolist(), {}), "leaves torch"),
        (lambda logprobs: (logprobs.sum().backward(), {}), "backward"),
        (lambda logprobs: (logprobs.no_such_thing(), {}), "no_such_thing"),
        (lambda logprobs: ((logprobs * CAPTURED).sum(), {}), "from outside"),
        (lambda logprobs: (torch.nn.ReLU()(logprobs).sum(), {}), "cannot be traced"),
        (lambda logprobs: ((logprobs if logprobs.sum() > 0 else -logprobs), {}), "branch"),
        (lambda logprobs: logprobs.sum(), "must return"),
        (lambda logprobs: (1.0, {}), "as its loss"),
        (lambda logprobs: (logprobs.sum(), None), "dict of metrics"),
        (lambda logprobs: (logprobs.sum(), {"mine:sum": logprobs.sum()}), "custom/<name>"),
        (lambda logprobs: (logprobs.sum(), {"custom/Mine:sum": logprobs.sum()}), "custom/<name>"),
        (lambda logprobs: (logprobs.sum(), {"custom/a:max": logprobs.sum()}), "custom/<name>"),
        (lambda logprobs: (logprobs.sum(), {"custom/a:sum": 2.0}), "must be a tensor"),
    ],
)
def test_what_a_loss_may_not_do(body, says):
    """M15 M38: each rule is told in an error at the call."""
    with pytest.raises(ValueError, match=says):
        losses.trace(body, "loss")


def many(logprobs, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):  # noqa: E741
    return logprobs.sum(), {}


@pytest.mark.parametrize(
    ("fn", "ranks", "says"),
    [
        (lambda x: (x, {}), {"x": 1}, "logprobs first"),
        (lambda: (0, {}), {}, "logprobs first"),
        (many, dict.fromkeys(["logprobs", *"abcdefghijklmnop"], 1), "16 parameters"),
        (lambda logprobs, Upper: (logprobs, {}), {"logprobs": 1, "Upper": 1}, "lowercase"),
        (lambda logprobs, x=1: (logprobs, {}), {"logprobs": 1, "x": 1}, "default"),
        (lambda logprobs, *x: (logprobs, {}), {"logprobs": 1, "x": 1}, "plain parameters"),
        (lambda logprobs, *, x: (logprobs, {}), {"logprobs": 1, "x": 1}, "plain parameters"),
        (lambda logprobs: (logprobs, {}), {"logprobs": 0}, "rank 0"),
        (lambda logprobs: (logprobs, {}), {"logprobs": 3}, "rank 3"),
        (lambda logprobs: (logprobs, {}), {}, "differ in: logprobs"),
        (lambda logprobs: (logprobs, {}), {"logprobs": 1, "y": 1}, "differ in: y"),
    ],
)
def test_parameters_and_ranks(fn, ranks, says):
    """M15 M38: parameters are loss inputs, so their names, number and ranks are checked."""

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            with pytest.raises(ValueError, match=says):
                service.create_custom_loss(fn, ranks)
            return stub.requests

    assert run(scenario) == []


def uploads(stub):
    return [body for op, body, _ in stub.requests if op == "create_custom_loss"]


def custom_stub(**flags):
    def answer(operation, body, request):
        if operation == "create_custom_loss":
            return stub.promise(operation)
        if operation == "retrieve_future" and (
            stub.futures[body["request_id"]] == "create_custom_loss"
        ):
            return 200, {"type": "create_custom_loss", "loss_id": "S:loss:0"}
        return None

    stub = StubServer(answer, config={**FLAGS, **flags})
    return stub


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_server_that_runs_losses_gets_the_graph_once_and_then_its_id(asynchronous):
    """M15: create_custom_loss, then one forward_backward with loss_fn custom."""

    async def scenario():
        stub = custom_stub()
        async with client(stub, wire="json") as service:
            handle = await service.create_custom_loss(policy, RANKS)
            training = await service.create_lora_training_client_async("m", rank=4)
            for _ in range(2):
                if asynchronous:
                    await (await training.forward_backward_custom_async(DATA[:1], handle))
                else:
                    await training.forward_backward_custom(DATA[:1], handle)
            return handle, stub

    handle, stub = run(scenario)
    assert isinstance(handle, LossHandle)
    assert (handle.name, handle.session_id, handle.loss_id) == ("policy", "S", "S:loss:0")
    assert handle.input_names == ("advantages",)
    (sent,) = uploads(stub)
    assert sent["custom_loss_seq_id"] == 0
    assert sent["inputs"] == [{"name": "logprobs", "rank": 1}, {"name": "advantages", "rank": 1}]
    assert sent["graph"]["format"] == 1
    assert sent["graph"]["nodes"][-1]["op"] == "output"
    assert stub.counts["forward"] == 0
    calls = [body for op, body, _ in stub.requests if op == "forward_backward"]
    assert len(calls) == 2
    for call in calls:
        assert call["forward_backward_input"]["loss_fn"] == "custom"
        assert call["forward_backward_input"]["loss_fn_config"] == {"loss_id": "S:loss:0"}


def test_a_loss_is_created_once_per_session():
    """M15: an identical traced loss is refused with the name of the first; others go on."""

    def twin(logprobs, advantages):
        return policy(logprobs, advantages)

    def other(logprobs):
        return -logprobs.sum(), {}

    async def scenario():
        stub = custom_stub()
        async with client(stub, wire="json") as service:
            await service.create_custom_loss(policy, RANKS)
            with pytest.raises(ValueError, match="computes the same as policy"):
                service.create_custom_loss(twin, RANKS)
            await service.create_custom_loss(other, {"logprobs": 1})
            return [body["custom_loss_seq_id"] for body in uploads(stub)]

    assert run(scenario) == [0, 1]


def test_a_failed_upload_may_be_tried_again():
    """M15: only a loss the session has counts as a repeat."""

    async def scenario():
        broken = [True]

        def answer(operation, body, request):
            refuse = operation == "create_custom_loss" and broken
            return (400, {"detail": "no such op"}) if refuse else friendly(operation, body, request)

        stub = custom_stub()
        friendly, stub.handler = stub.handler, answer
        async with client(stub, wire="json") as service:
            with pytest.raises(BadRequestError, match="no such op"):
                await service.create_custom_loss(policy, RANKS)
            broken.clear()
            return (await service.create_custom_loss(policy, RANKS)).loss_id

    assert run(scenario) == "S:loss:0"


@pytest.mark.parametrize("flags", [{}, FLAGS])
def test_on_the_embedded_server(flags):
    """M15: without the flag it trains from this side; with it the graph reaches the server."""

    async def scenario():
        app = server(client_config=flags)
        async with client(app) as service:
            handle = await service.create_custom_loss(policy, RANKS)
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            assert app.log.violations == []
            if flags:
                assert app.world.custom_losses[handle.loss_id]["name"] == "policy"
                with pytest.raises(RequestFailedError, match="does not run their graphs"):
                    await training.forward_backward_custom(DATA[:1], handle)
                return None
            assert handle.loss_id is None
            losses = []
            for _ in range(4):
                first = await (await training.forward_backward_custom_async(DATA, handle))
                await training.optim_step(adam(1e-2))
                losses.append(first.metrics)
            return losses

    found = run(scenario)
    if found is not None:
        values = [metrics["loss:sum"] for metrics in found]
        assert values == sorted(values, reverse=True)
        assert values[-1] < values[0]
        assert found[0]["custom/tokens:sum"] == 3.0
        assert 0 < found[0]["custom/ratio:mean"] <= 2.0


def test_a_batch_must_fit_the_loss():
    """M15 M38: a missing input, another rank, another session: refused before a byte is sent."""
    short = Datum(ModelInput.from_ints([1]), {"target_tokens": [2]})

    async def scenario():
        stub = custom_stub()
        async with client(stub, wire="json") as service:
            handle = await service.create_custom_loss(policy, RANKS)
            wide = await service.create_custom_loss(policy, {"logprobs": 2, "advantages": 1})
            training = await service.create_lora_training_client_async("m", rank=4)
            for data, loss, says in (
                ([DATA[0], short], handle, r"data\[1\] has no advantages"),
                (DATA, wide, r"target_tokens has rank 1"),
            ):
                with pytest.raises(InvalidInputError, match=says):
                    training.forward_backward_custom(data, loss)
            elsewhere = LossHandle(handle.name, handle.inputs, "other", handle.graph, "x")
            with pytest.raises(InvalidInputError, match="session other"):
                await training.forward_backward_custom_async(DATA, elsewhere)
            return stub.counts["forward_backward"]

    assert run(scenario) == 0
