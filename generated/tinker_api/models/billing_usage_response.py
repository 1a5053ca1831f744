"""BillingUsageResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import Factory, field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    MOMENT,
    Array,
    Object,
    Table,
)

__all__ = ["BillingUsageResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class BillingUsageResponse(Model):
    """Usage of the organization in a period. Era 0.36.0 only.

    Attributes:
        data: Usage by hour, user, model and kind.
        sessions: Sessions mentioned in a usage report, by session id. Era 0.36.0 only.
        cost_data_through: Up to when costs are known.
    """

    data: list[models.BillingUsageEvent]
    sessions: dict[str, models.BillingUsageSession] = field(default=Factory(dict))
    cost_data_through: datetime.datetime | None = field(default=None)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .billing_usage_event import BillingUsageEvent
        from .billing_usage_session import BillingUsageSession

        return (
            Field("data", "data", Array(Object(BillingUsageEvent)), required=True),
            Field("sessions", "sessions", Table(Object(BillingUsageSession)), default={}),
            Field("cost_data_through", "cost_data_through", MOMENT, nullable=True),
        )
