"""Token ids of a text chunk: a large one is seen at every place, and nobody changes them."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext.types import EncodedTextChunk


@pytest.mark.parametrize("length", [1, 2, 9, 1023, 1024])
def test_one_large_id_is_seen_at_any_place(length):
    """M4: an id of 2³¹ or more is no token, wherever it stands."""
    assert EncodedTextChunk(tokens=[2**31 - 1] * length).is_small
    for place in {0, 1, length // 2, length - 1} & set(range(length)):
        ids = [5] * length
        ids[place] = 2**31
        assert not EncodedTextChunk(tokens=ids).is_small


def test_a_long_chunk_is_left_to_numpy():
    """M23: what is small is not known at a glance of more than 1,024 ids, nor of an array."""
    assert not EncodedTextChunk(tokens=[1] * 1025).is_small
    assert not EncodedTextChunk(tokens=np.array([1, 2])).is_small


@pytest.mark.parametrize("given", [[1, 2, 3], np.array([1, 2, 3]), (1, 2, 3)])
def test_ids_cannot_be_changed(given):
    """M4: a chunk is hashed and compared by them."""
    chunk = EncodedTextChunk(tokens=given)
    for ids in (chunk.ids, chunk.array):
        with pytest.raises(ValueError, match="read-only"):
            ids[0] = 9
    assert chunk.tokens == [1, 2, 3]
