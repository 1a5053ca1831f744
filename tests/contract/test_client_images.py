"""Images of either era's fields, on strict servers of both eras."""

from __future__ import annotations

import struct
import zlib

import pytest
from in_process import MODEL, client, run, server

from tinker_ext import Datum, ModelInput, SamplingParams
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import EncodedTextChunk, ImageChunk


def png(width: int, height: int) -> bytes:
    """The beginning of an image file, which is all that is read of it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


IMAGES = {
    "0.4.1": ImageChunk(data=png(5, 4), format="png", height=4, width=5, tokens=3),
    "0.36.0": ImageChunk(data=png(5, 4), format="png", expected_tokens=3),
}


NEWER = [("0.36.0", "json"), ("0.36.0", "proto")]


@pytest.mark.parametrize(("era", "wire"), [("0.4.1", "json"), *NEWER])
@pytest.mark.parametrize("fields", ["0.4.1", "0.36.0"])
def test_every_era_takes_the_images_of_the_other(era, fields, wire):
    """F14: the fields are translated, in training and in sampling, and the length is kept."""
    prompt = ModelInput(chunks=[EncodedTextChunk(tokens=[1]), IMAGES[fields]])

    async def scenario():
        app = server(era=era, wire="both" if era == "0.36.0" else "json")
        async with client(app, wire=wire) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            batch = [Datum(prompt, {"target_tokens": [1, 2, 3, 4], "weights": [1.0] * 4})]
            out = await (await training.forward_backward_async(batch, "cross_entropy"))
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            reply = await sampler.sample_async(prompt, 1, SamplingParams(max_tokens=2, seed=1))
            assert app.log.violations == []
            return out, reply

    out, reply = run(scenario)
    assert len(out.loss_fn_outputs[0]["logprobs"].data) == 4
    assert len(reply.sequences[0].tokens) == 2


def test_a_size_that_is_missing_is_asked_for_at_the_call():
    """F14: a server of the first era needs numbers that an image of unknown form does not have."""
    odd = ImageChunk(data=b"neither", format="png", expected_tokens=1)
    batch = [Datum(ModelInput(chunks=[odd]), {"target_tokens": [1]})]

    async def scenario():
        app = server(era="0.4.1", wire="json")
        async with client(app) as service:
            training = await service.create_lora_training_client_async(MODEL, rank=4)
            with pytest.raises(InvalidInputError, match="needs height, width of every ImageChunk"):
                await training.forward_async(batch, "cross_entropy")
            sampler = await service.create_sampling_client_async(base_model=MODEL)
            with pytest.raises(InvalidInputError, match="needs height, width of every ImageChunk"):
                await sampler.sample_async(batch[0].model_input, 1, SamplingParams(max_tokens=1))

    run(scenario)
