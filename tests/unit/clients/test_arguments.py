"""Wrong arguments are refused by the call that gets them, and nothing is sent."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from in_process import adam, client, datum, run
from stub_server import StubServer

from tinker_ext import AdamParams, ModelInput, RestClient, SamplingClient, SamplingParams, types
from tinker_ext.clients.arguments import check_state_path, check_ttl
from tinker_ext.clients.training import step_params
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import DimuonParams, OptimParamsBase

PROMPT = ModelInput.from_ints([1, 2])
PARAMS = SamplingParams(max_tokens=1)
NAN = math.nan


def fail(*_):
    raise AssertionError("the loss is not called")


async def refused(calls):
    """Run calls of clients that exist already: each is refused at once, and sends nothing."""
    server = StubServer()
    async with client(server) as service:
        training = await service.create_lora_training_client_async("m", rank=4)
        sampler = await service.create_sampling_client_async(base_model="m")
        clients = SimpleNamespace(
            service=service, training=training, sampler=sampler, rest=service.create_rest_client()
        )
        before = len(server.requests)
        seen = []
        for call in calls:
            with pytest.raises(InvalidInputError) as caught:
                await call(clients)
            seen.append(str(caught.value))
        assert [op for op, _, _ in server.requests[before:] if "heartbeat" not in op] == []
        return seen


def check(call, message):
    (seen,) = run(lambda: refused([call]))
    assert message in seen


@pytest.mark.parametrize("data", [None, 5, datum(), (each for each in ())])
@pytest.mark.parametrize("name", ["forward", "forward_backward"])
def test_what_is_no_batch(name, data):
    """M38: None, one datum and a generator are refused, by the sync and the async form."""

    async def plain(clients):
        getattr(clients.training, name)(data, "cross_entropy")

    async def other(clients):
        await getattr(clients.training, f"{name}_async")(data, "cross_entropy")

    assert all("list of Datum" in seen for seen in run(lambda: refused([plain, other])))


@pytest.mark.parametrize("data", [None, datum(), (each for each in ())])
def test_what_is_no_batch_for_a_custom_loss(data):
    """M38: the same for custom losses, whose function is not called."""

    async def call(clients):
        await clients.training.forward_backward_custom_async(data, fail)

    check(call, "list of Datum")


@pytest.mark.parametrize("config", ["abc", [1], {1: 1.0}])
def test_loss_settings(config):
    """M38: settings of a loss are a dict with names."""

    async def call(clients):
        clients.training.forward_backward([datum()], "cross_entropy", config)

    check(call, "loss_fn_config")


BAD_PATHS = [None, 5, "weights", "tinker://x", "http://a", "tinker://r/sampler_weights/x"]


@pytest.mark.parametrize("path", [*BAD_PATHS, "tinker://r/external_weights/x"])
def test_paths_of_states(path):
    """M38: what cannot be a saved state is refused, wherever one is loaded."""

    async def load(clients):
        clients.training.load_state(path)

    async def load_with_optimizer(clients):
        clients.training.load_state_with_optimizer(path)

    async def create(clients):
        await clients.service.create_training_client_from_state_async(path)

    with pytest.warns(FutureWarning):
        seen = run(lambda: refused([load, load_with_optimizer, create]))
    assert all(repr(path) in each for each in seen)


@pytest.mark.parametrize(
    "path", ["tinker://model_1/weights/a", "tinker://model_1/a", "file:///data/a", "tinker:///w/a"]
)
def test_paths_of_other_servers(path):
    """M28: schemes of other servers and paths without a kind pass."""
    check_state_path(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model_path": 5}, "model_path 5"),
        ({"model_path": "tinker://x"}, "model_path"),
        ({"base_model": 5}, "base_model"),
        ({"base_model": ""}, "base_model"),
        ({"base_model": "m", "retry_config": {"a": 1}}, "retry_config"),
    ],
)
def test_sampling_clients(arguments, message):
    """M38: neither a path nor a name nor a retry behaviour is sent that is not one."""

    async def call(clients):
        await clients.service.create_sampling_client_async(**arguments)

    check(call, message)


def test_the_retry_config_is_checked_before_the_weights_are_saved():
    """M38: no checkpoint is left behind by a call that must fail."""

    async def call(clients):
        await clients.training.save_weights_and_get_sampling_client_async(retry_config={"a": 1})

    check(call, "retry_config")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": "2"}, "num_samples"),
        ({"topk_sample_logprobs": None}, "topk_sample_logprobs"),
        ({"target_prompt_logprobs": [[1, 2]] * 3}, "target_prompt_logprobs"),
        ({"prompt": ModelInput.empty()}, "prompt is empty"),
        ({"sampling_params": SamplingParams}, "sampling_params"),
    ],
)
def test_samples(changes, message):
    """M38: sample refuses at the call."""
    arguments = {"prompt": PROMPT, "num_samples": 1, "sampling_params": PARAMS, **changes}

    async def call(clients):
        clients.sampler.sample(**arguments)

    check(call, message)


@pytest.mark.parametrize("prompt", [None, [1], ModelInput.from_ints([])])
def test_prompts_to_score(prompt):
    """M38: so does compute_logprobs."""

    async def call(clients):
        clients.sampler.compute_logprobs(prompt)

    check(call, "prompt")


@pytest.mark.parametrize("handle", [None, 5, b"abc", "", "abc"])
def test_handles(handle):
    """M38: what is no handle makes no client."""
    with pytest.raises(InvalidInputError, match="handle"):
        SamplingClient.from_sampler_handle(handle)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (AdamParams, r"AdamParams\(…\)"),
        (5, "AdamParams"),
        ({"learning_rate": 1.0}, "AdamParams"),
        (SimpleNamespace(learning_rate=1.0), "AdamParams"),
        (AdamParams(learning_rate=-1e-4), "learning_rate"),
        (AdamParams(beta1=1.0), r"beta1 must be in \[0, 1\)"),
        (AdamParams(beta2=-0.1), "beta2"),
        (AdamParams(eps=-1e-8), "eps"),
        (AdamParams(weight_decay=-0.1), "weight_decay"),
        (AdamParams(grad_clip_norm=-1.0), "grad_clip_norm"),
        (DimuonParams(learning_rate=0.1, grad_clip_norm=-1.0), "grad_clip_norm"),
        (OptimParamsBase(type="lion", learning_rate=NAN), "learning_rate.*nan"),
        (OptimParamsBase(type="lion", betas=[0.9, math.inf]), r"betas.*\[1\] is inf"),
        (OptimParamsBase(type="lion", what=object()), "JSON"),
    ],
)
def test_parameters_of_a_step(params, message):
    """M38: a step without sense is refused, and so is a number that JSON would make null of."""
    with pytest.raises(InvalidInputError, match=message):
        step_params(params, None)


@pytest.mark.parametrize(
    "params",
    [
        AdamParams(),
        AdamParams(learning_rate=0, beta1=0.0, beta2=0.0, eps=0.0, grad_clip_norm=1.0),
        DimuonParams(learning_rate=0.1),
        OptimParamsBase(type="lion", learning_rate=-1.0, note=None),
    ],
)
def test_steps_that_are_taken(params):
    """M16: the bounds themselves pass; settings of unknown families are the server's business."""
    assert step_params(params, None) is params
    assert step_params(None, params) is params


