"""What the JSON writer may be given."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext._wire import json_codec
from tinker_ext._wire.json_codec import check_json
from tinker_ext.errors import InvalidInputError


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": float("nan")}, r"x\['a'\] is nan"),
        ({"a": [1.0, {"b": float("inf")}]}, r"x\['a'\]\[1\]\['b'\] is inf"),
        ({"a": None, "b": (float("-inf"),)}, r"x\['b'\]\[0\] is -inf"),
        ({"a": np.float32("nan")}, "x.* is nan"),
        ({"a": np.array([1.0, np.inf])}, "x.* holds NaN or infinity"),
        ({"a": object()}, "x cannot be written as JSON"),
        ({1: "a"}, "x cannot be written as JSON"),
        ({"a": 2**64}, "x cannot be written as JSON"),
    ],
)
def test_what_json_would_lose_is_named(value, message):
    """M7: a number that is not finite would arrive as null; the error says which one it is."""
    with pytest.raises(InvalidInputError, match=message):
        check_json("x", value)


@pytest.mark.parametrize(
    "value", [{"a": None, "b": "null"}, [None, 1.5], {"a": np.array([1, 2]), "b": None}, "null"]
)
def test_a_null_that_is_meant_passes(value):
    """M7: None and the word are no lost numbers."""
    check_json("x", value)


@pytest.mark.parametrize("values", [[True, 0.5], [0.5, False], [1, True], [0, 2, False, 3]])
def test_true_and_false_are_not_numbers(values):
    """M28: a reply with booleans among its numbers is refused, 0 and 1 are not."""
    tensor = {"data": values, "dtype": "float32"}
    with pytest.raises(ValueError, match="true or false"):
        json_codec.decode_tensor(tensor)
    numbers = [float(value) for value in values]
    assert json_codec.decode_tensor({"data": numbers, "dtype": "float32"}).data == numbers
    if all(type(value) is not float for value in values):
        with pytest.raises(ValueError, match="true or false"):
            json_codec.decode_tensor({"data": values, "dtype": "int64"})
