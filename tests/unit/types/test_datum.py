"""Datum: conversion of loss inputs and provenance spans."""

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import attrs
import numpy as np
import pytest

from tinker_ext.errors import InvalidInputError, UnknownKeyError
from tinker_ext.types import (
    Datum,
    ModelInput,
    PromptProvenanceSpan,
    SampledProvenanceSpan,
    TensorData,
)

INPUT = ModelInput.from_ints([1, 2])


@pytest.mark.parametrize(
    ("key", "value", "dtype", "nested"),
    [
        ("target_tokens", [2, 3], "int64", [2, 3]),
        ("target_tokens", [[2, 3], [4, 5]], "int64", [[2, 3], [4, 5]]),
        ("target_tokens", ModelInput.from_ints([2, 3]), "int64", [2, 3]),
        ("weights", [1, 0], "float32", [1.0, 0.0]),
        ("advantages", (0.5, 1), "float32", [0.5, 1.0]),
        ("logprobs", np.array([-1.5, -2]), "float32", [-1.5, -2.0]),
        ("mask", np.array([1, 0]), "int64", [1, 0]),
        ("mask", TensorData(data=[1], dtype="float32"), "float32", [1.0]),
    ],
)
def test_conversion(key, value, dtype, nested):
    """M9: arrays, lists, nested lists, tensors and model inputs become TensorData."""
    tensor = Datum(model_input=INPUT, loss_fn_inputs={key: value}).loss_fn_inputs[key]
    assert tensor.dtype == dtype
    assert tensor.tolist() == nested


def test_unknown_list_key():
    """M9: a list under an unknown name is an error that lists the known ones."""
    with pytest.raises(UnknownKeyError, match=r"(?s)'mask'.*target_tokens"):
        Datum(INPUT, {"mask": [1, 0]})


@pytest.mark.parametrize("value", ["ab", None, [True], np.array([True]), [[1], [2, 3]]])
def test_bad_values_name_the_input(value):
    """M9: the error says which loss input is wrong."""
    with pytest.raises(InvalidInputError, match="weights"):
        Datum(INPUT, {"weights": value})


def test_bad_model_input():
    """M9: token ids must be wrapped; the message says how."""
    with pytest.raises(InvalidInputError, match="from_ints"):
        Datum(model_input=[1, 2], loss_fn_inputs={})
    with pytest.raises(InvalidInputError, match="dict"):
        Datum(INPUT, [1])


def test_the_dict_is_copied_but_stays_a_dict():
    """M9: the caller's dict is not shared; the datum's own may be assigned into."""
    given = {"weights": [1.0, 1.0]}
    datum = Datum(INPUT, given)
    given["weights"] = None
    datum.loss_fn_inputs["advantages"] = TensorData(data=[1.0, 2.0], dtype="float32")
    assert sorted(datum.loss_fn_inputs) == ["advantages", "weights"]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        datum.model_input = INPUT


def test_value_semantics():
    """M9: a datum pickles, copies and compares."""
    datum = Datum(INPUT, {"target_tokens": [2, 3]})
    assert pickle.loads(pickle.dumps(datum)) == datum == copy.deepcopy(datum)
    assert datum != Datum(INPUT, {"target_tokens": [2, 4]})
    assert Datum(INPUT).loss_fn_inputs == {}


