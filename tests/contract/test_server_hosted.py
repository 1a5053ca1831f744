"""F14, F34, M47: the `hosted` profile refuses what production refuses; eras are strict."""

import asyncio

import pytest
from raw_tinker import TINY, Raw, datum

from tinker_ext.mock import Settings, hosted

MOE = "org/tiny-30B-A3B"


def profile(**options):
    return Settings.of_profile("hosted", inline_engine=True, wire="both", **options)


def run(scenario, settings):
    async def main():
        async with Hosted(settings=settings) as raw:
            await scenario(raw)
            assert raw.app.log.violations == []

    asyncio.run(main())


class Hosted(Raw):
    """A caller that takes any success."""

    async def post(self, path, /, **body):
        reply = await self.send("POST", path, body)
        assert reply.is_success, f"{path}: {reply.status_code} {reply.text}"
        return reply.json()


def load(model, path, seq):
    return {"model_id": model, "path": path, "optimizer": True, "seq_id": seq}


@pytest.mark.parametrize("before", ["forward_backward", "save_weights", "load_weights"])
def test_weights_are_loaded_first_or_not_at_all(before):
    """F34, M47 load_first: by SkyRL PR 2071, after a pass, a save or another load it is a 400."""

    async def scenario(raw):
        source = await raw.model()
        path = await raw.save(source, path="a")
        model = await raw.model(number=1)
        if before == "forward_backward":
            await raw.result(await raw.post(before, **raw.training_body(model)))
        elif before == "save_weights":
            await raw.save(model, path="b")
        else:
            await raw.result(await raw.post(before, **load(model, path, raw.next_seq())))
        reply = await raw.send("POST", "load_weights", load(model, path, 2))
        assert reply.status_code == 400
        assert reply.json()["detail"] == "LoadWeights is not permitted with seq_id 2"

    run(scenario, profile())


def test_a_repeated_first_load_is_the_same_request():
    """F34, M20: the retry of an answer that was lost is not a second load."""

    async def scenario(raw):
        path = await raw.save(await raw.model(), path="a")
        model = await raw.model(number=1)
        first = await raw.post("load_weights", **load(model, path, 1))
        assert await raw.post("load_weights", **load(model, path, 1)) == first

    run(scenario, profile())


@pytest.mark.parametrize(
    ("name", "rank", "status"), [(MOE, 33, 400), (MOE, 32, 202), (TINY, 33, 202)]
)
def test_ranks_are_capped_by_model(name, rank, status):
    """F34, M47 rank_cap: the words of tinker-cookbook issue 9."""

    async def scenario(raw):
        body = {
            "session_id": await raw.session(),
            "model_seq_id": 0,
            "base_model": name,
            "lora_config": {"rank": rank},
        }
        reply = await raw.send("POST", "create_model", body)
        assert reply.status_code == status
        if status == 400:
            text = f"Lora_config.rank {rank} exceeds max LoRA rank 32 for model {name}"
            assert reply.json()["detail"] == text

    run(scenario, profile(models=[MOE]))


def test_a_taken_checkpoint_name_is_409_at_once():
    """F34, M47 taken_name: the words of tinker-cookbook pull request 59; overwrite is let in."""

    async def scenario(raw):
        model = await raw.model()
        await raw.save(model, path="000060")
        body = {"model_id": model, "path": "000060", "seq_id": raw.next_seq()}
        reply = await raw.send("POST", "save_weights", body)
        assert reply.status_code == 409
        assert reply.json()["detail"].startswith("Checkpoint '000060' already exists for model ")
        await raw.result(await raw.post("save_weights", **body, overwrite=True))

    run(scenario, profile())


@pytest.mark.parametrize("path", ["save_weights", "save_weights_for_sampler"])
def test_lifetimes_are_one_hour_to_ten_years(path):
    """F34, M47 ttl_range: by tinker-cookbook pull request 603 and the official SDK 0.36.0."""

    async def scenario(raw):
        model = await raw.model()
        body = {"model_id": model, "path": "a", "seq_id": 1}
        for seconds, status in [(300, 400), (315_360_001, 400), (3600, 202)]:
            reply = await raw.send("POST", path, {**body, "ttl_seconds": seconds})
            assert reply.status_code == status

    run(scenario, profile())


