"""Compressed request bodies, opened within a bound."""

from __future__ import annotations

import zlib

from tinker_ext.mock.messages import HttpError, Request

LIMIT = 256 << 20


def decoded(request: Request) -> bytes:
    """Return the request body without its content encoding.

    Raises:
        HttpError: 422 for an unknown encoding, a broken body or one of more than 256 MiB.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity") or request.replayed:
        return request.body
    try:
        if encoding == "zstd":
            return _zstd(request.body)
        if encoding in ("gzip", "deflate"):
            opened = zlib.decompressobj(wbits=47)
            body = opened.decompress(request.body, LIMIT)
            if opened.unconsumed_tail or not opened.eof:
                raise ValueError("incomplete, or larger than allowed")
            return body
    except (ValueError, zlib.error) as error:
        raise _fault(f"the {encoding} body cannot be opened: {error}") from None
    raise _fault(f"content encoding {encoding!r} is unknown; send zstd, gzip or none")


def _zstd(body: bytes) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            opened: bytes = reader.read(LIMIT + 1)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if len(opened) > LIMIT:
        raise ValueError("larger than allowed")
    return opened


def _fault(text: str) -> HttpError:
    where = ["header", "content-encoding"]
    return HttpError(422, [{"loc": where, "msg": text, "type": "encoding"}])
