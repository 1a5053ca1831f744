"""Which wire a server speaks is learnt from what it accepts, never from one refused body."""

from __future__ import annotations

import random
import sys

import pytest
from in_process import MODEL, adam, client, datum, run, server
from scripted import Scripted, fresh_url, lost
from stub_server import StubServer

from tinker_ext.errors import TinkerError

REASON = "token 99999 is outside the vocabulary"


@pytest.mark.parametrize("status", [400, 415, 422, 501])
@pytest.mark.parametrize("wire", ["proto", "both"])
def test_one_refused_body_says_nothing_about_the_wire(status, wire):
    """F1: the real reason is shown; later calls, also of a new client, go on as before."""
    refusing = True

    async def script(sent, deliver):
        if sent.name == "forward_backward" and refusing and (wire == "both" or not sent.is_json):
            return status, {"detail": REASON}
        return None

    async def scenario():
        nonlocal refusing
        network = Scripted(server(wire=wire), script)
        url = fresh_url()
        async with client(network, base_url=url) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            with pytest.raises(TinkerError) as caught:
                await (await training.forward_backward_async([datum()], "cross_entropy"))
            refusing = False
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            await (await training.optim_step_async(adam()))
        async with client(network, base_url=url) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
        return caught.value, network.of("forward_backward")

    error, posts = run(scenario)
    assert getattr(error, "status_code", status) == status
    assert REASON in str(error)
    if status != 501:  # a server that is not ready may take the same body later, on either wire
        assert not posts[-1].is_json
        assert not posts[-2].is_json


class Least(random.Random):
    """Every pause is as short as it may be."""

    def random(self):
        return 0.0


def test_a_server_that_breaks_on_one_wire_and_refuses_the_other_gets_the_first_again():
    """F1 M24: it may have the first body; the pause begins anew, at nothing to half a second."""

    async def script(sent, deliver):
        if sent.name == "forward_backward" and len(network.of("forward_backward")) < 3:
            return (415, {"detail": REASON}) if sent.is_json else (500, {"detail": "Internal"})
        return None

    async def scenario():
        nonlocal network
        network = Scripted(server(seq="dedupe"), script)
        async with client(network, base_url=fresh_url(), rng=Least()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
        return network.of("forward_backward")

    network = None
    first, second, third = run(scenario)
    assert [first.is_json, second.is_json, third.is_json] == [False, True, False]
    assert third.when - second.when < 0.01


def test_a_wire_is_given_up_when_the_other_is_accepted():
    """F1: a server of JSON alone is found out once and remembered."""

    async def scenario():
        network = Scripted(server(wire="json"))
        url = fresh_url()
        for _ in range(2):
            async with client(network, base_url=url) as service:
                training = await service.create_lora_training_client_async(MODEL, rank=1)
                for _ in range(2):
                    await (await training.forward_backward_async([datum()], "cross_entropy"))
        return [sent.is_json for sent in network.of("forward_backward")]

    assert run(scenario) == [False, True, True, True, True]


def test_flags_that_are_not_there_say_nothing():
    """F35: SkyRL's main branch takes protobuf and recognises repeats, and declares neither.

    What it does is found out: the first body goes over to the wire it accepts, and a lost answer
    is asked for again.
    """
    losing = True

    async def script(sent, deliver):
        nonlocal losing
        if sent.name == "client/config":
            return 200, {"pjwt_auth_enabled": False}
        if sent.name == "optim_step" and losing:
            losing = False
            await deliver()
            raise lost()
        return None

    async def scenario():
        app = server(wire="proto", seq="dedupe")
        network = Scripted(app, script)
        async with client(network, base_url=fresh_url()) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.forward_backward_async([datum()], "cross_entropy"))
            await (await training.optim_step_async(adam()))
            await (await training.forward_backward_async([datum()], "cross_entropy"))
        done = [e.op for e in app.log.training(training.model_id) if e.op != "forward"]
        return done, [sent.is_json for sent in network.of("forward_backward")]

    done, json = run(scenario)
    assert done == ["forward_backward", "optim_step", "forward_backward"]
    assert json[-1] is False


def test_a_core_install_on_a_protobuf_server(monkeypatch):
    """F15: without protobuf the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "google.protobuf", None)

    def refuses(name, body, request):
        if name == "forward_backward":
            return 422, {"detail": "this server does not take application/json"}
        return None

    async def scenario():
        stub = StubServer(refuses, config={"fwdbwd_max_chunk_len": 64, "seq_ids": "dedupe"})
        async with client(stub, base_url=fresh_url()) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            with pytest.raises(TinkerError) as caught:
                await (await training.forward_backward_async([datum()], "cross_entropy"))
        return str(caught.value)

    assert "tinker-ext[proto]" in run(scenario)
