"""What a server lacks is named as such, with the server: never the one in place of the other."""

from __future__ import annotations

import pytest
from in_process import MODEL, client, run, server
from scripted import Scripted

from tinker_ext import ModelInput
from tinker_ext.errors import FeatureMissingError

URL = "http://server.test"
PROMPT = ModelInput.from_ints([1, 2, 3])


def told(error, feature):
    assert isinstance(error, FeatureMissingError)
    assert (error.feature, error.base_url) == (feature, URL)
    return error.message == f"The server at {URL} has no {feature}."


@pytest.mark.parametrize("known", [True, False])
def test_a_server_without_sampling_sessions(known):
    """M15: the base model is known to who named it; for a path nobody can tell it."""

    async def script(sent, deliver):
        missing = sent.name.startswith(("create_sampling_session", "samplers"))
        return (404, {"detail": "Not Found"}) if missing else None

    async def scenario():
        async with client(Scripted(server(), script)) as service:
            where = (
                {"base_model": MODEL} if known else {"model_path": "tinker://r/sampler_weights/x"}
            )
            sampler = await service.create_sampling_client_async(**where)
            try:
                return await sampler.get_base_model_async()
            except FeatureMissingError as error:
                return error

    end = run(scenario)
    if known:
        assert end == MODEL
    else:
        assert told(end, "sampling sessions")


@pytest.mark.parametrize("known", [True, False])
def test_a_server_that_tells_nothing_of_its_samplers(known):
    """M15: the base model is what the user named; behind a path it is not known here."""

    async def script(sent, deliver):
        return (405, {"detail": "Method Not Allowed"}) if sent.name.startswith("samplers") else None

    async def scenario():
        async with client(Scripted(server(), script)) as service:
            where = {"base_model": MODEL}
            if not known:
                training = await service.create_lora_training_client_async(MODEL, rank=1)
                saved = await (await training.save_weights_for_sampler_async("w"))
                where = {"model_path": saved.path}
            sampler = await service.create_sampling_client_async(**where)
            assert sampler._sampling_session_id is not None
            try:
                return await sampler.get_base_model_async()
            except FeatureMissingError as error:
                return error

    end = run(scenario)
    if known:
        assert end == MODEL
    else:
        assert isinstance(end, FeatureMissingError)
        assert end.base_url == URL


def test_a_server_without_prompt_logprobs():
    """M15: a reply without what was asked for is said to lack it."""

    async def script(sent, deliver):
        if sent.name == "retrieve_future":
            response = await deliver()
            if response.status_code == 200 and b"sequences" in response.content:
                body = response.json()
                body.pop("prompt_logprobs", None)
                return 200, body
            return response
        return None

    async def scenario():
        async with client(Scripted(server(), script), wire="json") as service:
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with pytest.raises(FeatureMissingError) as caught:
                await sampler.compute_logprobs_async(PROMPT)
            return caught.value

    error = run(scenario)
    assert told(error, "prompt logprobs")
    assert error.operation == "compute_logprobs"


@pytest.mark.filterwarnings("ignore:load_state")
def test_a_server_that_cannot_restore_an_optimizer():
    """M15: it refuses the key that asks for it; without the optimizer it is not asked."""

    async def script(sent, deliver):
        if sent.name == "load_weights" and "optimizer" in sent.body:
            where = ["body", "optimizer"]
            return 422, {"detail": [{"type": "extra_forbidden", "loc": where, "msg": "Extra"}]}
        return None

    async def scenario():
        async with client(Scripted(server(), script), wire="json") as service:
            training = await service.create_lora_training_client_async(MODEL, rank=1)
            saved = await (await training.save_state_async("s"))
            with pytest.raises(FeatureMissingError) as caught:
                await (await training.load_state_with_optimizer_async(saved.path))
            return caught.value

    error = run(scenario)
    assert error.base_url == URL
    assert "optimizer" in error.feature
    assert error.operation == "load_weights"
