"""Sizes and splitting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinker_api.models import ClientConfigResponse

from tinker_ext.batch.chunking import NUMBERS_ERA, Limits, datum_size, prompt_size, split
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import (
    Datum,
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
    TensorData,
)


def datum(tokens, **inputs):
    return Datum(ModelInput.from_ints([1] * tokens), inputs)


def test_limits_of_the_eras():
    """M11: the documented limits of both eras."""
    assert Limits(128, 500_000, "numbers") == NUMBERS_ERA
    config = ClientConfigResponse()
    assert config.fwdbwd_max_chunk_len == 1024
    assert config.fwdbwd_max_chunk_bytes_count == 5_000_000


SPARSE = TensorData(
    data=[5.0, 6.0],
    dtype="float32",
    shape=[2, 4],
    sparse_crow_indices=[0, 1, 2],
    sparse_col_indices=[1, 3],
)


@pytest.mark.parametrize(
    ("example", "numbers", "size"),
    [
        (datum(3), 3, 12),
        (datum(2, target_tokens=[1, 2], weights=[1, 1]), 6, 8 + 16 + 8),
        (datum(2, weights=SPARSE), 4, 8 + 2 * 4 + 5 * 8),
        (
            Datum(
                ModelInput(
                    chunks=[
                        ImageChunk(data=b"12345", format="png", expected_tokens=7),
                        DmelChunk(dmel=bytes([3, 2, 5, 80])),
                        ImageAssetPointerChunk(format="png", location="s3://x", tokens=3),
                    ]
                )
            ),
            7 + 5 + 3,
            5 + 4 + 6,
        ),
        (Datum(ModelInput(chunks=[ImageChunk(data=b"x" * 8, format="png")])), 2, 8),
    ],
)
def test_one_estimator_for_both_units(example, numbers, size):
    """M11: numbers for the first era, bytes for the second."""
    assert datum_size(example, "numbers") == numbers
    assert datum_size(example, "bytes") == size


def test_prompt_size():
    """M23: ten bytes per text token, raw bytes for the rest."""
    chunks = [EncodedTextChunk(tokens=[1, 2]), ImageChunk(data=b"123", format="png")]
    assert prompt_size(ModelInput(chunks=chunks)) == 23


def test_empty_batch():
    """M11: an empty batch is a clear error."""
    with pytest.raises(InvalidInputError, match="empty"):
        split([], NUMBERS_ERA)


def test_a_total_equal_to_the_limit_fits():
    """M11: the limit itself is allowed, one more is not."""
    data = [datum(5), datum(5), datum(1)]
    assert [len(chunk) for chunk in split(data, Limits(10, 10, "numbers"))] == [2, 1]


def test_oversize_travels_alone():
    """M11: a datum above the limit gets a request of its own, in its place."""
    data = [datum(1), datum(50), datum(1), datum(1)]
    chunks = split(data, Limits(10, 10, "numbers"))
    assert [[d.model_input.length for d in chunk] for chunk in chunks] == [[1], [50], [1, 1]]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.integers(1, 7),
    st.integers(1, 40),
    st.sampled_from(["numbers", "bytes"]),
)
def test_split_properties(sizes, count, size, unit):
    """M11: order kept, nothing lost, no limit broken but by a lone datum, no needless cut."""
    data = [datum(n) for n in sizes]
    limits = Limits(count, size, unit)
    chunks = split(data, limits)
    assert [d for chunk in chunks for d in chunk] == data
    totals = [sum(datum_size(d, unit) for d in chunk) for chunk in chunks]
    for chunk, total in zip(chunks, totals, strict=True):
        assert 1 <= len(chunk) <= count
        assert total <= size or len([d for d in chunk if datum_size(d, unit)]) == 1
    for (chunk, total), after in zip(zip(chunks, totals, strict=True), chunks[1:], strict=False):
        assert len(chunk) == count or total + datum_size(after[0], unit) > size


def test_numpy_batches_split_without_lists():
    """M11: sizes come from arrays; no list is made of them."""
    example = datum(4, weights=np.ones(4))
    split([example], Limits(1024, 5_000_000, "bytes"))
    assert example.loss_fn_inputs["weights"]._list is None
