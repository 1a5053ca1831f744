"""What docs/migration.md says about values and errors of the types."""

from __future__ import annotations

import datetime
import math

import attrs
import numpy as np
import pytest

from tinker_ext import types
from tinker_ext.errors import InvalidInputError

INPUT = types.ModelInput.from_ints([1])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SamplingParams", {"temperature": -1}),
        ("SamplingParams", {"max_tokens": -3}),
        ("SamplingParams", {"max_tokens": "3"}),
        ("SamplingParams", {"max_tokens": True}),
        ("SamplingParams", {"top_p": 2}),
        ("SamplingParams", {"top_k": -5}),
        ("SamplingParams", {"stop": ""}),
        ("SamplingParams", {"stop": [2**31]}),
        ("ImageChunk", {"data": b"", "format": "png", "expected_tokens": -1}),
        ("LoraConfig", {"rank": 0}),
        ("LoraConfig", {"rank": "4"}),
        ("LoraConfig", {"rank": 4, "train_mlp": "yes"}),
        ("AdamParams", {"learning_rate": math.nan}),
        ("AdamParams", {"learning_rate": math.inf}),
        ("AdamParams", {"learning_rate": "0.1"}),
        ("Datum", {"model_input": {"chunks": []}}),
        ("EncodedTextChunk", {"tokens": [2**70]}),
        ("TensorData", {"data": [1.5], "dtype": "int64"}),
        ("TensorData", {"data": [1], "dtype": "int64", "shape": [2]}),
    ],
)
def test_refused_here_and_accepted_there(name: str, arguments: dict[str, object]):
    """M30: values that no server can use fail where they are written, as a ValueError."""
    with pytest.raises(InvalidInputError):
        getattr(types, name)(**arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("AdamParams", {"lr": 3}),
        ("EncodedTextChunk", {}),
        ("SamplingParams", {"n": 1}),
        ("Datum", {}),
    ],
)
def test_missing_and_unknown_keywords(name: str, arguments: dict[str, object]):
    """M30: a call that does not fit the constructor is a TypeError."""
    with pytest.raises(TypeError):
        getattr(types, name)(**arguments)


@pytest.mark.parametrize("value", [types.AdamParams(), types.Datum(INPUT, {}), INPUT])
def test_fields_cannot_be_assigned(value: object):
    """M30: the error is that of frozen data classes; a changed copy is made with attrs.evolve."""
    for name in attrs.fields_dict(type(value)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, name, None)


def test_records_are_checked_when_read():
    """M30: what a server sends is checked and converted; what a program builds is left as it is."""
    fields = {
        "checkpoint_id": "a",
        "checkpoint_type": "training",
        "time": "2024-01-01T00:00:00Z",
        "tinker_path": "tinker://a/weights/b",
    }
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert types.Checkpoint.from_dict(fields).time == moment
    assert types.Checkpoint(**fields).time == fields["time"]
    assert types.SupportedModel(model_name=5).model_name == 5
    with pytest.raises(ValueError, match="string"):
        types.SupportedModel.from_dict({"model_name": 5})


def test_arrays_are_kept_as_they_are():
    """F56: a datum shows what the caller's array holds, as with the official package."""
    weights = np.ones(3, np.float32)
    datum = types.Datum(INPUT, {"weights": weights, "mask": types.TensorData.from_numpy(weights)})
    weights[:] = 7
    assert datum.loss_fn_inputs["weights"].data == [7.0] * 3
    assert datum.loss_fn_inputs["mask"].data == [7.0] * 3