def test_parameters_of_a_step_are_checked_by_the_call():
    """M38: optim_step refuses before its number is taken: the next step leaves no gap."""

    async def scenario():
        server = StubServer()
        async with client(server) as service:
            training = await service.create_lora_training_client_async("m", rank=4)
            for wrong in (AdamParams, adam(-1.0)):
                with pytest.raises(InvalidInputError):
                    training.optim_step(wrong)
                with pytest.raises(InvalidInputError):
                    await training.optim_step_async(wrong)
            await training.optim_step(adam())
        return [body["seq_id"] for op, body, _ in server.requests if op == "optim_step"]

    assert run(scenario) == [1]


@pytest.mark.parametrize("ttl", [NAN, 1.5, -1, 0, "3", True, 2**63])
def test_lives_of_checkpoints(ttl):
    """M38: a life is a positive number of seconds in every call that takes one."""

    async def state(clients):
        clients.training.save_state("a", ttl)

    async def sampler(clients):
        clients.training.save_weights_for_sampler("a", ttl)

    async def external(clients):
        clients.training.save_weights_external("a", ttl)

    async def copy(clients):
        clients.service.copy_weights("tinker://r/weights/a", ttl_seconds=ttl)

    async def copy_by_rest(clients):
        clients.rest.copy_weights("tinker://r/weights/a", ttl_seconds=ttl)

    async def later(clients):
        clients.rest.set_checkpoint_ttl_from_tinker_path("tinker://r/weights/a", ttl)

    calls = [state, sampler, external, copy, copy_by_rest, later]
    assert all("ttl_seconds" in seen for seen in run(lambda: refused(calls)))


