"""One numbered request and a server that is hard to understand."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from in_process import adam, client, datum, run
from stub_server import StubServer

from tinker_ext.errors import ConflictError, UnsafeToRetryError

MODERN = {"fwdbwd_max_chunk_len": 64}


def sent(stub, operation):
    return [
        body["seq_id"] if isinstance(body, dict) else "proto"
        for name, body, _ in stub.requests
        if name == operation
    ]


async def scenario(handler, seq, calls, **options):
    """Make some optim_steps; returns their ends and the server."""
    stub = StubServer(handler, config={**MODERN, "seq_ids": seq})
    async with client(stub, wire="json", **options) as service:
        training = await service.create_lora_training_client_async("m", rank=4)
        ends = []
        for _ in range(calls):
            future = await training.optim_step_async(adam())
            ends += await asyncio.gather(future, return_exceptions=True)
        return ends, stub


@pytest.mark.parametrize("seq", ["dedupe", "gap", "strict"])
def test_a_passing_409_is_waited_out(seq):
    """M20 M24: a proxy's 409 is tried again; the call succeeds under its first number."""

    def moody(operation, body, request):
        if operation == "optim_step" and stubs[0].counts["optim_step"] <= 2:
            return 409, {"detail": "lock timeout"}
        return None

    stubs = []

    async def main():
        stub = StubServer(moody, config={**MODERN, "seq_ids": seq})
        stubs.append(stub)
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.optim_step_async(adam()))
        return sent(stub, "optim_step")

    assert run(main) == [1, 1, 1]


@pytest.mark.parametrize(
    ("seq", "error"), [("strict", UnsafeToRetryError), ("dedupe", ConflictError)]
)
def test_a_409_that_stays_means_the_number_is_taken(seq, error):
    """M20: the number is not used again, so the next call goes through."""

    def taken(operation, body, request):
        if operation == "optim_step" and body["seq_id"] == 1:
            return 409, {"detail": "seq_id 1 was already used"}
        return None

    ends, stub = run(lambda: scenario(taken, seq, 2))
    assert isinstance(ends[0], error)
    assert not isinstance(ends[1], Exception)
    assert sent(stub, "optim_step") == [1, 1, 1, 1, 2]


def test_a_409_without_memory_is_final():
    """M20: where numbers are ignored nothing is repeated, and a refused number is used again."""

    def refuses(operation, body, request):
        return (409, {"detail": "no"}) if operation == "optim_step" else None

    ends, stub = run(lambda: scenario(refuses, "ignore", 2))
    assert [type(end) for end in ends] == [ConflictError, ConflictError]
    assert sent(stub, "optim_step") == [1, 1]


@pytest.mark.parametrize("first", ["lost", 500, 503])
def test_an_early_attempt_that_may_have_acted_is_not_forgotten(first):
    """M20: a lost answer or a 5xx, then no connection: the number stays with its request."""

    class Vanishing(StubServer):
        gone = True

        async def handle_async_request(self, request):
            if request.url.path.endswith("optim_step") and self.gone:
                if not self.counts["optim_step"]:
                    await super().handle_async_request(request)
                    if first != "lost":
                        return httpx.Response(first, json={"detail": "it broke on the way out"})
                    raise httpx.ReadError("reset")
                raise httpx.ConnectError("refused")
            return await super().handle_async_request(request)

    async def main():
        stub = Vanishing(config={**MODERN, "seq_ids": "dedupe"})
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.optim_step_async(adam(0.5))
            (end,) = await asyncio.gather(future, return_exceptions=True)
            stub.gone = False
            await (await training.optim_step_async(adam(0.25)))
            rates = [
                (body["seq_id"], body["adam_params"]["learning_rate"])
                for name, body, _ in stub.requests
                if name == "optim_step"
            ]
            return str(end), rates

    said, rates = run(main)
    assert "same number" in said
    assert rates == [(1, 0.5), (1, 0.5), (2, 0.25)]


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_without_memory_never_gets_a_body_twice(status):
    """M20 M27: not even the first body, whose wire the server may not know."""

    def fails(operation, body, request):
        return (status, {"detail": "?"}) if operation == "forward_backward" else None

    async def main():
        stub = StubServer(fails, config={**MODERN, "seq_ids": "ignore"})
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            future = await training.forward_backward_async([datum()], "cross_entropy")
            with pytest.raises(UnsafeToRetryError, match="may or may not"):
                await future
            return stub.counts["forward_backward"]

    assert run(main) == 1


def test_a_wire_left_in_doubt_is_taken_back():
    """M20 M27: 500 after the effect, 409 to the other wire: the first body is sent again."""
    kinds = []

    def confused(operation, body, request):
        if operation != "forward_backward":
            return None
        kind = "json" if isinstance(body, dict) else "proto"
        kinds.append(kind)
        if kind == "json":
            return 409, {"detail": "seq_id 1 was used with another body"}
        return (500, {"detail": "oops"}) if len(kinds) == 1 else None

    async def main():
        stub = StubServer(confused, config={**MODERN, "seq_ids": "dedupe"})
        async with client(stub) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            return service.dialect.wire

    assert run(main) == "proto"
    assert kinds[0] == kinds[-1] == "proto"
    assert "json" in kinds
    assert kinds.count("proto") == 2


def test_what_waits_behind_a_loss_is_not_sent():
    """M20: on a server without memory a queued call ends with the one that was lost."""

    async def main():
        async def loses(operation, body, request):
            if operation == "optim_step" and body["seq_id"] == 1:
                await asyncio.sleep(1.0)
                raise httpx.ReadError("reset")

        stub = StubServer(loses, config={**MODERN, "seq_ids": "ignore"})
        async with client(stub, wire="json") as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            futures = [await training.optim_step_async(adam()) for _ in range(3)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            await (await training.optim_step_async(adam()))
            return [str(end) for end in ends], sent(stub, "optim_step")

    said, numbers = run(main)
    assert "may or may not" in said[0]
    assert all(text.startswith("Not sent") for text in said[1:])
    assert numbers == [1, 2]
