"""Unpack a compressed reply piece by piece, never past a size an honest reply would have.

A reply may unpack to `RATIO` times its packed size, or to `FLOOR` bytes if that is more, and never
past the caller's limit. Half a megabyte that unpacks to half a gigabyte therefore stops at 24 MB.
"""

from __future__ import annotations

import importlib.util
import zlib
from typing import Any

FLOOR = 24 * 1024 * 1024
RATIO = 48
_PIECE = 1024 * 1024

# One zstd block turns 4 bytes into at most 128 KiB, so a slice this long cannot unpack to more
# than 16 MiB before the size is looked at again.
_ZSTD_SLICE = 512
_ZSTD_WINDOW = 8 * 1024 * 1024

HAS_ZSTD = importlib.util.find_spec("zstandard") is not None
ACCEPT_ENCODING = "gzip, deflate, zstd" if HAS_ZSTD else "gzip, deflate"

_OTHER_CODINGS = frozenset({"br", "compress", "x-compress", "dcb", "dcz", "exi", "zstd"})


class TooLargeError(Exception):
    """The data unpacks to more than is allowed."""


class CorruptError(Exception):
    """The data is not what its Content-Encoding says."""


class Inflater:
    """Takes packed pieces, gives unpacked ones."""

    _stream: Any

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._packed = self._unpacked = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Unpack what arrived, into pieces of at most a few megabytes."""
        raise NotImplementedError

    def finish(self) -> None:
        """Raise CorruptError when the stream is not complete."""
        if not self._stream.eof:
            raise CorruptError("the compressed stream is cut short")

    def _left(self) -> int:
        """How many more unpacked bytes the packed bytes seen so far entitle to."""
        return min(self._limit, max(FLOOR, self._packed * RATIO)) - self._unpacked

    def _spend(self, count: int) -> None:
        self._unpacked += count
        if self._left() < 0:
            raise TooLargeError


class _Zlib(Inflater):
    """gzip (also of several members) and deflate (with or without the zlib header)."""

    def __init__(self, coding: str, limit: int) -> None:
        super().__init__(limit)
        self._gzip = coding == "gzip"
        self._stream = zlib.decompressobj(31 if self._gzip else 15)
        self._first = not self._gzip

    def feed(self, data: bytes) -> list[bytes]:
        self._packed += len(data)
        pieces: list[bytes] = []
        more = True
        while data or more:
            if self._stream.eof:
                if not self._gzip:
                    raise CorruptError("bytes after the end of the compressed stream")
                self._stream = zlib.decompressobj(31)
            out = self._unpack(data)
            self._spend(len(out))
            pieces.append(out)
            data = self._stream.unconsumed_tail or self._stream.unused_data
            # A full piece may have left output inside zlib although all input is consumed.
            more = bool(out) and not self._stream.eof and not data
        return pieces

    def _unpack(self, data: bytes) -> bytes:
        first, self._first = self._first, False
        try:
            out: bytes = self._stream.decompress(data, min(_PIECE, self._left() + 1))
            return out
        except zlib.error as error:
            if not first:
                raise CorruptError(str(error)) from None
        # Some servers send raw deflate under the name `deflate`.
        self._stream = zlib.decompressobj(-15)
        return self._unpack(data)


class _Zstd(Inflater):
    """zstd (also of several frames, RFC 8878 §3), fed in slices too short to unpack to much."""

    def __init__(self, limit: int) -> None:
        import zstandard

        super().__init__(limit)
        self._error = zstandard.ZstdError
        self._open = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj
        self._stream = self._open()

    def feed(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        for start in range(0, len(data), _ZSTD_SLICE):
            piece = data[start : start + _ZSTD_SLICE]
            self._packed += len(piece)
            while piece:
                if self._stream.eof:
                    self._stream = self._open()
                try:
                    out = self._stream.decompress(piece)
                except self._error as error:
                    raise CorruptError(str(error)) from None
                self._spend(len(out))
                pieces.append(out)
                piece = self._stream.unused_data if self._stream.eof else b""
        return pieces


def inflater_for(coding: str, limit: int) -> Inflater | None:
    """Return what unpacks a Content-Encoding to at most `limit` bytes; None for a plain body.

    Raises:
        CorruptError: The coding was not offered by us.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return _Zlib("gzip" if coding != "deflate" else coding, limit)
    if coding == "zstd" and HAS_ZSTD:
        return _Zstd(limit)
    # Anything else may be a key that a server repeats, and this is shown.
    name = repr(coding) if coding in _OTHER_CODINGS else "of this reply"
    raise CorruptError(f"Content-Encoding {name} was not asked for")
