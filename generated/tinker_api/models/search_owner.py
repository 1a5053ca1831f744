"""SearchOwner. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

if TYPE_CHECKING:
    from .accessible_search_owner import AccessibleSearchOwner
    from .own_search_owner import OwnSearchOwner
    from .user_search_owner import UserSearchOwner

__all__ = ["SearchOwner", "parse_search_owner"]

SearchOwner: TypeAlias = "OwnSearchOwner | AccessibleSearchOwner | UserSearchOwner | Unknown"
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .accessible_search_owner import AccessibleSearchOwner
    from .own_search_owner import OwnSearchOwner
    from .user_search_owner import UserSearchOwner

    return Choice(
        models=(
            OwnSearchOwner,
            AccessibleSearchOwner,
            UserSearchOwner,
        )
    )


@overload
def parse_search_owner(raw: Any) -> SearchOwner: ...
@overload
def parse_search_owner(raw: Any, expected: type[_M]) -> SearchOwner | _M: ...
def parse_search_owner(raw: Any, expected: type[_M] | None = None) -> SearchOwner | _M:
    """Read a SearchOwner: Whose sessions to search. Era 0.36.0 only.

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
        return cast("SearchOwner | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("SearchOwner", codec.read(raw))
