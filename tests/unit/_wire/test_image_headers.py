"""Where the size of an image stands in its file: every marker before it, every byte of it."""

import struct

import pytest

from tinker_ext._wire.json_codec import pixel_size

FRAME = b"\x00\x0b\x08" + struct.pack(">HH", 480, 640)
FRAMES = [0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF]
BARE = [0x01, *range(0xD0, 0xD8)]


def segment(marker, body=b"\xff\xc0" + FRAME):
    """A part with a length, whose content looks like a frame."""
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def test_a_png_needs_its_first_24_bytes():
    """F14: not one less, and no more."""
    whole = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + struct.pack(">II", 640, 480)
    assert len(whole) == 24
    assert pixel_size(whole) == (480, 640)
    assert pixel_size(whole[:23]) is None
    large = whole[:16] + struct.pack(">II", 0x01020304, 0x05060708)
    assert pixel_size(large) == (0x05060708, 0x01020304)
    assert pixel_size(whole.replace(b"IHDR", b"IDAT")) is None
    assert pixel_size(b"\x88" + whole[1:]) is None


@pytest.mark.parametrize("marker", FRAMES)
def test_every_start_of_a_frame_has_the_size(marker):
    """F14: baseline, progressive, lossless, arithmetic; and it may be the end of what we have."""
    data = b"\xff\xd8" + bytes((0xFF, marker)) + FRAME
    assert pixel_size(data) == (480, 640)
    assert pixel_size(data[:-1]) is None


@pytest.mark.parametrize("marker", [0xC4, 0xC8, 0xCC, 0xDA, 0xDB, 0xE0, 0xFE])
def test_other_parts_are_passed_over(marker):
    """F14: tables and comments are as long as they say, whatever is in them."""
    data = b"\xff\xd8" + segment(marker, b"\xff\xc0" + bytes(9)) + b"\xff\xc0" + FRAME
    assert pixel_size(data) == (480, 640)


@pytest.mark.parametrize("marker", BARE)
def test_markers_without_content_are_two_bytes(marker):
    """F14: restart markers and fill bytes have no length."""
    for filled in (b"", b"\xff", b"\xff\xff"):
        data = b"\xff\xd8" + bytes((0xFF, marker)) + filled + b"\xff\xc0" + FRAME
        assert pixel_size(data) == (480, 640)


def test_what_does_not_begin_with_a_marker_has_no_size():
    """F14: a damaged file is not searched."""
    assert pixel_size(b"\xff\xd8\x00\xc0" + FRAME + bytes(20)) is None
    assert pixel_size(b"\xff\xd8" + segment(0xE0)[:-3] + b"\xff\xc0" + FRAME) is None
