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


@settings(max_examples=60, deadline=None)
@given(
    noise=st.binary(min_size=1, max_size=400), coding=st.sampled_from(["gzip", "deflate", "zstd"])
)
def test_noise_never_escapes_our_errors(noise: bytes, coding: str) -> None:
    """M28: random bytes end in CorruptError, or are a valid stream by luck."""
    unpacker = inflater_for(coding, 10**6)
    assert unpacker is not None
    try:
        unpacker.feed(noise)
        unpacker.finish()
    except (CorruptError, TooLargeError):
        return
    assert zlib.decompressobj(47 if coding == "gzip" else -15).decompress(noise) is not None


def test_honest_ratio_passes() -> None:
    """M28: 20 MB of equal numbers is honest; more than the ratio allows is not."""
    unpacker = inflater_for("gzip", 10**9)
    assert unpacker is not None
    assert sum(map(len, unpacker.feed(gzip.compress(bytes(20_000_000))))) == 20_000_000
    unpacker = inflater_for("gzip", 10**9)
    assert unpacker is not None
    with pytest.raises(TooLargeError):
        unpacker.feed(gzip.compress(bytes(40_000_000)))
