"""BillingEventInfo. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast, overload

from .. import models
from ..base import Model
from ..codec import Choice
from ..errors import ParseError
from ..types import Unknown

__all__ = ["BillingEventInfo", "parse_billing_event_info"]

if TYPE_CHECKING:
    BillingEventInfo: TypeAlias = (
        models.TrainingBillingEvent
        | models.SamplingPrefillBillingEvent
        | models.SamplingSampleBillingEvent
        | models.CheckpointBillingEvent
        | models.StorageBillingEvent
        | Unknown
    )
_M = TypeVar("_M", bound=Model)


@cache
def _codec() -> Choice:
    from .checkpoint_billing_event import CheckpointBillingEvent
    from .sampling_prefill_billing_event import SamplingPrefillBillingEvent
    from .sampling_sample_billing_event import SamplingSampleBillingEvent
    from .storage_billing_event import StorageBillingEvent
    from .training_billing_event import TrainingBillingEvent

    return Choice(
        models=(
            TrainingBillingEvent,
            SamplingPrefillBillingEvent,
            SamplingSampleBillingEvent,
            CheckpointBillingEvent,
            StorageBillingEvent,
        )
    )


def __getattr__(name: str) -> Any:
    # The union itself, made when it is first read: its members load with it.
    if name != "BillingEventInfo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Union[(*_codec().models, Unknown)]
    return value


@overload
def parse_billing_event_info(raw: Any) -> models.BillingEventInfo: ...
@overload
def parse_billing_event_info(raw: Any, expected: type[_M]) -> models.BillingEventInfo | _M: ...
def parse_billing_event_info(
    raw: Any, expected: type[_M] | None = None
) -> models.BillingEventInfo | _M:
    """Read a BillingEventInfo: Kind and amount of a usage. A server may leave the tag out, in which case the keys decide;
    an object that fits several members is then of no known kind. Era 0.36.0 only.

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
        return cast("models.BillingEventInfo | _M", codec.decided(raw, expected).from_dict(raw))
    return cast("models.BillingEventInfo", codec.read(raw))
