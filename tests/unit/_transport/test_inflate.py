"""Unpacking in pieces gives what unpacking at once gives."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tinker_ext._transport import inflate
from tinker_ext._transport.inflate import CorruptError, TooLargeError, inflater_for


@settings(max_examples=100, deadline=None)
@given(
    plain=st.one_of(st.binary(max_size=3000), st.binary(max_size=20).map(lambda b: b * 200)),
    coding=st.sampled_from(["gzip", "deflate", "raw", "zstd"]),
    piece=st.integers(1, 700),
    room=st.integers(1, 300),
)
def test_any_split_unpacks_the_same(plain: bytes, coding: str, piece: int, room: int) -> None:
    """M28: however the network cuts the bytes, the content is the same."""
    packer = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(plain),
        "deflate": zlib.compress(plain),
        "raw": packer.compress(plain) + packer.flush(),
        "zstd": zstandard.compress(plain),
    }[coding]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inflate, "_PIECE", room)
        unpacker = inflater_for("deflate" if coding == "raw" else coding, 10**6)
        assert unpacker is not None
        # The first bytes tell deflate with a header from deflate without one: keep two together.
        cuts = [packed[:2], *(packed[i : i + piece] for i in range(2, len(packed), piece))]
        out = b"".join(part for cut in cuts for part in unpacker.feed(cut))
        unpacker.finish()
    assert out == plain


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Random bytes, or a packed text with one byte changed, some cut off or some added."""
    coding = draw(st.sampled_from(["gzip", "deflate", "zstd"]))
    if draw(st.booleans()):
        return coding, draw(st.binary(min_size=1, max_size=400))
    plain = draw(st.binary(max_size=200))
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}
    packed = bytearray(pack[coding](plain))
    packed[draw(st.integers(0, len(packed) - 1))] ^= draw(st.integers(0, 255))
    return coding, bytes(packed[: draw(st.integers(1, len(packed)))]) + draw(st.binary(max_size=3))


def unpacked_at_once(coding: str, data: bytes) -> bytes:
    """What the library makes of a complete stream; anything else is an error."""
    if coding == "zstd":
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=10**6)
    if coding == "gzip":
        return gzip.decompress(data)
    try:
        return zlib.decompress(data)
    except zlib.error:
        return zlib.decompress(data, wbits=-15)


@settings(max_examples=200, deadline=None)
@given(case=damaged())
def test_damage_is_told_or_harmless(case: tuple[str, bytes]) -> None:
    """M28: damaged data ends in an error of ours, or gives what the library itself reads."""
    coding, data = case
    unpacker = inflater_for(coding, 10**6)
    assert unpacker is not None
    try:
        out = b"".join(unpacker.feed(data))
        unpacker.finish()
    except (CorruptError, TooLargeError):
        return
    assert out == unpacked_at_once(coding, data)


def test_honest_ratio_passes() -> None:
    """M28: 20 MB of equal numbers is honest; more than the ratio allows is not."""
    unpacker = inflater_for("gzip", 10**9)
    assert unpacker is not None
    assert sum(map(len, unpacker.feed(gzip.compress(bytes(20_000_000))))) == 20_000_000
    unpacker = inflater_for("gzip", 10**9)
    assert unpacker is not None
    with pytest.raises(TooLargeError):
        unpacker.feed(gzip.compress(bytes(40_000_000)))
