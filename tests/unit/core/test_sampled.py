"""M23: what a sample call returns has the shape that was asked for."""

import numpy as np
import pytest
from in_process import client, run
from stub_server import StubServer

from tinker_ext._wire.json_codec import PLAIN, SampleOptions
from tinker_ext.core.sample_pool import finished
from tinker_ext.errors import APIResponseValidationError
from tinker_ext.types import ImageChunk, ModelInput, SampledSequence, SampleResponse

PROMPT = ModelInput.from_ints([1, 2, 3])
SCORED = SampleOptions(prompt_logprobs=True)


def response(sequences, prompt_logprobs=None):
    """A reply with this many sequences."""
    tokens, logprobs = np.array([7], np.int32), np.array([-1.0], np.float32)
    drawn = [SampledSequence("length", tokens_np=tokens, logprobs_np=logprobs)] * sequences
    given = None if prompt_logprobs is None else np.array(prompt_logprobs, np.float32)
    return SampleResponse(drawn, prompt_logprobs_np=given)


@pytest.mark.parametrize(("asked", "given"), [(1, 0), (4, 3), (1, 2)])
def test_another_number_of_sequences_is_an_error(asked, given):
    """M38: a group of four of which three came would train on something else, unnoticed."""
    with pytest.raises(APIResponseValidationError, match=f"gave {given} sequences where {asked}"):
        finished(response(given), PROMPT, asked, PLAIN, None)


def test_scoring_needs_no_sequence():
    """M28: some servers sample nothing when only prompt log-probabilities are wanted."""
    value = finished(response(0, [np.nan, -1.0, -2.0]), PROMPT, 1, SCORED, None)
    assert value.prompt_logprobs == [None, -1.0, -2.0]


def test_a_missing_first_logprob_is_put_in_its_place():
    """M28: n - 1 values become n, and any other number is refused."""
    value = finished(response(1, [-1.0, -2.0]), PROMPT, 1, SCORED, None)
    assert value.prompt_logprobs == [None, -1.0, -2.0]
    assert np.isnan(value.prompt_logprobs_np[0])
    with pytest.raises(APIResponseValidationError, match="gave 1 logprobs for a prompt of 3"):
        finished(response(1, [-1.0]), PROMPT, 1, SCORED, None)


def test_logprobs_of_a_prompt_of_unknown_length_are_taken_as_they_are():
    """M28: the server knows how many tokens an image is; nothing can be counted or put in place."""
    image = ImageChunk(data=b"x", format="png")
    prompt = ModelInput(chunks=[*PROMPT.chunks, image])
    for given in ([-1.0], [np.nan, -1.0, -2.0, -3.0, -4.0]):
        value = finished(response(1, given), prompt, 1, SCORED, None)
        assert len(value.prompt_logprobs_np) == len(given)


def test_scoring_asks_for_as_little_as_can_be_sampled():
    """M23: one sequence of one token, which nobody reads."""

    async def scenario():
        def handler(operation, body, request):
            if operation == "asample":
                sent.append(body)
            if operation == "retrieve_future":
                drawn = {"stop_reason": "length", "tokens": [1], "logprobs": [-0.5]}
                return 200, {"sequences": [drawn], "prompt_logprobs": [None, -1.0, -2.0]}
            return None

        sent = []
        async with client(StubServer(handler)) as service:
            sampler = await service.create_sampling_client_async(base_model="m")
            assert await sampler.compute_logprobs_async(PROMPT) == [None, -1.0, -2.0]
        return sent

    (body,) = run(scenario)
    assert (body["num_samples"], body["sampling_params"]["max_tokens"]) == (1, 1)
    assert body["prompt_logprobs"] is True
