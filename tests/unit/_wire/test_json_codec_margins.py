"""Numbers of replies at their margins: what is read, and what is refused with which words.

M13 M14: a reply that does not fit is an error of ours, never a wrong value.
"""

from __future__ import annotations

import math

import numpy as np
import orjson
import pytest

from tinker_ext import ModelInput, SamplingParams
from tinker_ext._wire.json_codec import (
    PLAIN,
    SampleOptions,
    _array,
    _count,
    _number,
    _shape,
    _text,
    sample_body,
)

NUMBERS = [
    ([1, 2], "int64", [1, 2]),
    ([0, 2**63 - 1], "int64", [0, 2**63 - 1]),
    ([-(2**63), 1], "int64", [-(2**63), 1]),
    ([], "int64", []),
    ([], "float32", []),
    ([1, 2.5], "float32", [1.0, 2.5]),
    ([None, 0.5], "float32", [None, 0.5]),
    ([None, 1], "float32", [None, 1.0]),
    ([None], "float32", [None]),
]
REFUSED = [
    ([None, "0.5"], "float32", "flat list"),
    ([None, True], "float32", "flat list"),
    ([None, 1], "int64", "flat list"),
    ([1, 2.5], "int64", "flat list"),
    (["1"], "int64", "flat list"),
    ([[1], [2]], "int64", "flat list"),
    ([[1.0], [2.0]], "float32", "flat list"),
    ([1e39], "float32", "does not fit"),
    ([0.5, -1e39], "float32", "does not fit"),
    ([2**63], "int64", "flat list"),
    ([1, True], "int64", "true or false"),
    ([0.0, False], "float32", "true or false"),
    ([2, True], "int64", "true or false"),
    ({"a": 1}, "int64", "expected a list, got dict"),
    (None, "float32", "expected a list, got NoneType"),
]


@pytest.mark.parametrize(("values", "dtype", "wanted"), NUMBERS)
def test_numbers_that_fit(values, dtype, wanted):
    """Null among floats is not a number; an empty list has the type that was asked for."""
    found = _array(values, dtype)
    assert found.dtype == np.dtype(dtype)
    assert [None if math.isnan(each) else each for each in found.tolist()] == wanted


@pytest.mark.parametrize(("values", "dtype", "why"), REFUSED)
def test_numbers_that_do_not_fit(values, dtype, why):
    """Text, nesting, true and false, and what the type cannot hold."""
    with pytest.raises(ValueError, match=why):
        _array(values, dtype)


@pytest.mark.parametrize("value", [None, [], [0], [2, 3]])
def test_shapes(value):
    """Whole numbers from 0 on."""
    assert _shape(value) == value


@pytest.mark.parametrize("value", [[-1], [1, -1], [1.0], [True], ["1"], 3, "3", [None]])
def test_what_is_not_a_shape(value):
    """M13: nothing else."""
    with pytest.raises(ValueError, match="expected a shape"):
        _shape(value)


def test_single_values():
    """A number may be null, a count may not; neither is a truth value."""
    assert math.isnan(_number(None))
    assert (_number(0), _number(2.5), _count(0), _count(7), _text("")) == (0, 2.5, 0, 7, "")
    for value in (True, "1", [1]):
        with pytest.raises(ValueError, match="expected a number"):
            _number(value)
    for value in (True, -1, 1.0, None, "1"):
        with pytest.raises(ValueError, match="expected a count"):
            _count(value)
    for value in (None, 1, b"x"):
        with pytest.raises(ValueError, match="expected a string"):
            _text(value)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {}),
        ({"prompt_logprobs": True}, {"prompt_logprobs": True}),
        ({"prompt_logprobs": False}, {"prompt_logprobs": False}),
        ({"topk_prompt_logprobs": 1}, {"topk_prompt_logprobs": 1}),
        ({"prompt_logprobs_last_n": 2}, {"prompt_logprobs_last_n": 2}),
        ({"record_stability_info": True}, {"record_stability_info": True}),
    ],
)
def test_only_the_wishes_of_a_caller_are_sent(options, sent):
    """F45: servers of the first era refuse fields that they do not know."""
    body = orjson.loads(
        sample_body(
            {"base_model": "m"},
            7,
            ModelInput.from_ints([1, 2]),
            3,
            SamplingParams(max_tokens=4),
            SampleOptions(**options),
        )
    )
    usual = {"num_samples": 3, "seq_id": 7, "base_model": "m", "type": "sample"}
    usual["prompt"] = {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]}
    usual["sampling_params"] = body["sampling_params"]
    assert body == usual | sent


def test_parameters_are_sent_as_they_are_at_each_call():
    """M6: also a list of stops that grows between two of them."""
    prompt = ModelInput.from_ints([1])

    def sent(params):
        body = orjson.loads(sample_body({}, None, prompt, 1, params, PLAIN))["sampling_params"]
        return body["max_tokens"], body.get("stop")

    growing, plain = SamplingParams(max_tokens=4, stop=["a"]), SamplingParams(max_tokens=5)
    assert [sent(growing), sent(growing)] == [(4, ["a"])] * 2
    growing.stop.append("b")
    assert sent(growing) == (4, ["a", "b"])
    assert [sent(plain), sent(plain), sent(growing)] == [(5, None), (5, None), (4, ["a", "b"])]
