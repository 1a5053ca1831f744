"""ModelInput and its chunks."""

import copy
import pickle

import attrs
import numpy as np
import pytest

from tinker_ext.errors import InvalidInputError
from tinker_ext.tokenizers import Tokenizer
from tinker_ext.types import (
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
    ModelInputChunk,
)

PNG = b"\x89PNG"
CHUNKS = [
    EncodedTextChunk(tokens=[1, 2]),
    ImageChunk(data=PNG, format="png", expected_tokens=4),
    ImageAssetPointerChunk(format="jpeg", location="s3://x", expected_tokens=3),
    DmelChunk(dmel=bytes([3, 2, 5, 80])),
]


def test_from_and_to_ints():
    """M10: token ids go in and come out."""
    model_input = ModelInput.from_ints([1, 2])
    assert model_input.to_ints() == [1, 2]
    assert model_input.length == 2
    assert model_input.chunks == [EncodedTextChunk(tokens=[1, 2])]


def test_append_makes_a_new_input():
    """M10: append and append_int leave the original alone."""
    empty = ModelInput.empty()
    longer = empty.append(EncodedTextChunk(tokens=[1])).append_int(2)
    assert empty.chunks == []
    assert longer.to_ints() == [1, 2]
    assert len(longer.chunks) == 2


def test_length_counts_every_chunk():
    """M10: text, image, pointer and audio all count."""
    assert ModelInput(chunks=CHUNKS).length == 2 + 4 + 3 + 5


def test_to_ints_needs_text():
    """M10: an image has no token ids."""
    with pytest.raises(ValueError, match="ImageChunk"):
        ModelInput(chunks=CHUNKS).to_ints()


def test_lists_are_copied():
    """M10: the caller may clear its lists afterwards (RL data processing does)."""
    tokens, chunks = [1, 2], [EncodedTextChunk(tokens=[3])]
    chunk, model_input = EncodedTextChunk(tokens=tokens), ModelInput(chunks=chunks)
    tokens.clear()
    chunks.clear()
    assert chunk.tokens == [1, 2]
    assert model_input.to_ints() == [3]


@pytest.mark.parametrize(
    "tokens",
    [[1, 2], (1, 2), range(1, 3), np.array([1, 2]), np.array([1, 2], dtype=np.int32), [1.0, 2.0]],
)
def test_token_sources(tokens):
    """M10: lists, tuples, ranges and arrays of whole numbers are accepted."""
    chunk = EncodedTextChunk(tokens=tokens)
    assert chunk.tokens == [1, 2]
    assert type(chunk.tokens) is list
    assert type(chunk.tokens[0]) is int


@pytest.mark.parametrize(
    "tokens", ["12", [1.5], [2**63], [[1]], None, ["a"], [None], np.ones((2, 2))]
)
def test_bad_tokens(tokens):
    """M10: anything else fails at the call."""
    with pytest.raises(InvalidInputError):
        EncodedTextChunk(tokens=tokens)


def test_numpy_tokens_are_copied():
    """M10: later writes to the array are not seen."""
    source = np.array([1, 2])
    chunk = EncodedTextChunk(tokens=source)
    source[0] = 9
    assert chunk.tokens == [1, 2]


@pytest.mark.parametrize(
    "chunk", [*CHUNKS, ModelInput(chunks=CHUNKS)], ids=lambda c: type(c).__name__
)
def test_value_semantics(chunk):
    """M10: chunks and inputs pickle, copy, compare, hash and are frozen."""
    again = pickle.loads(pickle.dumps(chunk))
    assert again == chunk == copy.deepcopy(chunk)
    assert hash(again) == hash(chunk)
    assert chunk != 1
    assert [1, chunk] == [1, again]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        chunk.type = "x"


def test_different_tokens_differ():
    """M10: equality looks at the values."""
    assert EncodedTextChunk(tokens=[1]) != EncodedTextChunk(tokens=[2])
    assert EncodedTextChunk(tokens=[1]) != EncodedTextChunk(tokens=[1, 1])


def test_image_of_both_eras():
    """M10: fields of both server eras, bytes or base64."""
    old = ImageChunk(data="iVBORw==", format="png", height=4, width=5, tokens=7)
    assert old.data == b"\x89PNG"
    assert (old.height, old.width, old.length) == (4, 5, 7)
    assert old.serialize_data(old.data) == "iVBORw=="
    assert ImageChunk.validate_data("iVBORw==") == b"\x89PNG"
    assert ImageChunk(data=PNG, format="jpeg", expected_tokens=2).length == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": PNG, "format": "gif"},
        {"data": "%%%", "format": "png"},
        {"data": 5, "format": "png"},
        {"data": PNG, "format": "png", "expected_tokens": -1},
        {"data": PNG, "format": "png", "expected_tokens": 1.5},
        {"data": PNG, "format": "png", "type": "dmel"},
    ],
)
def test_bad_images(arguments):
    """M10: a bad format, coding, count or tag fails at the call."""
    with pytest.raises(InvalidInputError):
        ImageChunk(**arguments)


def test_unknown_keyword():
    """M3: a typo in a field name is refused."""
    with pytest.raises(TypeError):
        ImageChunk(data=PNG, format="png", heigth=3)


