"""Image chunks in the fields of each server era; strict servers of one refuse those of the other.

The first era wants height, width and the number of tokens; the second at most the expected number.
What the user set is translated, and a missing size is read from the image itself.
"""

from __future__ import annotations

from typing import Any

from tinker_ext.errors import InvalidInputError
from tinker_ext.types.chunks import ImageAssetPointerChunk, ImageChunk

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
# Start-of-frame markers hold the size; DHT, JPG and DAC share their range.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset(range(0xD0, 0xD8)) | {0x01}


def declared_tokens(chunk: ImageChunk | ImageAssetPointerChunk) -> int | None:
    """How many tokens the user says an image takes, whichever era's field it was put in."""
    return chunk.tokens if chunk.expected_tokens is None else chunk.expected_tokens


def era_fields(chunk: ImageChunk | ImageAssetPointerChunk, *, sized: bool) -> dict[str, int]:
    """The numbers that describe an image to a server.

    Args:
        chunk: The image.
        sized: Whether the server is of the first era.

    Raises:
        InvalidInputError: The server needs a number that neither the user gave nor the image has.
    """
    tokens = declared_tokens(chunk)
    if not sized:
        return {} if tokens is None else {"expected_tokens": tokens}
    height, width = chunk.height, chunk.width
    if (height is None or width is None) and isinstance(chunk, ImageChunk):
        found = pixel_size(chunk.data)
        if found is not None:
            height, width = height or found[0], width or found[1]
    fields = {"height": height, "width": width, "tokens": tokens}
    missing = [name for name, value in fields.items() if value is None]
    if missing:
        raise InvalidInputError(
            f"This server needs {', '.join(missing)} of every {type(chunk).__name__}; set "
            f"{'them' if len(missing) > 1 else 'it'} on the chunk."
        )
    return {name: value for name, value in fields.items() if value is not None}


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """Height and width from the header of a PNG or JPEG file; None when they are not there."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    if not data.startswith(_JPEG):
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:  # fill bytes, and markers without content
            at += 1 if marker == 0xFF else 2
        elif marker in _FRAMES:
            sizes = data[at + 5 : at + 9]
            return int.from_bytes(sizes[:2], "big"), int.from_bytes(sizes[2:], "big")
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def given_fields(chunk: ImageChunk | ImageAssetPointerChunk) -> dict[str, Any]:
    """The numbers that the user set, as they are: nobody knows the server's era."""
    names = ("expected_tokens", "height", "width", "tokens")
    return {name: value for name in names if (value := getattr(chunk, name)) is not None}