@pytest.mark.parametrize("ttl", [None, 1, 3600, np.int64(7)])
def test_good_lives(ttl):
    """M16: None keeps a checkpoint; integers of numpy are integers."""
    check_ttl(ttl)


@pytest.mark.parametrize("metadata", ["x", [1], {1: "a"}, {"a": NAN}, {"a": object()}])
def test_metadata(metadata):
    """M38: metadata is a JSON object, and loses nothing on its way."""

    async def create(clients):
        await clients.service.create_lora_training_client_async("m", user_metadata=metadata)

    async def save(clients):
        clients.training.save_state("a", user_metadata=metadata)

    async def save_for_sampler(clients):
        clients.training.save_weights_for_sampler("a", user_metadata=metadata)

    calls = [create, save, save_for_sampler]
    assert all("user_metadata" in seen for seen in run(lambda: refused(calls)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_model": None}, "base_model"),
        ({"base_model": 5}, "base_model"),
        ({"base_model": "m", "rank": 0}, "rank"),
        ({"base_model": "m", "seed": 2**64}, "seed"),
        ({"base_model": "m", "optimizer": "adamw"}, "optimizer"),
        ({"base_model": "m", "optimizer": types.AdamOptimizerConfig}, "optimizer"),
        (
            {"base_model": "m", "optimizer": types.OptimizerConfigBase(type="lion", b=math.inf)},
            "optimizer['b'] is inf",
        ),
    ],
)
def test_new_models(arguments, message):
    """M38: a model that cannot be is not asked for."""

    async def call(clients):
        await clients.service.create_lora_training_client_async(**arguments)

    check(call, message)


@pytest.mark.parametrize("path", [None, 5, "tinker://x"])
def test_paths_of_the_rest_client(path):
    """M38: calls that take a path apart say that it is not one."""

    async def scenario():
        async with client(StubServer()) as service:
            rest: RestClient = service.create_rest_client()
            for call in (
                rest.delete_checkpoint_from_tinker_path,
                rest.get_training_run_by_tinker_path,
                rest.get_checkpoint_archive_url_from_tinker_path,
                rest.get_external_weights_urls,
                rest.copy_weights,
                lambda path: rest.delete_checkpoint("r", path),
                lambda path: rest.get_checkpoint_archive_url("r", None),
            ):
                with pytest.raises(InvalidInputError):
                    call(path)

    run(scenario)


@pytest.mark.parametrize("token", [5, b"tml-canary", ["tml-canary"]])
def test_tokens_of_weights(token):
    """M38 M33: what cannot be a header is refused, and not shown."""
    path = "tinker://r/weights/a"

    async def call(clients):
        await clients.service.create_training_client_from_state_async(
            path, weights_access_token=token
        )

    (seen,) = run(lambda: refused([call]))
    assert "weights_access_token" in seen
    assert "canary" not in seen
