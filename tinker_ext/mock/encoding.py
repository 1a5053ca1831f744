"""Compressed request bodies, opened within a bound."""

from __future__ import annotations

import zlib

from tinker_ext.mock.messages import HttpError, Request

LIMIT = 64 << 20
WINDOW = 8 << 20
"""Bytes of history a zstd body may refer to; the largest every decoder has to support."""
STEP = 1024
"""Compressed bytes opened at once. A block of four bytes may stand for 128 KiB, so that one step
yields 32 MiB at most."""


def decoded(request: Request, limit: int = LIMIT) -> bytes:
    """Return the request body without its content encoding.

    Args:
        request: A request whose body may be compressed.
        limit: Bytes the opened body may have; no more than that is ever kept.

    Raises:
        HttpError: 422 for an unknown encoding, a broken body or one of more than `limit` bytes.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity") or request.replayed:
        return request.body
    try:
        if encoding == "zstd":
            return _zstd(request.body, limit)
        if encoding in ("gzip", "deflate"):
            opened = zlib.decompressobj(wbits=47)
            body = opened.decompress(request.body, limit)
            if opened.unconsumed_tail or not opened.eof:
                raise ValueError(f"incomplete, or more than {limit} bytes")
            if opened.unused_data:
                raise ValueError("there is more after its end")
            return body
    except (ValueError, zlib.error) as error:
        raise _fault(f"the {encoding} body cannot be opened: {error}") from None
    raise _fault(f"content encoding {encoding!r} is unknown; send zstd, gzip or none")


def _zstd(body: bytes, limit: int) -> bytes:
    import zstandard

    parts: list[bytes] = []
    size = 0
    try:
        opened = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        for at in range(0, len(body), STEP):
            part = opened.decompress(body[at : at + STEP])
            size += len(part)
            if size > limit:
                raise ValueError(f"more than {limit} bytes")
            parts.append(part)
            if opened.eof:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if not opened.eof:
        raise ValueError("incomplete")
    if opened.unused_data or at + STEP < len(body):
        raise ValueError("there is more after its end")
    return b"".join(parts)


def _fault(text: str) -> HttpError:
    where = ["header", "content-encoding"]
    return HttpError(422, [{"loc": where, "msg": text, "type": "encoding"}])
