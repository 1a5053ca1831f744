"""Small behaviours users of the official SDK expect, and clear words where a server has less."""

from __future__ import annotations

import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted, lost, reply
from stub_server import StubServer

from tinker_ext import Config, ModelInput, SamplingParams, ServiceClient
from tinker_ext.errors import ConfigurationError, FeatureMissingError

# A load into a client in use is one of the operations; what it warns of is told elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:load_state and load_state_with:FutureWarning")

PROMPT = ModelInput.from_ints([1])
ONE = SamplingParams(max_tokens=1)
PATH = "tinker://run-1/sampler_weights/x"


@pytest.mark.parametrize("path", [PATH, "tinker://run-1/weights/x"])
@pytest.mark.parametrize("base_model", [None, "m"])
def test_a_sampler_of_a_path(path, base_model):
    """F10: a path with its base model, and a training state, are taken as the official SDK does."""

    async def scenario():
        stub = StubServer()
        async with client(stub) as service:
            await service.create_sampling_client_async(model_path=path, base_model=base_model)
        return [body for name, body, _ in stub.requests if name == "create_sampling_session"]

    (body,) = run(scenario)
    assert body["model_path"] == path
    assert body.get("base_model") in (base_model, None)


async def _ttl(training, sampling):
    await (await training.save_state_async("a", ttl_seconds=60))


async def _ttl_sampler(training, sampling):
    await (await training.save_weights_for_sampler_async("a", ttl_seconds=60))


async def _topk(training, sampling):
    await sampling.sample_async(PROMPT, 1, ONE, topk_sample_logprobs=2)


async def _load(training, sampling):
    path = f"tinker://{training.model_id}/weights/s"
    await (await training.load_state_with_optimizer_async(path))


@pytest.mark.parametrize(
    ("call", "requests"), [(_ttl, 0), (_ttl_sampler, 0), (_topk, 0), (_load, 1)]
)
def test_what_an_old_server_does_not_have(call, requests):
    """F16: on a server of the first era the missing feature is named before anything is sent.

    Restoring the optimizer is asked for once: among the servers without the flags of the second era
    are some that do it (SkyRL, Twinkle), and a strict one is told by its refusal.
    """

    async def scenario():
        network = Scripted(server(era="0.4.1"))
        async with client(network) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            await (await training.save_state_async("s"))
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            before = network.count()
            with pytest.raises(FeatureMissingError) as caught:
                await call(training, sampling)
            return str(caught.value), network.count() - before

    said, sent = run(scenario)
    assert sent == requests
    assert "server" in said.lower()


def test_text_becomes_tokens():
    """F45: `ModelInput.from_text(text, tokenizer)` encodes without special tokens of its own."""

    class Tokenizer:
        def encode(self, text, add_special_tokens=False):
            return [ord(letter) for letter in text]

    assert ModelInput.from_text("ab", Tokenizer()).to_ints() == [97, 98]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, None),
        ({"include_prompt_logprobs": True}, True),
        ({"include_prompt_logprobs": False}, False),
    ],
    ids=["left out", "true", "false"],
)
def test_prompt_logprobs_has_three_states(given, sent):
    """F45: an explicit false is sent; left out it is left to the server."""

    async def scenario():
        network = Scripted(server())
        async with client(network) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            await sampling.sample_async(PROMPT, 1, ONE, **given)
        return network.of("asample")[0].body

    body = run(scenario)
    assert body.get("prompt_logprobs") is sent


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("HTTP://Example.ORG/", "http://example.org"),
        ("http://example.org:80", "http://example.org"),
        ("https://example.org:443/a/", "https://example.org/a"),
        ("https://example.org:8443", "https://example.org:8443"),
        ("http://example.org//a//b", "http://example.org/a/b"),
        ("  http://example.org ", "http://example.org"),
    ],
)
def test_a_base_url_is_normalised(given, used):
    """F45: one server has one name, however it was typed."""
    assert Config(base_url=given).base_url == used


def test_the_path_of_the_api_is_explained():
    """F45: a base URL that ends in /api/v1 is a common mistake, and the error says so."""
    with pytest.raises(ConfigurationError, match="/api/v1"):
        ServiceClient(base_url="http://example.org/api/v1", api_key="x")


def test_an_empty_400_on_a_sample_is_asked_again():
    """F45: it comes from a proxy; polls ask again, and so does a sample."""
    left = 2

    async def script(sent, deliver):
        nonlocal left
        if sent.name == "asample" and left:
            left -= 1
            return reply(400, b"", {"content-type": ""})
        return None

    async def scenario():
        network = Scripted(server(), script)
        async with client(network) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            await sampling.sample_async(PROMPT, 1, ONE)
        return network.count("asample")

    assert run(scenario) == 3


def test_a_sample_sent_again_keeps_its_key():
    """F45: the same sample carries the same idempotency key on every attempt."""
    left = 3

    async def script(sent, deliver):
        nonlocal left
        if sent.name == "asample" and left:
            left -= 1
            await deliver()
            raise lost()
        return

    async def scenario():
        network = Scripted(server(), script)
        async with client(network) as service:
            sampling = await service.create_sampling_client_async(base_model=MODEL)
            await sampling.sample_async(PROMPT, 1, ONE)
            await sampling.sample_async(PROMPT, 1, ONE)
        return [sent.headers["x-idempotency-key"] for sent in network.of("asample")]

    first, *again, other = run(scenario)
    assert again == [first] * 3
    assert other != first
