"""A model that is made from a saved state: as the server says that it was, and as before if not."""

from __future__ import annotations

import pytest
from in_process import client, run
from stub_server import StubServer

PATH = "tinker://S:train:0/weights/a"
RUN = {
    "training_run_id": "S:train:0",
    "base_model": "m",
    "model_owner": "me",
    "is_lora": True,
    "last_request_time": "2026-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    ("info", "told", "made"),
    [
        ({"base_model": "m", "is_lora": True}, None, {"rank": 32}),
        ({"base_model": "m", "is_lora": True, "lora_rank": 8}, None, {"rank": 8}),
        (
            {"base_model": "m", "is_lora": True, "lora_rank": 8, "train_mlp": False},
            None,
            {"rank": 8, "train_mlp": False},
        ),
        (None, RUN, {"rank": 32}),
        (None, {**RUN, "lora_rank": 8}, {"rank": 8}),
    ],
)
def test_a_state_is_loaded_into_a_model_like_its_own(info, told, made):
    """M12: a server of the first era says it of the run, and one that says no rank means 32."""

    async def scenario():
        models = []

        def handler(operation, body, request):
            if operation == "weights_info":
                return (404, {"detail": "Not Found"}) if info is None else (200, info)
            if operation == "get_server_capabilities":
                return 200, {"supported_models": []}
            if operation.startswith("training_runs/"):
                return 200, told
            if operation == "create_model":
                models.append(body)
            return None

        async with client(StubServer(handler), wire="json") as service:
            await service.create_training_client_from_state_async(PATH)
        return models

    (model,) = run(scenario)
    assert model["base_model"] == "m"
    usual = {"train_mlp": True, "train_attn": True, "train_unembed": True}
    assert {name: model["lora_config"].get(name, usual.get(name)) for name in made} == made
