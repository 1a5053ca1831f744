"""ModelInputChunk. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

if TYPE_CHECKING:
    from .dmel_chunk import DmelChunk
    from .encoded_text_chunk import EncodedTextChunk
    from .image_asset_pointer_chunk import ImageAssetPointerChunk
    from .image_chunk import ImageChunk

__all__ = ["ModelInputChunk", "parse_model_input_chunk"]

ModelInputChunk: TypeAlias = (
    "EncodedTextChunk | ImageChunk | ImageAssetPointerChunk | DmelChunk | Unknown"
)
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .dmel_chunk import DmelChunk
    from .encoded_text_chunk import EncodedTextChunk
    from .image_asset_pointer_chunk import ImageAssetPointerChunk
    from .image_chunk import ImageChunk

    return Choice(
        models=(
            EncodedTextChunk,
            ImageChunk,
            ImageAssetPointerChunk,
            DmelChunk,
        )
    )


@overload
def parse_model_input_chunk(raw: Any) -> ModelInputChunk: ...
@overload
def parse_model_input_chunk(raw: Any, expected: type[_M]) -> ModelInputChunk | _M: ...
def parse_model_input_chunk(raw: Any, expected: type[_M] | None = None) -> ModelInputChunk | _M:
    """Read a ModelInputChunk: One piece of a model input. Era 0.36.0 always sends the tag; era 0.4.1 leaves it out, and
    the piece is then known by its keys: tokens as an array, data, or location.

    Args:
        raw: The JSON value.
        expected: Class to read an object with when neither the decoding order nor a tag of its own
            decides. It may be a class outside the union.

    Returns:
        A member, or `Unknown` when it cannot be told which member it is.

    Raises:
        ParseError: The object names its class, or is expected to be one, but does not fit it.
    """
    codec = _codec()
    if expected is not None:
        if type(raw) is not dict:
            raise ParseError(f"expected an object, found {type(raw).__name__}")
        return cast("ModelInputChunk | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("ModelInputChunk", codec.read(raw))
