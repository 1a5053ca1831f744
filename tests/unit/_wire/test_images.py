"""Image chunks: every server gets the fields of its era."""

from __future__ import annotations

import struct
import zlib

import orjson
import pytest
from tinker_proto import tinker_pb2 as pb

from tinker_ext import Datum, ModelInput
from tinker_ext._wire import json_codec, proto_codec
from tinker_ext._wire.json_codec import pixel_size
from tinker_ext.errors import InvalidInputError
from tinker_ext.types import ImageAssetPointerChunk, ImageChunk


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def jpeg(width: int, height: int) -> bytes:
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(9)
    table = b"\xff\xc4\x00\x05\x01\x02\x03"
    frame = b"\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", height, width) + bytes(4)
    return start + table + frame


def written(chunk, sized):
    prompt = ModelInput(chunks=[chunk])
    (one,) = json_codec.model_input_json(prompt, sized)["chunks"]
    return {name: value for name, value in one.items() if name not in ("data", "format", "type")}


OLD = ImageChunk(data=png(5, 4), format="png", height=4, width=5, tokens=7)
NEW = ImageChunk(data=png(5, 4), format="png", expected_tokens=7)


def test_each_era_gets_its_own_fields():
    """F14: what was set for one era is translated for the other."""
    for chunk in (OLD, NEW):
        assert written(chunk, True) == {"height": 4, "width": 5, "tokens": 7}
        assert written(chunk, False) == {"expected_tokens": 7}
    assert written(OLD, None) == {"height": 4, "width": 5, "tokens": 7}
    assert written(ImageChunk(data=b"x", format="png"), False) == {}


@pytest.mark.parametrize("chunk", [OLD, NEW])
def test_the_number_of_tokens_is_not_lost_on_protobuf(chunk):
    """F14: tokens of the first era are the expected tokens of the second."""
    one = Datum(ModelInput(chunks=[chunk]), {"target_tokens": [1] * 7})
    sent = proto_codec.encode_forward("M", [one], "x", None, forward_only=False)
    message = pb.ForwardBackwardRequest.FromString(sent.render(1))
    assert message.data[0].model_input[0].image.expected_tokens == 7


def test_training_bodies_too():
    """F14: forward_backward over JSON has the fields of the era."""
    one = Datum(ModelInput(chunks=[NEW]), {"target_tokens": [1] * 7})
    sent = json_codec.encode_forward("M", [one], "x", None, forward_only=True, sized_images=True)
    (chunk,) = orjson.loads(sent.render(1))["forward_input"]["data"][0]["model_input"]["chunks"]
    assert (chunk["height"], chunk["width"], chunk["tokens"]) == (4, 5, 7)


def test_a_size_nobody_knows_is_asked_for():
    """F14: the error names the fields that are missing."""
    pointer = ImageAssetPointerChunk(location="gs://a", format="png", expected_tokens=3)
    with pytest.raises(
        InvalidInputError, match=r"needs height, width of every Image\w+; set them on"
    ):
        written(pointer, True)
    with pytest.raises(InvalidInputError, match="needs tokens of every ImageChunk; set it"):
        written(ImageChunk(data=png(1, 1), format="png"), True)
    assert written(pointer, False) == {"location": "gs://a", "expected_tokens": 3}


@pytest.mark.parametrize("make", [png, jpeg])
def test_sizes_are_read_from_the_image(make):
    """F14: height and width stand in the header of the file."""
    assert pixel_size(make(640, 480)) == (480, 640)
    for cut in range(len(make(640, 480))):
        assert pixel_size(make(640, 480)[:cut]) in (None, (480, 640))


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\xff\xd8", b"\xff\xd8\xff\xd9" + bytes(20)])
def test_other_files_have_no_size(data):
    """F14: what is not a header is not read as one."""
    assert pixel_size(data) is None
