"""Unpacking in pieces gives what unpacking at once gives."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tinker_ext._transport import inflate
from tinker_ext._transport.inflate import CorruptError, TooLargeError, inflater_for


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


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_zstd_of_several_frames_is_whole(piece: int) -> None:
    """F31: RFC 8878 §3 allows several frames; all but the first were dropped without a word."""
    parts = [b"one" * 500, b"", b"two" * 700, b"three"]
    packed = b"".join(zstandard.compress(part) for part in parts)
    packed += b"\x50\x2a\x4d\x18\x03\x00\x00\x00xyz"  # a skippable frame says nothing
    unpacker = inflater_for("zstd", 10**6)
    assert unpacker is not None
    cuts = [packed[at : at + piece] for at in range(0, len(packed), piece)]
    assert b"".join(out for cut in cuts for out in unpacker.feed(cut)) == b"".join(parts)
    unpacker.finish()


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize(
    "rest", [b"garbage", b"\x00", b"\x28\xb5\x2f", zstandard.compress(b"x")[:-1]]
)
def test_zstd_with_something_behind_it_is_refused(rest: bytes, piece: int) -> None:
    """F31: neither garbage nor a frame that is cut short is passed over."""
    packed = zstandard.compress(b"plain" * 100) + rest
    unpacker = inflater_for("zstd", 10**6)
    assert unpacker is not None

    def unpack() -> None:
        for at in range(0, len(packed), piece):
            unpacker.feed(packed[at : at + piece])
        unpacker.finish()

    with pytest.raises(CorruptError):
        unpack()


def test_zstd_frames_share_one_allowance() -> None:
    """F31: many frames may not unpack to more together than one may."""
    packed = zstandard.compress(bytes(400_000)) * 400
    unpacker = inflater_for("zstd", 10**9)
    assert unpacker is not None
    with pytest.raises(TooLargeError):
        unpacker.feed(packed)


def test_a_zstd_reply_that_unpacks_to_much_is_refused_soon() -> None:
    """M28: four bytes may stand for 128 KB; no more than 16 MB are made of them at a time."""
    header = b"\x28\xb5\x2f\xfd\x00\x58"
    repeated = (131_072 << 3 | 0b010).to_bytes(3, "little") + b"\x00"
    unpacker = inflater_for("zstd", 10**6)
    assert unpacker is not None
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            unpacker.feed(header + repeated * 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


def test_a_zstd_window_beyond_ours_is_refused() -> None:
    """M28: a header that asks for a window of 128 MB gets none of it."""
    params = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=params).compressobj()
    packed = stream.compress(b"x" * 100) + stream.flush()
    unpacker = inflater_for("zstd", 10**9)
    assert unpacker is not None
    with pytest.raises(CorruptError):
        unpacker.feed(packed)


def test_an_unknown_coding_is_not_quoted():
    """M33: a server may put the key there that it was sent, and the error is shown."""
    with pytest.raises(CorruptError) as caught:
        inflater_for("tml-0123456789abcdef", 10**6)
    assert "tml-" not in str(caught.value)
    with pytest.raises(CorruptError, match="'br'"):
        inflater_for("br", 10**6)


PACKERS = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("coding", PACKERS)
def test_a_reply_may_be_as_large_as_its_limit_and_no_larger(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M28: the caller's limit, the floor and the ratio are each kept to the byte."""

    def fits(plain: bytes, limit: int) -> bool:
        unpacker = inflater_for(coding, limit)
        assert unpacker is not None
        try:
            assert b"".join(unpacker.feed(PACKERS[coding](plain))) == plain
        except TooLargeError:
            return False
        unpacker.finish()
        return True

    assert (fits(bytes(1000), 1000), fits(bytes(1001), 1000)) == (True, False)
    monkeypatch.setattr(inflate, "FLOOR", 1000)
    monkeypatch.setattr(inflate, "RATIO", 0)
    assert (fits(bytes(1000), 9999), fits(bytes(1001), 9999)) == (True, False)
    monkeypatch.setattr(inflate, "FLOOR", 0)
    monkeypatch.setattr(inflate, "RATIO", 2)
    noise = random.Random(1).randbytes(400)
    size = next(
        count
        for count in range(400, 2000)
        if count >= 2 * len(PACKERS[coding](filled(noise, count)))
    )
    assert size == 2 * len(PACKERS[coding](filled(noise, size)))
    assert (fits(filled(noise, size), 9999), fits(filled(noise, size + 1), 9999)) == (True, False)


def filled(noise: bytes, count: int) -> bytes:
    """So many bytes, of which only the first are hard to pack."""
    return noise + bytes(count - len(noise))