def test_image_length_unknown():
    """M10: without a declared number of tokens the length is an error, not a guess."""
    with pytest.raises(ValueError, match="expected_tokens"):
        _ = ModelInput(chunks=[ImageChunk(data=PNG, format="png")]).length


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (bytes([3, 2, 5, 80]), 5),
        (bytes([254, 3, 2, 130, 1, 80]), 130),
        (bytes([0, 1, 0]), 0),
        (bytes([7, 1, 3]), 3),
    ],
)
def test_dmel_length(content, rows):
    """M10: the number of frames is read from the container header."""
    assert DmelChunk(dmel=content).length == rows


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xfe",
        bytes([8, 1, 1]),
        bytes([9, 1, 1]),
        bytes([1, 0]),
        bytes([1, 2]),
        bytes([1, 1, 128]),
    ],
)
def test_broken_dmel(content):
    """M10: a broken header is an error."""
    with pytest.raises(InvalidInputError, match="DmelChunk"):
        _ = DmelChunk(dmel=content).length


def test_chunk_alias_combines_at_import_time():
    """M16: users write `int | ModelInputChunk` in module scope."""
    assert (int | ModelInputChunk).__args__[0] is int


def test_not_a_chunk():
    """M10: bare integers are refused with the fix."""
    with pytest.raises(InvalidInputError, match="from_ints"):
        ModelInput(chunks=[1, 2])


def test_dicts_become_chunks():
    """M30: a dict with the fields of a chunk is one, with or without its type."""
    given = [
        {"type": "encoded_text", "tokens": [1, 2]},
        {"data": "iVBORw==", "format": "png", "tokens": 3},
        {"location": "s3://x", "format": "jpeg", "expected_tokens": 3},
        CHUNKS[0],
        {"type": "dmel", "dmel": bytes([3, 2, 5, 80])},
    ]
    assert ModelInput(chunks=given).chunks == [
        CHUNKS[0],
        ImageChunk(data=PNG, format="png", tokens=3),
        ImageAssetPointerChunk(format="jpeg", location="s3://x", expected_tokens=3),
        CHUNKS[0],
        CHUNKS[3],
    ]
    assert isinstance(given[0], dict)


@pytest.mark.parametrize(
    ("chunks", "told"),
    [
        (None, "expected a list of chunks, got NoneType"),
        (5, "expected a list of chunks, got int"),
        ("ab", "expected a list of chunks, got str"),
        ({"tokens": [1]}, "expected a list of chunks, got dict"),
        ([1, 2], "from_ints"),
        ([CHUNKS[0], {"type": "video"}], r"chunks\[1\].*video.*encoded_text"),
        ([{"type": ["image"]}], r"chunks\[0\]"),
        ([{}], r"chunks\[0\]"),
        ([{"tokens": [1], "txt": "a"}], r"chunks\[0\].*txt"),
        ([{"type": "image", "format": "png"}], r"chunks\[0\].*data"),
        ([{"tokens": ["a"]}], r"chunks\[0\].*tokens"),
        ([{1: 2, "tokens": [1]}], r"chunks\[0\]"),
    ],
)
def test_bad_chunks(chunks, told):
    """M30: a wrong value is a ValueError that says where, as with the official package."""
    with pytest.raises(InvalidInputError, match=told):
        ModelInput(chunks=chunks)


@pytest.mark.parametrize("location", [None, 5, b"s3://x"])
def test_bad_location(location):
    """M30: the place of an image is a text."""
    with pytest.raises(InvalidInputError, match="location"):
        ImageAssetPointerChunk(format="png", location=location)


def test_ids_beyond_the_wire_are_kept_and_told_apart():
    """M10: ids that do not fit 32 bits are an error of the call, not another id."""
    large, small = EncodedTextChunk(tokens=[1, 2**40]), EncodedTextChunk(tokens=[1, 0])
    assert large.tokens == [1, 2**40]
    assert large != small
    assert EncodedTextChunk(tokens=[-1]).tokens == [-1]
    assert EncodedTextChunk(tokens=np.array([2**32 - 1])).tokens == [2**32 - 1]
    assert EncodedTextChunk(tokens=np.array([1, 2])) == EncodedTextChunk(tokens=(1, 2))
    assert EncodedTextChunk(tokens=[1, 2]).array.dtype == np.int64


def test_a_pickle_of_an_earlier_release():
    """M10: ids were an array of int64."""
    chunk = EncodedTextChunk.__new__(EncodedTextChunk)
    chunk.__setstate__({"array": np.array([1, 2]), "type": "encoded_text", "_list": [1, 2]})
    assert chunk == EncodedTextChunk(tokens=[1, 2])
    assert sorted(chunk.__getstate__()) == ["_list", "array", "type"]
    assert attrs.evolve(chunk, tokens=[3]).tokens == [3]


class Letters:
    """A tokenizer with a start token, as transformers' are called."""

    def encode(self, text, add_special_tokens=True):
        return [1] * add_special_tokens + [ord(letter) for letter in text]


def test_from_text():
    """F45: text becomes tokens with the tokenizers people have."""
    assert ModelInput.from_text("ab", Letters()).to_ints() == [1, 97, 98]
    assert ModelInput.from_text("ab", Letters(), add_special_tokens=False).to_ints() == [97, 98]
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"hello": 5, "you": 7}, unk_token="you")
    raw = tokenizers.Tokenizer(words)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    assert ModelInput.from_text("hello you", raw).to_ints() == [5, 7]
    assert ModelInput.from_text("hello you", Tokenizer(raw, "words")).to_ints() == [5, 7]


@pytest.mark.parametrize(("text", "tokenizer"), [([1, 2], Letters()), ("a", None), ("a", "gpt2")])
def test_from_text_says_what_is_wrong(text, tokenizer):
    """F45: swapped or missing arguments fail at the call."""
    with pytest.raises(InvalidInputError, match="from_text"):
        ModelInput.from_text(text, tokenizer)
