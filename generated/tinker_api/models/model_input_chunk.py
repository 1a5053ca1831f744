"""ModelInputChunk. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, overload

from .. import models
from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

__all__ = ["ModelInputChunk", "parse_model_input_chunk"]

if TYPE_CHECKING:
    ModelInputChunk: TypeAlias = (
        models.EncodedTextChunk
        | models.ImageChunk
        | models.ImageAssetPointerChunk
        | models.DmelChunk
        | Unknown
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


def __getattr__(name: str) -> Any:
    # The union itself, made when it is first read: its members load with it.
    if name != "ModelInputChunk":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Union[(*_codec().models, Unknown)]
    return value


@overload
def parse_model_input_chunk(raw: Any) -> models.ModelInputChunk: ...
@overload
def parse_model_input_chunk(raw: Any, expected: type[_M]) -> models.ModelInputChunk | _M: ...
def parse_model_input_chunk(
    raw: Any, expected: type[_M] | None = None
) -> models.ModelInputChunk | _M:
    """Read a ModelInputChunk: One piece of a model input. Era 0.36.0 always sends the tag; era 0.4.1 leaves it out, and
    the piece is then known by its keys: tokens as an array, data, or location.

    Args:
        raw: The JSON value.
        expected: The result that is awaited: what the decoding order does not decide is read with
            this class or refused. It may be a class outside the union.

    Returns:
        A member. Without `expected` it is `Unknown` when it cannot be told which member it is.

    Raises:
        ParseError: The object names its class but does not fit it, or it is not the awaited one: it
            has the tag or the keys of another member, an undocumented tag or state, or nothing of
            what the awaited class has.
    """
    codec = _codec()
    if expected is not None:
        if type(raw) is not dict:
            raise ParseError(f"expected an object, found {type(raw).__name__}")
        return cast("models.ModelInputChunk | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("models.ModelInputChunk", codec.read(raw))
