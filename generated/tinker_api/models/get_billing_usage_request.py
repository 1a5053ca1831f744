"""GetBillingUsageRequest. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    MOMENT,
)

__all__ = ["GetBillingUsageRequest"]


@frozen(kw_only=True, getstate_setstate=False)
class GetBillingUsageRequest(Model):
    """Period of a usage report. Sent as query parameters, not as a body. Era 0.36.0 only.

    Attributes:
        starting_on: Start of the period: a full hour in UTC, not in the future.
        ending_before: End of the period: a full hour in UTC, at most 14 days after the start.
    """

    starting_on: datetime.datetime
    ending_before: datetime.datetime
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("starting_on", "starting_on", MOMENT, required=True),
            Field("ending_before", "ending_before", MOMENT, required=True),
        )
