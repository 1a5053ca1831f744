"""Token ids of a text chunk: a large one is seen at every place, and nobody changes them."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext.errors import InvalidInputError
from tinker_ext.types import EncodedTextChunk


@pytest.mark.parametrize("make", [list, np.array])
@pytest.mark.parametrize("length", [1, 2, 9, 1023, 1024, 1025, 5000])
def test_one_large_id_is_seen_at_any_place(make, length):
    """M4: an id of 2³¹ or more is no token, wherever it stands; nor is one below 0."""
    assert EncodedTextChunk(tokens=make([2**31 - 1] * length)).is_small
    for place in {0, 1, length // 2, length - 1} & set(range(length)):
        for large in (2**31, 2**32, 2**62, -1):
            ids = [5] * length
            ids[place] = large
            assert not EncodedTextChunk(tokens=make(ids)).is_small


def test_nothing_is_small():
    """M4: an empty chunk has no id that could be too large."""
    assert EncodedTextChunk(tokens=[]).is_small
    assert EncodedTextChunk(tokens=np.array([], np.int64)).is_small


@pytest.mark.parametrize("given", [[1, 2, 3], np.array([1, 2, 3]), (1, 2, 3)])
def test_ids_cannot_be_changed(given):
    """M4: a chunk is hashed and compared by them."""
    chunk = EncodedTextChunk(tokens=given)
    for ids in (chunk.ids, chunk.array):
        with pytest.raises(ValueError, match="read-only"):
            ids[0] = 9
    assert chunk.tokens == [1, 2, 3]


def test_a_chunk_of_another_type_is_refused():
    """M38: a name that was copied from another chunk."""
    with pytest.raises(InvalidInputError, match="type must be 'encoded_text', not 'image'"):
        EncodedTextChunk(tokens=[1], type="image")
