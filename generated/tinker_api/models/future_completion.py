"""FutureCompletion. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

if TYPE_CHECKING:
    from .future_failed import FutureFailed
    from .future_finished import FutureFinished

__all__ = ["FutureCompletion", "parse_future_completion"]

FutureCompletion: TypeAlias = "FutureFinished | FutureFailed | Unknown"
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .future_failed import FutureFailed
    from .future_finished import FutureFinished

    return Choice(
        models=(
            FutureFinished,
            FutureFailed,
        )
    )


@overload
def parse_future_completion(raw: Any) -> FutureCompletion: ...
@overload
def parse_future_completion(raw: Any, expected: type[_M]) -> FutureCompletion | _M: ...
def parse_future_completion(raw: Any, expected: type[_M] | None = None) -> FutureCompletion | _M:
    """Read a FutureCompletion: A request that has ended, well or badly. Era 0.36.0 only.

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
        return cast("FutureCompletion | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("FutureCompletion", codec.read(raw))
