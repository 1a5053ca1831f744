"""SessionStatus. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, overload

from .. import models
from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

__all__ = ["SessionStatus", "parse_session_status"]

if TYPE_CHECKING:
    SessionStatus: TypeAlias = (
        models.SessionFailed
        | models.SessionCancelled
        | models.ClientSessionFinished
        | models.SessionActive
        | Unknown
    )
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .client_session_finished import ClientSessionFinished
    from .session_active import SessionActive
    from .session_cancelled import SessionCancelled
    from .session_failed import SessionFailed

    return Choice(
        models=(
            SessionFailed,
            SessionCancelled,
            ClientSessionFinished,
            SessionActive,
        )
    )


def __getattr__(name: str) -> Any:
    # The union itself, made when it is first read: its members load with it.
    if name != "SessionStatus":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Union[(*_codec().models, Unknown)]
    return value


@overload
def parse_session_status(raw: Any) -> models.SessionStatus: ...
@overload
def parse_session_status(raw: Any, expected: type[_M]) -> models.SessionStatus | _M: ...
def parse_session_status(raw: Any, expected: type[_M] | None = None) -> models.SessionStatus | _M:
    """Read a SessionStatus: How a session stands. A server may leave the tag out, in which case the keys decide; an
    object that fits several members is then of no known kind. Era 0.36.0 only.

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
        return cast("models.SessionStatus | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("models.SessionStatus", codec.read(raw))