def test_jobs_beyond_the_cap_wait_with_the_reason():
    """F34, M47 session_cap: paused_rate_limit, "concurrent LoRA rate limit hit"."""

    async def scenario(raw):
        session = await raw.session()
        await raw.model(session)
        body = {"session_id": session, "model_seq_id": 1, "base_model": TINY}
        ticket = await raw.post("create_model", **body)
        reply = await raw.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
        assert reply.status_code == 408
        assert reply.json()["queue_state"] == "paused_rate_limit"
        assert reply.json()["queue_state_reason"] == "concurrent LoRA rate limit hit"

    assert profile().models_limit == 50
    run(scenario, profile(models_limit=1, long_poll=0.0))


def test_a_future_is_202():
    """F33, F34, M47 accepted: by tinker-feedback issue 37; polls stay 200."""

    async def scenario(raw):
        model = await raw.model()
        await raw.result(await raw.post("forward_backward", **raw.training_body(model)))
        seen = {e.path.rpartition("/")[2]: e.status for e in raw.app.log.requests()}
        assert seen == {
            "create_session": 200,
            "create_model": 202,
            "forward_backward": 202,
            "retrieve_future": 200,
        }

    run(scenario, profile())


def test_repeats_are_not_declared():
    """F3, F34, M47 undeclared: client/config has no seq_ids, as the official reply has none."""

    async def scenario(raw):
        assert "seq_ids" not in await raw.post("client/config", sdk_version="x")

    run(scenario, profile())


def test_every_rule_has_a_source_and_a_setting():
    """M47: nothing is refused without saying where that is known from."""
    assert {rule.name for rule in hosted.RULES} == {
        "load_first",
        "rank_cap",
        "taken_name",
        "ttl_range",
        "session_cap",
        "strict_fields",
        "accepted",
        "undeclared",
    }
    for rule in hosted.RULES:
        assert rule.source.startswith("https://")
    with pytest.raises(ValueError, match="there is no profile 'production'; profiles: default"):
        Settings.of_profile("production")


OLD_IMAGE = {"type": "image", "data": "iVBORw==", "format": "png", "height": 4, "width": 5}
NEW_IMAGE = {"type": "image", "data": "iVBORw==", "format": "png"}


@pytest.mark.parametrize(
    ("era", "chunk", "wrong"),
    [
        ("0.4.1", {**OLD_IMAGE, "tokens": 7}, []),
        ("0.4.1", {**OLD_IMAGE, "tokens": 7, "expected_tokens": 7}, ["expected_tokens"]),
        ("0.4.1", {**NEW_IMAGE, "tokens": 7}, ["height", "width"]),
        ("0.4.1", {"type": "dmel", "dmel": "AAAA"}, ["dmel"]),
        ("0.36.0", {**NEW_IMAGE, "expected_tokens": 7}, []),
        ("0.36.0", NEW_IMAGE, []),
        ("0.36.0", {**OLD_IMAGE, "tokens": 7}, ["height", "tokens", "width"]),
        ("both", {**OLD_IMAGE, "tokens": 7}, []),
    ],
)
@pytest.mark.parametrize("path", ["asample", "forward_backward"])
def test_images_have_the_fields_of_the_era(era, chunk, wrong, path):
    """F14, M47 strict_fields: an image chunk of the other era is a 422 that names the field."""

    async def scenario(raw):
        model = await raw.model()
        if path == "asample":
            body = {
                "base_model": TINY,
                "prompt": {"chunks": [chunk]},
                "sampling_params": {"max_tokens": 1},
            }
            place = ["body", "prompt", "chunks", 0]
        else:
            body = raw.training_body(model)
            example = datum("x" * 8)
            example["model_input"] = {"chunks": [chunk]}
            body["forward_backward_input"]["data"] = [example]
            place = ["body", "forward_backward_input", "data", 0, "model_input", "chunks", 0]
        reply = await raw.send("POST", path, body)
        if wrong:
            assert reply.status_code == 422
            assert [fault["loc"] for fault in reply.json()["detail"]] == [
                [*place, key] for key in wrong
            ]
        else:
            assert reply.status_code == 200, reply.text

    run(scenario, Settings(era=era, wire="both", inline_engine=True))


def test_a_sparse_tensor_is_new():
    """F14, M8: an old server does not know CSR tensors."""

    async def scenario(raw):
        model = await raw.model()
        body = raw.training_body(model)
        tensor = body["forward_backward_input"]["data"][0]["loss_fn_inputs"]["weights"]
        tensor["sparse_crow_indices"] = [0, 1]
        reply = await raw.send("POST", "forward_backward", body)
        assert reply.status_code == 422
        assert reply.json()["detail"][0]["loc"][-2:] == ["weights", "sparse_crow_indices"]

    run(scenario, Settings(era="0.4.1", inline_engine=True))
