"""Sampling parameters and results."""

import copy
import gc
import json
import pickle
import threading
from typing import get_type_hints

import attrs
import numpy as np
import pytest

from tinker_ext._wire.json_codec import decode_sample
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import (
    EncodedTextChunk,
    PromptAltTokens,
    SampledSequence,
    SampleResponse,
    SamplingParams,
    TensorData,
    TopkLogprobs,
    sampling,
)
from tinker_ext.types.optimizer import OptimizerConfigBase
from tinker_ext.types.sampling import decoded_response


def test_defaults():
    """M16: the defaults of the official client."""
    params = SamplingParams()
    assert (params.max_tokens, params.seed, params.stop) == (None, None, None)
    assert (params.temperature, params.top_k, params.top_p) == (1, -1, 1)


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -0.1},
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"temperature": None},
        {"top_p": 1.1},
        {"top_p": -0.1},
        {"top_k": -2},
        {"top_k": 1.5},
        {"max_tokens": -1},
        {"max_tokens": "10"},
        {"max_tokens": True},
        {"seed": 1.5},
        {"stop": 5},
        {"stop": ["a", 1]},
        {"stop": [1.5]},
        {"stop": {"a": 1}},
        {"stop": b"ab"},
        {"stop": [-1]},
        {"stop": [2**31]},
        {"stop": ""},
        {"stop": ["a", ""]},
        {"seed": 2**64},
        {"seed": -(2**63) - 1},
        {"max_tokens": 2**64},
    ],
)
def test_bad_values_fail_at_the_call(bad):
    """M3: wrong types and ranges are refused before anything is sent."""
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        SamplingParams(**bad)


def test_unknown_keyword():
    """M3: a typo is refused."""
    with pytest.raises(TypeError):
        SamplingParams(temprature=1)


@pytest.mark.parametrize(
    ("stop", "kept"),
    [
        ("x", "x"),
        (["a", "b"], ["a", "b"]),
        ((1, 2), [1, 2]),
        ([], []),
        (np.array([3]), [3]),
        ([0, 2**31 - 1], [0, 2**31 - 1]),
    ],
)
def test_stop(stop, kept):
    """M4: text, texts, token ids; an empty list is kept, since it means something."""
    assert SamplingParams(stop=stop).stop == kept


def test_numpy_numbers_become_plain():
    """M16: numpy scalars are turned into what JSON can carry."""
    params = SamplingParams(max_tokens=np.int64(3), temperature=np.float32(0.5))
    assert type(params.max_tokens) is int
    assert type(params.temperature) is float


def sequence(**changes):
    arguments = {
        "stop_reason": "length",
        "sequence_id": "s-1",
        "tokens_np": np.array([4, 5], dtype=np.int32),
        "logprobs_np": np.array([-0.5, -1.5], dtype=np.float32),
    }
    return SampledSequence(**{**arguments, **changes})


def test_lists_are_real_lists():
    """M16: tokens and logprobs join, slice and go to JSON."""
    sampled = sequence()
    prefix = [0]
    assert prefix + sampled.tokens == [0, 4, 5]
    assert json.dumps(sampled.tokens + sampled.logprobs[:1]) == "[4, 5, -0.5]"
    assert sampled.tokens is sampled.tokens
    assert sequence(tokens_np=None, logprobs_np=None).tokens == []
    assert sequence(logprobs_np=None).logprobs is None
    assert SampledSequence("stop", "x", _tokens_list=[1]).tokens == [1]


def test_stop_reason_is_text():
    """M3: it compares, prints and serializes as its bare value, also one not known here."""
    assert sequence().stop_reason == "length"
    assert json.dumps(sequence(stop_reason="content_filter").stop_reason) == '"content_filter"'


def test_prompt_logprobs_nan_is_none():
    """M16: the place of the first token, which has no logprob, reads None."""
    response = SampleResponse(
        sequences=(sequence(),), prompt_logprobs_np=np.array([np.nan, -1], dtype=np.float32)
    )
    assert response.prompt_logprobs == [None, -1.0]
    assert isinstance(response.sequences, list)
    assert SampleResponse(sequences=[]).prompt_logprobs is None
    assert response.type == "sample"


def test_topk_trims_empty_cells():
    """M16: empty cells are left out, a row without tokens is None."""
    table = TopkLogprobs(
        np.array([[0, 0], [3, 0], [0, 4]], dtype=np.int32),
        np.array([[-99999, -99999], [-0.5, -99999], [-1.0, -2.0]], dtype=np.float32),
    )
    expected = [None, [(3, -0.5)], [(0, -1.0), (4, -2.0)]]
    response = SampleResponse(sequences=[], topk_prompt_logprobs_np=table)
    assert response.topk_prompt_logprobs == expected
    assert sequence(topk_logprobs_np=table).topk_logprobs == expected
    assert sequence().topk_logprobs is None


