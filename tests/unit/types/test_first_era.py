"""Ways of clients of the first era to build a response: they work, and say what to use instead."""

from __future__ import annotations

import warnings

import pytest

from tinker_ext.types import SampledSequence, SampleResponse


def test_a_sequence_from_lists_says_what_it_is():
    """M33: the warning names the class and the arguments, and points at the caller."""
    with pytest.warns(DeprecationWarning, match=r"^SampledSequence\(tokens, logprobs=…\)") as said:
        made = SampledSequence("stop", tokens=[5, 6], logprobs=[-0.5, -1.0])
    assert said[0].filename == __file__
    assert (made.tokens, made.logprobs) == ([5, 6], [-0.5, -1.0])
    with pytest.warns(DeprecationWarning, match="SampledSequence"):
        made = SampledSequence("stop", tokens=[5])
    assert (made.tokens, made.logprobs) == ([5], None)
    with pytest.warns(DeprecationWarning, match="SampledSequence"):
        made = SampledSequence("stop", logprobs=[-0.5])
    assert made.logprobs == [-0.5]


def test_a_response_from_lists_says_what_it_is():
    """M33: the same for what was read with the prompt."""
    words = r"^SampleResponse\(prompt_logprobs, topk_prompt_logprobs=…\)"
    with pytest.warns(DeprecationWarning, match=words) as said:
        made = SampleResponse([], prompt_logprobs=[None, -0.5])
    assert said[0].filename == __file__
    assert made.prompt_logprobs == [None, -0.5]
    with pytest.warns(DeprecationWarning, match=words):
        made = SampleResponse([], topk_prompt_logprobs=[None, [(7, -0.5)]])
    assert (made.prompt_logprobs, made.topk_prompt_logprobs) == (None, [None, [(7, -0.5)]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SampleResponse([]).prompt_logprobs is None
