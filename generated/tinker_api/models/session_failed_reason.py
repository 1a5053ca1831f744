"""SessionFailedReason. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

if TYPE_CHECKING:
    from .session_failed_request_reason import SessionFailedRequestReason
    from .session_failed_sampling_session_reason import SessionFailedSamplingSessionReason
    from .session_failed_training_run_reason import SessionFailedTrainingRunReason

__all__ = ["SessionFailedReason", "parse_session_failed_reason"]

SessionFailedReason: TypeAlias = "SessionFailedRequestReason | SessionFailedTrainingRunReason | SessionFailedSamplingSessionReason | Unknown"
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .session_failed_request_reason import SessionFailedRequestReason
    from .session_failed_sampling_session_reason import SessionFailedSamplingSessionReason
    from .session_failed_training_run_reason import SessionFailedTrainingRunReason

    return Choice(
        models=(
            SessionFailedRequestReason,
            SessionFailedTrainingRunReason,
            SessionFailedSamplingSessionReason,
        )
    )


@overload
def parse_session_failed_reason(raw: Any) -> SessionFailedReason: ...
@overload
def parse_session_failed_reason(raw: Any, expected: type[_M]) -> SessionFailedReason | _M: ...
def parse_session_failed_reason(
    raw: Any, expected: type[_M] | None = None
) -> SessionFailedReason | _M:
    """Read a SessionFailedReason: What made a session fail. Era 0.36.0 only.

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
        return cast("SessionFailedReason | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("SessionFailedReason", codec.read(raw))