def test_value_semantics():
    """M16: results pickle and compare by value."""
    tensor = TensorData(data=[1], dtype="int64")
    response = SampleResponse(
        sequences=[sequence()],
        prompt_logprobs_np=np.array([np.nan, -1], dtype=np.float32),
        prompt_alt_tokens=PromptAltTokens(tensor, tensor),
    )
    again = pickle.loads(pickle.dumps(response))
    assert again == response
    assert hash(again) == hash(response)
    assert again != SampleResponse(sequences=[sequence(stop_reason="stop")])
    assert sequence() != sequence(tokens_np=np.array([4, 6]))
    assert "s-1" in repr(response)


def test_tables_with_missing_numbers_compare():
    """M2: two readings of one reply are equal, NaN in them or not."""
    ids = np.array([[1, 2]])
    one, same = (TopkLogprobs(ids, np.array([[-0.5, np.nan]])) for _ in range(2))
    assert one == same
    assert one != TopkLogprobs(ids, np.array([[-0.5, -1.0]]))
    assert one != TopkLogprobs(ids + 1, one.logprobs)


@pytest.mark.parametrize(
    "value",
    [
        sequence(),
        SampleResponse(sequences=[sequence()]),
        TopkLogprobs(np.array([[1]]), np.array([[-0.5]], np.float32)),
        TensorData.from_numpy(np.ones(2)),
        EncodedTextChunk(tokens=[1]),
        OptimizerConfigBase(type="lion"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_comparing_with_another_type_is_allowed(value):
    """M16: it is not equal, unless the other one says so."""

    class Equal:
        def __eq__(self, other):
            return True

    assert value != 3
    assert value == Equal()


def received(sequences=2):
    body = {"tokens": [5, 6], "logprobs": [-0.5, -1.0], "stop_reason": "stop"}
    return decode_sample({"sequences": [body] * sequences})


def test_a_received_response_has_a_real_list():
    """M16: the same list each time, as if the caller had made it, and no other attribute."""
    response = received()
    assert isinstance(response.sequences, list)
    assert response.sequences is response.sequences
    made = SampledSequence("stop", tokens_np=np.array([5, 6]), logprobs_np=np.array([-0.5, -1.0]))
    assert response == SampleResponse([made, made])
    assert repr(received()) == repr(SampleResponse([made, made]))
    with pytest.raises(AttributeError, match="'SampleResponse' object has no attribute 'sequence'"):
        _ = received().sequence
    assert received(0).sequences == []


@pytest.mark.parametrize("read_first", [False, True])
def test_a_received_response_travels(read_first):
    """M16: a copy and a pickle of a response are the same, read before or not."""
    response = received()
    if read_first:
        assert len(response.sequences) == 2
    for other in (pickle.loads(pickle.dumps(response)), copy.copy(response)):
        assert other == received()
        assert pickle.loads(pickle.dumps(other)) == received()


def test_an_attribute_that_cannot_be_computed_says_why():
    """M16: `prompt_logprobs` is there; what was given for it has no `tolist`."""
    with pytest.raises(AttributeError, match="'list' object has no attribute 'tolist'"):
        _ = SampleResponse([], prompt_logprobs_np=[-1.0]).prompt_logprobs


def test_threads_that_read_first_get_the_same_list(monkeypatch):
    """M16: what one of them does to the list is not lost."""
    response, seen = received(), []

    def look():
        seen.append(response.sequences)

    class Slow(SampledSequence):
        def __init__(self, *fields):
            super().__init__(*fields)
            if not seen:
                seen.append(None)
                other = threading.Thread(target=look)
                other.start()
                other.join()

    monkeypatch.setattr(sampling, "SampledSequence", Slow)
    look()
    assert seen[1] is seen[2] is response.sequences


def test_a_received_response_has_the_fields_of_any_other():
    """M16: `attrs.asdict` and `attrs.astuple` show what `SampleResponse(…)` takes, and no more."""
    made = SampleResponse(received().sequences)
    assert attrs.asdict(received(), recurse=False) == attrs.asdict(made, recurse=False)
    assert type(made)(*attrs.astuple(received(), recurse=False)) == made
    assert attrs.evolve(received(), prompt_cache_hit_tokens=0) == made
    names = [field.name for field in attrs.fields(SampleResponse)]
    assert list(get_type_hints(SampleResponse)) == names


def test_responses_that_nobody_has_read_yet_are_one_object_each():
    """M48: the garbage collector visits what it tracks again and again, however many are kept."""
    count = 200
    sequence = ("stop", "", np.array([5, 6]), np.array([-0.5, -1.0]), None)
    gc.collect()
    before = len(gc.get_objects())
    kept = [decoded_response([(*sequence,)]) for _ in range(count)]
    gc.collect()  # forgets tuples of arrays
    gc.collect()  # and tuples of such tuples
    assert len(gc.get_objects()) - before < 1.1 * count
    assert len(kept) == count
