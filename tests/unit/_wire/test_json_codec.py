"""What the JSON writer may be given."""

from __future__ import annotations

import numpy as np
import pytest

from tinker_ext import ModelInput, TensorData
from tinker_ext._wire import json_codec
from tinker_ext._wire.json_codec import check_json, json_form
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


@pytest.mark.parametrize("value", [[7], [7, 8], [], ["a"]])
def test_lists_without_types_of_ours_stay_as_they_are(value):
    """M27: `service.call` takes plain JSON."""
    assert json_form(value) == value


def test_types_of_ours_are_found_in_a_list_of_one():
    """M27: `service.call` takes prompts and tensors wherever the document has them."""
    prompt = ModelInput.from_ints([1, 2])
    plain = json_codec.dumps(json_form(prompt))
    assert json_codec.dumps(json_form([prompt])) == b"[" + plain + b"]"
    assert json_codec.dumps(json_form({"a": (prompt,)})) == b'{"a":[' + plain + b"]}"


def test_a_body_holds_what_an_array_held_when_it_was_made():
    """F56: filling a buffer anew changes nothing that is on its way."""
    values = np.ones(3, np.float32)
    body = json_form(TensorData.from_numpy(values))
    values[:] = 7.0
    assert body["data"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [[-1], [2.0], [True], "2", {"a": 1}, 2])
def test_a_shape_that_is_not_one_is_refused(shape):
    """M27: before numpy makes sense of it."""
    with pytest.raises(ValueError, match="expected a shape"):
        json_codec.decode_tensor({"data": [1.0, 2.0], "dtype": "float32", "shape": shape})