def made_of_arrays():
    """A datum of arrays that nobody has looked at."""
    return Datum(INPUT, {"target_tokens": np.array([2, 3]), "weights": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    "use",
    [
        repr,
        lambda datum: pickle.loads(pickle.dumps(datum)),
        copy.copy,
        copy.deepcopy,
        lambda datum: datum == made_of_arrays(),
        lambda datum: attrs.evolve(datum, model_input=INPUT),
        lambda datum: sorted(datum.loss_fn_inputs),
        lambda datum: datum.settle(),
    ],
)
def test_arrays_give_the_same_whoever_looks_first(use):
    """M9: whether a datum was read, compared, printed or pickled before makes no difference."""
    datum, plain = made_of_arrays(), Datum(INPUT, {"target_tokens": [2, 3], "weights": [1, 1]})
    assert use(datum) == use(plain)
    assert datum == plain
    assert repr(datum) == repr(plain)
    assert pickle.loads(pickle.dumps(datum)).settle() == plain.loss_fn_inputs
    assert type(datum.loss_fn_inputs) is dict
    assert datum.loss_fn_inputs is datum.loss_fn_inputs
    with pytest.raises(AttributeError, match="'Datum' object has no attribute 'loss'"):
        _ = datum.loss


def test_settled_inputs_are_nobody_elses():
    """F56: from then on neither arrays nor tensors of arrays change with what they were made of."""
    arrays = [np.arange(4.0, dtype=np.float32) for _ in range(3)]
    tensor = TensorData.from_numpy(arrays[1])
    datums = [Datum(INPUT, {"weights": arrays[0], "mask": tensor}), Datum(INPUT, {"a": arrays[2]})]
    assert datums[1].loss_fn_inputs["a"].tolist() == [0, 1, 2, 3]
    for array in arrays:
        array[0] = 5
    settled = [tensor for datum in datums for tensor in datum.settle().values()]
    for array in arrays:
        array[:] = 7
    assert [tensor.tolist() for tensor in settled] == [[5, 1, 2, 3]] * 3
    assert not any(tensor.array.flags.writeable for tensor in settled)
    assert [tensor for datum in datums for tensor in datum.loss_fn_inputs.values()] == settled


def test_threads_that_look_at_once_get_one_dict():
    """M9: what one of them assigns is seen by the others."""
    start = threading.Barrier(4)

    def look(datums, settles):
        start.wait()
        return [datum.settle() if settles else datum.loss_fn_inputs for datum in datums]

    datums = [made_of_arrays() for _ in range(2000)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            looks = [pool.submit(look, datums, settles) for settles in (True, False) * 2]
            found = [look.result() for look in looks]
    finally:
        sys.setswitchinterval(interval)
    for datum, *inputs in zip(datums, *found, strict=True):
        assert all(each is datum.loss_fn_inputs for each in inputs)
        assert all(tensor.array.base is None for tensor in datum.loss_fn_inputs.values())


def test_arrays_in_pieces_or_of_other_types_are_converted_at_once():
    """M9: a mistake is found where the datum is made, and what is copied is copied there."""
    strided, wide = np.arange(8)[::2], np.arange(4.0)
    datum = Datum(INPUT, {"target_tokens": strided, "weights": wide})
    strided[:] = wide[:] = 9
    assert datum.loss_fn_inputs["target_tokens"].tolist() == [0, 2, 4, 6]
    assert datum.loss_fn_inputs["weights"].tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInputError, match="uint8"):
        Datum(INPUT, {"target_tokens": np.arange(2), "mask": np.zeros(2, np.uint8)})


def test_provenance():
    """M9: spans must cover input and targets exactly and come together."""
    prompt = [PromptProvenanceSpan(sequence_id="a", length=1)]
    sampled = [SampledProvenanceSpan(sequence_id="a", offset=3, length=1)]
    datum = Datum(INPUT, {"target_tokens": [2, 3]})
    marked = datum.with_provenance(prompt + sampled, sampled * 2)
    assert marked.model_input_spans == prompt + sampled
    assert marked.loss_fn_input_spans == sampled * 2
    assert datum.model_input_spans is None
    with pytest.raises(ValueError, match="cover 1 of 2"):
        datum.with_provenance(prompt, sampled * 2)
    with pytest.raises(ValueError, match="cover 3 of 2"):
        datum.with_provenance(prompt * 2, sampled * 3)
    with pytest.raises(ValueError, match="both"):
        Datum(INPUT, model_input_spans=prompt)
    with pytest.raises(ValueError, match="target_tokens"):
        Datum(INPUT).with_provenance(prompt * 2, sampled)


@pytest.mark.parametrize("cls", [PromptProvenanceSpan, SampledProvenanceSpan])
@pytest.mark.parametrize(
    "wrong", [{"offset": -1}, {"length": -1}, {"length": "x"}, {"sequence_id": None}]
)
def test_bad_spans(cls, wrong):
    """M30: a span that cannot be is a ValueError, as with the official package."""
    with pytest.raises(InvalidInputError, match=cls.__name__):
        cls(**{"sequence_id": "a", "offset": 0, "length": 1, **wrong})


def test_spans_that_are_no_list():
    """M30: a wrong value is a ValueError."""
    with pytest.raises(InvalidInputError, match="list of spans"):
        Datum(ModelInput.from_ints([1]), {}, 5, 5)
