"""The short form of `tests/faults/fuzz.py`: wrong replies end in our errors, never in a lie."""

from __future__ import annotations

import random
import resource

import orjson
import pytest
from faults.hostile import as_it_is, run_batch, same_outputs
from faults.mutations import BIG, DEPTH, RARE, Reply, bomb, mutate
from in_process import client, datum, run
from stub_server import StubServer

from tinker_ext.core.workspace import deadline
from tinker_ext.errors import APIResponseValidationError, TinkerError

# A load into a client in use is one of the operations; what it warns of is told elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:load_state and load_state_with:FutureWarning")

CASES = 60


@pytest.mark.parametrize("first", range(0, 240, CASES))
def test_wrong_replies(first):
    """M22 M38: whatever the reply, a call ends in a true result or in an error of ours."""
    tally = run_batch(first, CASES)
    assert tally.wrong == []
    assert tally.cases == CASES
    assert tally.errors > 0
    assert tally.results > 0


def test_the_check_finds_a_lie():
    """A result that differs from its reply in one number is noticed."""
    from tinker_ext._wire.json_codec import decode_forward

    tensor = {"data": [0.5, 1.0], "dtype": "float32", "shape": [2]}
    body = {
        "loss_fn_output_type": "x",
        "loss_fn_outputs": [{"logprobs": tensor}] * 2,
        "metrics": {"loss:sum": 1.5},
    }
    value = decode_forward(body)
    same_outputs(value, body)
    for change in ({"data": [0.5, 1.25]}, {"data": [0.5, True]}, {"shape": [1]}):
        lie = {**body, "loss_fn_outputs": [{"logprobs": {**tensor, **change}}, body]}
        with pytest.raises((AssertionError, KeyError)):
            same_outputs(value, lie)


def test_mutations_are_many_and_repeatable():
    """One seed gives one reply, and the kinds of the issue all occur."""
    body = {"request_id": "r", "items": [1, 2.5, {"a": None}]}
    made = [mutate(random.Random(i), 200, body) for i in range(2000)]
    again = [mutate(random.Random(i), 200, body) for i in range(2000)]
    assert made == again
    names = {reply.how.split(" ")[0] for reply in made}
    wanted = {"drop", "swap", "rename", "wrap", "repeat", "cut", "garbage", "html", "literal"}
    assert wanted | {"length", "coding", "content", "status"} <= names
    assert {name for name, _ in RARE} == {"deep", "bomb"}


@pytest.mark.parametrize("kind", ["bomb", "deep list", "deep object", "long"])
@pytest.mark.parametrize("operation", ["retrieve_future", "create_session"])
def test_large_and_deep_replies(kind, operation):
    """M22: half a megabyte that unpacks to 512 MB, or 100,000 levels, cost little memory."""
    bombs = {
        "bomb": (bomb(), {"content-encoding": "gzip"}),
        "deep list": (b"[" * DEPTH + b"]" * DEPTH, {}),
        "deep object": (b'{"a":' * DEPTH + b"1" + b"}" * DEPTH, {}),
        "long": (b'{"request_id":"' + b"x" * BIG * 16 + b'"', {}),
    }
    content, extra = bombs[kind]

    class Hostile(StubServer):
        async def handle_async_request(self, request):
            if request.url.path.endswith(operation):
                headers = {"content-type": "application/json", **extra}
                return as_it_is(Reply(200, headers, content, kind))
            return await super().handle_async_request(request)

    async def scenario():
        stub = Hostile()
        async with client(stub, wire="json") as service:
            with deadline(60.0):
                training = await service.create_lora_training_client_async("m", rank=4)
                await (await training.forward_backward_async([datum()], "cross_entropy"))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TinkerError):
        run(scenario)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 64 << 20


def test_a_result_that_is_only_ever_announced():
    """M22: a server that announces a result for ever is told so, not asked for ever."""

    def announces(name, body, request):
        if name == "retrieve_future" and body["request_id"] != "r0":
            return 200, {"status": "complete_metadata", "response_payload_size": 10**9}
        return None

    async def scenario():
        stub = StubServer(announces)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            with pytest.raises(APIResponseValidationError, match="announced"):
                await (await training.forward_backward_async([datum()], "cross_entropy"))
            return stub.counts["retrieve_future"]

    assert run(scenario) == 3


@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_for_other_datums(outputs):
    """M11: outputs that cannot belong to the datums sent are refused."""
    tensor = {"data": [-1.0], "dtype": "float32", "shape": [1]}
    result = {
        "loss_fn_output_type": "x",
        "loss_fn_outputs": [{"logprobs": tensor}] * outputs,
        "metrics": {},
    }

    def lies(name, body, request):
        if name == "retrieve_future" and body["request_id"] != "r0":
            return 200, orjson.dumps(result), {"content-type": "application/json"}
        return None

    async def scenario():
        stub = StubServer(lies)
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            with pytest.raises(APIResponseValidationError, match="2 datums"):
                await (await training.forward_backward_async([datum(), datum()], "cross_entropy"))

    run(scenario)
