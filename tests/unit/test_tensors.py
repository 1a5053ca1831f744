"""Conversion to the two wire dtypes."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError, UnknownKeyError


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
def test_every_float_becomes_float32(dtype):
    """M7: any float width is float32 on the wire."""
    array = tensors.to_array(np.array([0.5, -1.0], dtype=dtype))
    assert array.dtype == np.float32
    assert array.tolist() == [0.5, -1.0]


class Registered(np.ndarray):
    """An array whose dtype another package has registered, as ml_dtypes does its own."""

    class dtype:
        kind, name = "V", "bfloat16"

    def astype(self, wanted):
        return np.array([0.5, -1.0], wanted)


def test_bfloat16_of_another_package_becomes_float32():
    """M7: numpy itself calls it bytes without a meaning, which are refused."""
    array = tensors.to_array(np.zeros(2, np.float32).view(Registered))
    assert array.dtype == np.float32
    assert array.tolist() == [0.5, -1.0]
    with pytest.raises(InvalidInputError):
        tensors.to_array(np.zeros(2, "V2"))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_every_signed_int_becomes_int64(dtype):
    """M7: signed integers are int64 on the wire."""
    array = tensors.to_array(np.array([1, -1], dtype=dtype))
    assert array.dtype == np.int64
    assert array.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (np.array([True]), "astype"),
        (np.array([1], dtype=np.uint8), r"astype\(np.int64\)"),
        (np.array([1], dtype=np.uint64), "astype"),
        ([np.uint16(1), np.uint16(2)], r"uint16 .*astype\(np.int64\)"),
        ([True, False], "astype"),
        (np.array([1, 2], dtype=object), r"astype\(np.int64\)"),
        (np.array([1, 2**63], dtype=object), "outside the range"),
        (np.array([1j]), "real part"),
        (["a"], "pass numbers"),
        ([None], "every value a number"),
        ([[1], [2, 3]], "inhomogeneous"),
        ("12", "expected numbers"),
        (None, "expected numbers"),
    ],
)
def test_what_cannot_travel_is_refused_with_the_fix(value, fix):
    """M7 F31: bool, unsigned and non-numbers are refused and the message names the way out."""
    with pytest.raises(InvalidInputError, match=fix):
        tensors.to_array(value)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([2**63], "int64"),
        ([-(2**63) - 1], "int64"),
        ([2**70], "int64"),
        ([1e39], "float32"),
        (np.array([-1e300]), "float32"),
        ([1.5], "int64"),
        ([float("nan")], "int64"),
        ([1e19], "int64"),
    ],
)
def test_out_of_range(value, dtype):
    """M7: a value that does not fit is refused, never wrapped, rounded or made infinite."""
    with pytest.raises(InvalidInputError):
        tensors.to_array(value, dtype)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (np.float64(3.0), ()),
        (np.ones(()), ()),
        (np.ones((0,)), (0,)),
        (np.ones((2, 0, 3)), (2, 0, 3)),
        (np.ones((4, 6))[::2, ::3], (2, 2)),
        (np.asfortranarray(np.ones((2, 3))), (2, 3)),
        (range(4), (4,)),
        ((1, 2), (2,)),
        ([], (0,)),
        ([[], []], (2, 0)),
    ],
)
def test_shapes(value, shape):
    """M7: 0-d, empty, strided and n-d values work and come out contiguous."""
    array = tensors.to_array(value)
    assert array.shape == shape
    assert array.flags.c_contiguous


def test_the_result_shares_no_memory():
    """M9: what is passed in is copied."""
    source = np.arange(3)
    copy = tensors.to_array(source)
    source[0] = 9
    assert copy.tolist() == [0, 1, 2]


def test_byte_order_is_native():
    """M7: a big-endian array is converted, not reinterpreted."""
    assert tensors.to_array(np.array([1, 2], dtype=">i4")).tolist() == [1, 2]


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)))
def test_float32_is_unchanged(array):
    """M8: float32 travels bit for bit, NaN and infinities included."""
    assert tensors.to_array(array).tobytes() == np.ascontiguousarray(array).tobytes()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_int_lists_are_exact(values):
    """M8: integers of the whole int64 range survive."""
    assert tensors.to_array(values, "int64").tolist() == values


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_float_lists_are_exact(values):
    """M8: float32 values given as Python floats survive."""
    assert tensors.to_array(values, "float32").tolist() == values


@pytest.mark.parametrize("key", sorted(tensors.LIST_DTYPES))
def test_list_dtype_by_key(key):
    """M9: the dtype of a list comes from its name."""
    expected = "int64" if key == "target_tokens" else "float32"
    assert tensors.list_dtype(key) == expected


def test_unknown_key_lists_the_known_ones():
    """M9: an unknown name is an error that shows the known names."""
    with pytest.raises(UnknownKeyError, match="target_tokens") as caught:
        tensors.list_dtype("wieghts")
    assert isinstance(caught.value, KeyError)
    assert "did you mean 'weights'?" in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_check_finite_names_the_place(bad):
    """M7: values JSON cannot carry fail before sending and the position is named."""
    with pytest.raises(InvalidInputError, match="position 2"):
        tensors.check_finite(np.array([1, 2, bad], dtype=np.float32))


def test_check_finite_accepts_large_and_integer_values():
    """M7: finite values whose float32 sum would overflow are fine."""
    tensors.check_finite(np.full(4, np.finfo(np.float32).max, dtype=np.float32))
    tensors.check_finite(np.array([2**62]))
    tensors.check_finite(np.array([], dtype=np.float32))


def test_no_torch_is_imported(monkeypatch):
    """M39: a conversion never imports torch (here the import would raise)."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert tensors.is_torch(np.ones(1)) is False
    assert tensors.to_array(np.ones(1)).tolist() == [1.0]


def test_unknown_dtype():
    """M7: only two dtypes exist."""
    with pytest.raises(InvalidInputError, match="int64, float32"):
        tensors.to_array([1], "float64")


NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.booleans(),
    st.sampled_from([None, "1", 2**63, 2**32, -1, 1e39, 3.5e38, 2.0]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.sampled_from(tensors.DTYPES))
def test_lists_are_read_as_numpy_reads_them(values, dtype):
    """M7: the fast way for plain numbers takes and refuses what the careful one does."""

    def outcome(given):
        try:
            return tensors.to_array(given, dtype).tobytes()
        except InvalidInputError:
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "pack", lambda *_: None)
        careful = outcome(values)
    # numpy makes objects of integers beyond int64, and of some mixtures with booleans.
    odd = any(type(n) is int and not -(2**63) <= n < 2**63 for n in values)
    if (dtype == "float32" and odd) or (careful is None and {bool} < set(map(type, values))):
        return
    assert outcome(values) == careful


@pytest.mark.parametrize("value", [-(2.0**63), 2.0**62, 0.0])
def test_whole_floats_up_to_the_edge_of_int64(value):
    """M7: the smallest int64 is one, as a float too; the next float below it is refused."""
    assert tensors.to_array([value], "int64").tolist() == [int(value)]
    with pytest.raises(InvalidInputError):
        tensors.to_array([-(2.0**63) - 2048.0], "int64")
    with pytest.raises(InvalidInputError):
        tensors.to_array([2.0**63], "int64")
