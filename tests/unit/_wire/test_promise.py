"""The answer to a sample is read as the model of the document reads it, by a shorter way."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tinker_api.errors import ApiError
from tinker_api.models import UntypedAPIFuture

from tinker_ext._wire.results import read_promise

ANY = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
IDS = ANY | st.lists(ANY, max_size=3) | st.lists(st.text(max_size=3), max_size=3)
BODIES = ANY | st.fixed_dictionaries(
    {}, optional={"request_id": ANY, "model_id": ANY, "sample_sequence_ids": IDS, "more": ANY}
)


@given(BODIES)
@example({"request_id": "r", "sample_sequence_ids": ["a", "b"]})
@example({"request_id": "r", "sample_sequence_ids": ["a", 1]})
@example({"request_id": "r", "model_id": 3})
def test_a_promise_is_read_as_its_model_reads_it(body):
    """M1: the same ids, and an error for the same bodies."""
    try:
        model = UntypedAPIFuture.from_dict(body)
    except ApiError:
        model = None
    if model is None or not model.request_id:
        with pytest.raises((ApiError, ValueError)):
            read_promise(orjson.dumps(body))
    else:
        expected = model.request_id, model.sample_sequence_ids
        assert read_promise(orjson.dumps(body)) == expected
