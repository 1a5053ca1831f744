"""BillingUsageEvent. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

import datetime
from typing import Any

from attrs import field, frozen

from .. import models
from ..base import Field, Model
from ..codec import (
    MOMENT,
    NUMBER,
    TEXT,
    Choice,
)

__all__ = ["BillingUsageEvent"]


@frozen(kw_only=True, getstate_setstate=False)
class BillingUsageEvent(Model):
    """Usage of one kind in one span of time. Era 0.36.0 only.

    Attributes:
        bucket_start: Start of the span.
        bucket_end: End of the span.
        base_model: Model used.
        user_id: Id of the user.
        user_name: Name of the user.
        session_id: Session the usage belongs to, when it belongs to one.
        project_id: Project the usage belongs to.
        estimated_cost_usd: Estimated cost in US dollars.
        effective_rate_usd_per_million_tokens: Price in US dollars per million tokens.
        effective_rate_usd_per_gigabyte_month: Price in US dollars per gigabyte and month.
        event_info: Kind and amount of a usage. A server may leave the tag out, in which case the keys
            decide; an object that fits several members is then of no known kind. Era 0.36.0
            only.
    """

    bucket_start: datetime.datetime
    bucket_end: datetime.datetime
    base_model: str | None = field(default=None)
    user_id: str | None = field(default=None)
    user_name: str | None = field(default=None)
    session_id: str | None = field(default=None)
    project_id: str | None = field(default=None)
    estimated_cost_usd: float | None = field(default=None)
    effective_rate_usd_per_million_tokens: float | None = field(default=None)
    effective_rate_usd_per_gigabyte_month: float | None = field(default=None)
    event_info: models.BillingEventInfo
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:
        from .checkpoint_billing_event import CheckpointBillingEvent
        from .sampling_prefill_billing_event import SamplingPrefillBillingEvent
        from .sampling_sample_billing_event import SamplingSampleBillingEvent
        from .storage_billing_event import StorageBillingEvent
        from .training_billing_event import TrainingBillingEvent

        return (
            Field("bucket_start", "bucket_start", MOMENT, required=True),
            Field("bucket_end", "bucket_end", MOMENT, required=True),
            Field("base_model", "base_model", TEXT, nullable=True),
            Field("user_id", "user_id", TEXT, nullable=True),
            Field("user_name", "user_name", TEXT, nullable=True),
            Field("session_id", "session_id", TEXT, nullable=True),
            Field("project_id", "project_id", TEXT, nullable=True),
            Field("estimated_cost_usd", "estimated_cost_usd", NUMBER, nullable=True),
            Field(
                "effective_rate_usd_per_million_tokens",
                "effective_rate_usd_per_million_tokens",
                NUMBER,
                nullable=True,
            ),
            Field(
                "effective_rate_usd_per_gigabyte_month",
                "effective_rate_usd_per_gigabyte_month",
                NUMBER,
                nullable=True,
            ),
            Field(
                "event_info",
                "event_info",
                Choice(
                    models=(
                        TrainingBillingEvent,
                        SamplingPrefillBillingEvent,
                        SamplingSampleBillingEvent,
                        CheckpointBillingEvent,
                        StorageBillingEvent,
                    )
                ),
                required=True,
            ),
        )
