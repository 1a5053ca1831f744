"""Reduction of metrics and merging of chunk results."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext.batch.merge import REDUCERS, merge, reduce_metrics
from tinker_ext.errors import APIResponseValidationError
from tinker_ext.types import ForwardBackwardOutput, TensorData


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("a:mean", [1.0, 4.0], {"a:mean": 3.0}),
        ("a:sum", [1.0, 4.0], {"a:sum": 5.0}),
        ("a:min", [1.0, 4.0], {"a:min": 1.0}),
        ("a:max", [1.0, 4.0], {"a:max": 4.0}),
        ("a:slack", [1.0, 4.0], {"a:slack": 1.0}),
        ("a:unique", [1.0, 4.0], {"a:unique": 1.0, "a:unique_1": 4.0}),
        ("a:hash_unordered", [4.0, 1.0], {"a:hash_unordered": hash((1, 4))}),
        ("a:hash2", [-1.0, 3.0], {"a:hash2": 2}),
        ("a:hash2", [float(2**63), float(2**63)], {"a:hash2": 0}),
        ("a:b:sum", [1.0, 4.0], {"a:b:sum": 5.0}),
        ("a:median", [1.0, 4.0], {}),
        ("bare", [1.0, 4.0], {"bare": 1.0, "bare_1": 4.0}),
        ("a:hash2", [math.nan, 1.0], {}),
    ],
)
def test_two_chunks(key, values, expected):
    """M12: every suffix, with weights 1 and 2; unknown dropped; a bare name kept."""
    assert reduce_metrics([{key: value} for value in values], [1, 2]) == expected


@pytest.mark.parametrize("key", ["a:mean", "a:sum", "a:min", "a:max", "a:unique", "bare"])
def test_one_chunk_keeps_its_value(key):
    """M12: a single chunk is reduced like many, to itself."""
    assert reduce_metrics([{key: 2.5}], [4]) == {key: 2.5}


def test_keys_of_the_first_chunk():
    """M12: keys come from the first chunk; one that another chunk lacks is left out."""
    chunks = [{"a:sum": 1.0, "b:sum": 1.0}, {"c:sum": 1.0, "a:sum": 1.0}]
    assert reduce_metrics(chunks, [1, 1]) == {"a:sum": 2.0}


def test_no_outputs_at_all():
    """M12: weights that are all zero do not divide by zero."""
    assert reduce_metrics([{"a:mean": 1.0}, {"a:mean": 3.0}], [0, 0]) == {"a:mean": 2.0}
    assert reduce_metrics([], []) == {}


NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 9)), min_size=1, max_size=6))
def test_against_a_plain_reference(pairs):
    """M12: the weighted reductions agree with numpy on the repeated values."""
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    repeated = np.repeat(values, weights)
    keys = ("mean", "sum", "min", "max", "slack")
    got = reduce_metrics([{f"x:{k}": v for k in keys} for v in values], weights)
    assert got["x:mean"] == pytest.approx(repeated.mean(), rel=1e-9, abs=1e-6)
    assert got["x:slack"] == pytest.approx(max(values) - repeated.mean(), rel=1e-9, abs=1e-6)
    assert got["x:sum"] == pytest.approx(sum(values), rel=1e-9, abs=1e-6)
    assert (got["x:min"], got["x:max"]) == (min(values), max(values))


@given(st.permutations([3, 17, 2**40, -5]))
def test_hashes_ignore_the_order(values):
    """M12: both hashes are the same for every order of the chunks."""
    for suffix in ("hash_unordered", "hash2"):
        ordered = REDUCERS[suffix]([3, 17, 2**40, -5], [1] * 4)
        assert REDUCERS[suffix](values, [1] * 4) == ordered


def output(n, first=0, kind="t"):
    outputs = [{"logprobs": TensorData(data=[float(i)], dtype="float32")} for i in range(n)]
    per_datum = [float(first + i) for i in range(n)]
    metrics = {"x:sum": sum(per_datum), "x:mean": sum(per_datum) / n, "x:max": max(per_datum)}
    return ForwardBackwardOutput(kind, outputs, metrics)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_merge_equals_unchunked(sizes):
    """M12: cut in any way and merged, the result is that of the whole batch."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    pairs = zip(sizes, starts, strict=True)
    merged = merge([output(n, int(start)) for n, start in pairs])
    whole = output(sum(sizes))
    assert merged.metrics == pytest.approx(whole.metrics)
    assert len(merged.loss_fn_outputs) == len(whole.loss_fn_outputs)


def test_outputs_that_are_missing_are_told():
    """M12: the reply was accepted, and yet does not fit what was sent."""
    with pytest.raises(APIResponseValidationError, match="gave 2 outputs for 3 datums") as caught:
        merge([output(1, 0), output(2, 1)], [1, 3])
    assert caught.value.status_code == 200
    assert len(merge([output(1, 0), output(2, 1)], [1, 2]).loss_fn_outputs) == 3


def test_merge_keeps_order_and_first_type():
    """M11: outputs are joined in chunk order; the first chunk names the type."""
    left, right = output(1, kind="a"), output(2, kind="b")
    merged = merge([left, right])
    assert merged.loss_fn_output_type == "a"
    assert merged.loss_fn_outputs == [*left.loss_fn_outputs, *right.loss_fn_outputs]


def test_nothing_merged_is_nothing():
    """F56: no results make an empty one, as with the official package."""
    merged = merge([])
    assert (merged.loss_fn_output_type, merged.loss_fn_outputs, merged.metrics) == ("", [], {})
