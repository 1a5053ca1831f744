"""M40: training, saving, loading and sampling on the embedded server, over plain HTTP."""

import asyncio

import numpy as np
import pytest
from raw_tinker import Raw, datum

from tinker_ext.mock import Settings


def test_the_loss_falls_and_a_checkpoint_restores():
    """M40: ten steps learn, save and load return to the very same loss."""

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            losses = [await raw.train(model) for _ in range(10)]
            assert losses[-1] < losses[0] / 3
            path = await raw.save(model, path="ten")
            before = await raw.loss(model)
            await raw.train(model)
            assert await raw.loss(model) != before
            ticket = await raw.post(
                "load_weights", model_id=model, seq_id=raw.next_seq(), path=path, optimizer=True
            )
            assert (await raw.result(ticket))["path"] == path
            assert await raw.loss(model) == before
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_gradients_add_up_until_the_step():
    """M40: two chunks with two seq ids train exactly like one batch."""

    async def run(chunks):
        async with Raw() as raw:
            model = await raw.model()
            for texts in chunks:
                body = raw.training_body(model)
                body["forward_backward_input"]["data"] = [datum(text) for text in texts]
                await raw.result(await raw.post("forward_backward", **body))
            step = {"model_id": model, "seq_id": raw.next_seq(), "adam_params": {}}
            await raw.result(await raw.post("optim_step", **step))
            return await raw.loss(model)

    whole = asyncio.run(run([["hello world", "good morning"]]))
    parts = asyncio.run(run([["hello world"], ["good morning"]]))
    assert whole == pytest.approx(parts, abs=1e-5)


def test_negative_weights_count_exactly():
    """M15: cross entropy is linear in its weights, negative ones included."""

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()

            async def loss(weight):
                body = raw.training_body(model)
                body["forward_backward_input"]["data"] = [datum("abcd", [weight, 0.0, 1.0])]
                reply = await raw.result(await raw.post("forward_backward", **body))
                return reply["metrics"]["loss:sum"]

            low, zero, high = [await loss(w) for w in (-2.0, 0.0, 2.0)]
            assert low < zero < high
            assert high - zero == pytest.approx(zero - low, rel=1e-5)

    asyncio.run(scenario())


def test_samples_depend_on_weights_and_seed():
    """M40: the same seed gives the same sample; training changes it."""

    async def scenario():
        async with Raw() as raw:
            session = await raw.session()
            model = await raw.model(session)

            async def sample(number, seed):
                ticket = await raw.post(
                    "save_weights_for_sampler",
                    model_id=model,
                    seq_id=raw.next_seq(),
                    sampling_session_seq_id=number,
                )
                sampler = (await raw.result(ticket))["sampling_session_id"]
                body = {
                    "sampling_session_id": sampler,
                    "seq_id": 0,
                    "prompt": {"chunks": [{"tokens": list(b"hello")}]},
                    "sampling_params": {"max_tokens": 6, "seed": seed},
                    "prompt_logprobs": True,
                    "topk_prompt_logprobs": 2,
                }
                ticket = await raw.post("asample", **body)
                assert len(ticket["sample_sequence_ids"]) == 1
                return await raw.result(ticket)

            first, second, other = [await sample(i, s) for i, s in enumerate((7, 7, 8))]
            assert first["sequences"] == second["sequences"]
            assert first["sequences"] != other["sequences"]
            assert first["prompt_logprobs"][0] is None
            assert [len(row) for row in first["topk_prompt_logprobs"][1:]] == [2, 2, 2, 2]
            for _ in range(15):
                await raw.train(model)
            trained = await sample(9, 7)
            assert bytes(trained["sequences"][0]["tokens"]) == b" world"[:6]
            assert np.mean(trained["prompt_logprobs"][1:]) > np.mean(first["prompt_logprobs"][1:])
            assert raw.app.log.violations == []

    asyncio.run(scenario())


def test_protobuf_and_json_train_alike():
    """M27: the same data as protobuf (plain and zstd) and as JSON gives the same loss."""
    import zstandard
    from tinker_proto import tinker_pb2 as pb

    async def scenario():
        async with Raw() as raw:
            model = await raw.model()
            request = pb.ForwardBackwardRequest(
                model_id=model, seq_id=1, loss_fn="cross_entropy", forward_only=True
            )
            tokens = np.frombuffer(b"hello world", dtype=np.uint8)
            item = request.data.add()
            item.model_input.add().encoded_text.tokens = tokens[:-1].astype("<i4").tobytes()
            target = item.loss_fn_inputs["target_tokens"]
            target.dense, target.dtype = tokens[1:].astype("<i8").tobytes(), pb.DTYPE_INT64
            weights = item.loss_fn_inputs["weights"]
            weights.dense, weights.dtype = np.ones(10, "<f4").tobytes(), pb.DTYPE_FLOAT32
            losses = []
            for seq, encoding in ((1, None), (2, "zstd")):
                request.seq_id = seq
                content = request.SerializeToString()
                headers = {"content-type": "application/x-protobuf"}
                if encoding:
                    content = zstandard.ZstdCompressor().compress(content)
                    headers["content-encoding"] = encoding
                reply = await raw.send("POST", "forward_backward", content=content, headers=headers)
                assert reply.status_code == 200, reply.text
                reply = await raw.send(
                    "POST",
                    "retrieve_future",
                    {"request_id": reply.json()["request_id"], "allow_metadata_only": True},
                    headers={"accept": "application/x-protobuf"},
                )
                assert reply.headers["content-type"] == "application/x-protobuf"
                output = pb.ForwardBackwardOutput.FromString(reply.content)
                assert output.loss_fn_outputs[0].num_datums == 1
                losses.append(output.metrics["loss:sum"])
            raw.seq = 2
            assert losses == [await raw.loss(model)] * 2

    asyncio.run(scenario())


def test_an_unknown_base_model_is_explained():
    """M40: the answer lists the served models and how to register another."""

    async def scenario():
        async with Raw() as raw:
            session = await raw.session()
            body = {"session_id": session, "model_seq_id": 0, "base_model": "Qwen/Qwen3-8B"}
            reply = await raw.send("POST", "create_model", body)
            assert reply.status_code == 400
            for part in ("tinker-ext/tiny", "--model Qwen/Qwen3-8B", "Settings(models="):
                assert part in reply.json()["detail"]

    asyncio.run(scenario())


def test_a_registered_name_sizes_its_vocabulary_from_the_tokenizer(tmp_path):
    """M40: `--model NAME=DIR` serves the name with the ids of that tokenizer."""
    from tokenizers import Tokenizer, models

    words = {word: number for number, word in enumerate(["<unk>", "a", "b", "c"])}
    Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(tmp_path / "tokenizer.json"))

    async def scenario():
        settings = Settings(inline_engine=True, models=[f"Qwen/Qwen3-8B={tmp_path}", "bytes"])
        async with Raw(settings=settings) as raw:
            model = await raw.model(base="Qwen/Qwen3-8B")
            info = await raw.post("get_info", model_id=model)
            assert info["model_data"]["tokenizer_id"] == str(tmp_path / "tokenizer.json")
            body = raw.training_body(model)
            body["forward_backward_input"]["data"] = [datum("hi")]
            failed = await raw.result(await raw.post("forward_backward", **body))
            assert failed["category"] == "user"
            assert "outside the vocabulary of 4" in failed["error"]

    asyncio.run(scenario())


def test_the_tokenizer_of_get_info_resolves_offline():
    """M32, M40: tokenizer_id is a directory of the package."""
    from tokenizers import Tokenizer

    async def scenario():
        async with Raw() as raw:
            info = await raw.post("get_info", model_id=await raw.model())
            folder = info["model_data"]["tokenizer_id"]
            tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
            assert tokenizer.encode("Hé<|im_end|>").ids == [*"Hé".encode(), 258]
            assert tokenizer.decode([72, 105]) == "Hi"

    asyncio.run(scenario())


def test_a_custom_loss_is_stored_and_its_use_explained():
    """M15: the graph is kept; running it fails as the user's error, not the server's."""

    async def scenario():
        async with Raw() as raw:
            session = await raw.session()
            model = await raw.model(session)
            ticket = await raw.post(
                "create_custom_loss",
                session_id=session,
                custom_loss_seq_id=0,
                name="squares",
                inputs=[{"name": "logprobs", "rank": 1}],
                graph={"nodes": [{"op": "placeholder", "name": "logprobs", "target": "logprobs"}]},
            )
            loss_id = (await raw.result(ticket))["loss_id"]
            body = raw.training_body(model)
            body["forward_backward_input"] |= {
                "loss_fn": "custom",
                "loss_fn_config": {"loss_id": loss_id},
            }
            failed = await raw.result(await raw.post("forward_backward", **body))
            assert failed["category"] == "user"
            assert "forward_backward_custom" in failed["error"]

    asyncio.run(scenario())
